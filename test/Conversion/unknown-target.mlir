// RUN: not tpc-opt %s --tpc-widen-products 2>&1 | FileCheck %s

// CHECK: error: 'tpc.target' is "abacus", and there is no such target; there are {{.*}}cpu{{.*}}cuda
module attributes {tpc.target = "abacus"} {
}
