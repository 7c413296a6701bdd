// RUN: not tpc-opt %s --tpc-widen-matmuls 2>&1 | FileCheck %s

// CHECK: error: 'tpc.target' is "abacus", which is not a target; targets are {{.*}}cpu{{.*}}cuda
module attributes {tpc.target = "abacus"} {
}
