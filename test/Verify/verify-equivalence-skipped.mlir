// A model whose sizes cannot be reduced has no randomized check; a warning gives the reason.
// RUN: split-file %s %t
// RUN: tpc-opt %t/every-second.mlir "--tpc-verify-equivalence=reference=%t/every-second.mlir" 2>&1 | FileCheck %s
// RUN: tpc-opt %t/every-second.mlir "--tpc-verify-equivalence=reference=%t/every-second.mlir symbolic=false" 2>&1 -o /dev/null | FileCheck %s --check-prefix=ALONE
// The same model with smaller sizes has a randomized check.
// RUN: sed 's/4099/19/g; s/2050/10/g' %t/every-second.mlir > %t/small.mlir
// RUN: tpc-opt %t/small.mlir "--tpc-verify-equivalence=reference=%t/small.mlir" 2>&1 | FileCheck %s --check-prefix=SMALL
// One slice whose sizes are coprime does not prevent the reduction of others: 4099 = 4096 + 3, also
// with reduced sizes. The same holds for slices with an offset, concatenations, and blocks of
// composite sizes.
// RUN: tpc-opt %t/slices.mlir "--tpc-verify-equivalence=reference=%t/slices.mlir" 2>&1 | FileCheck %s --check-prefix=SMALL
// Faults in these programs are found.
// RUN: sed 's/from 4 :/from 3 :/' %t/slices.mlir > %t/wrong.mlir
// RUN: not tpc-opt %t/wrong.mlir "--tpc-verify-equivalence=reference=%t/slices.mlir symbolic=false" 2>&1 | FileCheck %s --check-prefix=WRONG

// CHECK: warning: tpc-verify-equivalence: proved, but not run at small sizes as well: its sizes cannot be made small:
// CHECK-SAME: ; size 4099 stays as it is for '{{.*}}' (tpc.slice)
// CHECK: module attributes {tpc.no_randomized_check = "its sizes cannot be made small:
// ALONE: warning: tpc-verify-equivalence: not run at small sizes: its sizes
// SMALL-NOT: warning
// SMALL-NOT: tpc.no_randomized_check
// WRONG: run at small sizes, element [0, 0] of output 0 is not what the model computes

//--- every-second.mlir
module {
  tpc.weight @w in "w" at 0 : tensor<4099x4099xf32>
  func.func @main(%x: tensor<?x4099xf32, #tpc.dist<[s, 4099]>>) -> tensor<?x2050xf32, #tpc.dist<[s, 2050]>> {
    %w = tpc.parameter @w : tensor<4099x4099xf32>
    %0 = tpc.matmul %x, %w : tensor<?x4099xf32, #tpc.dist<[s, 4099]>>, tensor<4099x4099xf32> -> tensor<?x4099xf32, #tpc.dist<[s, 4099]>>
    %1 = tpc.matmul %0, %w : tensor<?x4099xf32, #tpc.dist<[s, 4099]>>, tensor<4099x4099xf32> -> tensor<?x4099xf32, #tpc.dist<[s, 4099]>>
    %2 = tpc.slice %1 dim 1 from 0 step 2 : tensor<?x4099xf32, #tpc.dist<[s, 4099]>> -> tensor<?x2050xf32, #tpc.dist<[s, 2050]>>
    return %2 : tensor<?x2050xf32, #tpc.dist<[s, 2050]>>
  }
}
//--- slices.mlir
!x = tensor<?x4099xf32, #tpc.dist<[s, 4099]>>
!head = tensor<?x4096xf32, #tpc.dist<[s, 4096]>>
!tail = tensor<?x4095xf32, #tpc.dist<[s, 4095]>>
!y = tensor<?x4001xf32, #tpc.dist<[s, 4001]>>
!z = tensor<?x94xf32, #tpc.dist<[s, 94]>>
module {
  tpc.weight @w in "w" at 0 : tensor<4099x4099xf32>
  tpc.weight @u in "w" at 67207204 : tensor<4096x4096xf32>
  func.func @main(%x: !x) -> !tail {
    %w = tpc.parameter @w : tensor<4099x4099xf32>
    %u = tpc.parameter @u : tensor<4096x4096xf32>
    %0 = tpc.matmul %x, %w : !x, tensor<4099x4099xf32> -> !x
    %1 = tpc.slice %0 dim 1 from 3 : !x -> !head
    %2 = tpc.matmul %1, %u : !head, tensor<4096x4096xf32> -> !head
    %3 = tpc.reshape %2 : !head -> tensor<?x64x64xf32, #tpc.dist<[s, 64, 64]>>
    %4 = tpc.relu %3 : tensor<?x64x64xf32, #tpc.dist<[s, 64, 64]>> -> tensor<?x64x64xf32, #tpc.dist<[s, 64, 64]>>
    %5 = tpc.reshape %4 : tensor<?x64x64xf32, #tpc.dist<[s, 64, 64]>> -> !head
    %6 = tpc.slice %5 dim 1 from 4 : !head -> !y
    %7 = tpc.slice %5 dim 1 from 4002 : !head -> !z
    %8 = tpc.concat %6, %7 dim 1 : !y, !z -> !tail
    return %8 : !tail
  }
}
