// RUN: tpc-opt %s --tpc-assign-shardings=shard=dp2,manual | FileCheck %s

// Weights that are sharded over replicas are gathered before the matmul. So the norm has its full
// width and is not decomposed.
// CHECK-LABEL: @main
// CHECK: tpc.rms_norm
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!f = tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
tpc.weight @m in "w" at 32 : tensor<32xf32>
tpc.weight @u in "w" at 288 {tpc.sharding = [unit, #tpc.dim<32{dp}>]} : tensor<8x32xf32>
tpc.weight @d in "w" at 1312 : tensor<32x8xf32>
func.func @main(%x: !x) -> !x {
  %m = tpc.parameter @m : tensor<32xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %1 = tpc.matmul %x, %u : !x, tensor<8x32xf32> -> !f
  %3 = tpc.rms_norm %1, %m epsilon 1.0e-5 : !f, tensor<32xf32> -> !f
  %4 = tpc.matmul %3, %d : !f, tensor<32x8xf32> -> !x
  %5 = tpc.add %x, %4 : !x, !x -> !x
  return %5 : !x
}

