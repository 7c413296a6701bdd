// A model whose sizes cannot be made small has no second opinion, and that is said.
// RUN: tpc-opt %s "--tpc-verify-equivalence=reference=%s" 2>&1 | FileCheck %s
// RUN: tpc-opt %s "--tpc-verify-equivalence=reference=%s symbolic=false" 2>&1 -o /dev/null | FileCheck %s --check-prefix=ALONE
// Smaller, it has one.
// RUN: sed 's/4099/19/g; s/4098/18/g' %s > %t.mlir
// RUN: tpc-opt %t.mlir "--tpc-verify-equivalence=reference=%t.mlir" 2>&1 | FileCheck %s --check-prefix=SMALL

// CHECK: warning: tpc-verify-equivalence: proved, but not run at small sizes as well: its sizes cannot be made small:
// CHECK: module attributes {tpc.no_second_opinion = "its sizes cannot be made small:
// ALONE: warning: tpc-verify-equivalence: not run at small sizes: its sizes
// SMALL-NOT: warning
// SMALL-NOT: tpc.no_second_opinion
module {
  tpc.weight @w in "w" at 0 : tensor<4099x4099xf32>
  func.func @main(%x: tensor<?x4099xf32, #tpc.dist<[s, 4099]>>) -> tensor<?x4098xf32, #tpc.dist<[s, 4098]>> {
    %w = tpc.parameter @w : tensor<4099x4099xf32>
    %0 = tpc.matmul %x, %w : tensor<?x4099xf32, #tpc.dist<[s, 4099]>>, tensor<4099x4099xf32> -> tensor<?x4099xf32, #tpc.dist<[s, 4099]>>
    %1 = tpc.matmul %0, %w : tensor<?x4099xf32, #tpc.dist<[s, 4099]>>, tensor<4099x4099xf32> -> tensor<?x4099xf32, #tpc.dist<[s, 4099]>>
    %2 = tpc.slice %1 dim 1 from "1" : tensor<?x4099xf32, #tpc.dist<[s, 4099]>> -> tensor<?x4098xf32, #tpc.dist<[s, 4098]>>
    return %2 : tensor<?x4098xf32, #tpc.dist<[s, 4098]>>
  }
}
