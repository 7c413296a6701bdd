// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2 --tpc-insert-reshards --tpc-lower-reshards | FileCheck %s

// Of two consecutive parallel blocks, the second adds to the regrouped sum of the first.
// CHECK-LABEL: @main
// CHECK-COUNT-2: tpc.all_reduce
// CHECK-NOT: tpc.all_reduce
// CHECK: return
tpc.weight @a in "w" at 0 : tensor<8x6xf32>
tpc.weight @b in "w" at 0 : tensor<6x8xf32>
tpc.weight @s in "w" at 0 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %a = tpc.parameter @a : tensor<8x6xf32>
  %b = tpc.parameter @b : tensor<6x8xf32>
  %s = tpc.parameter @s : tensor<8xf32>
  %n0 = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %f0 = tpc.matmul %n0, %a : tensor<5x8xf32>, tensor<8x6xf32> -> tensor<5x6xf32>
  %p0 = tpc.matmul %f0, %b : tensor<5x6xf32>, tensor<6x8xf32> -> tensor<5x8xf32>
  %g0 = tpc.matmul %n0, %a : tensor<5x8xf32>, tensor<8x6xf32> -> tensor<5x6xf32>
  %q0 = tpc.matmul %g0, %b : tensor<5x6xf32>, tensor<6x8xf32> -> tensor<5x8xf32>
  %t0 = tpc.add %x, %p0 : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<5x8xf32>
  %x1 = tpc.add %t0, %q0 : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<5x8xf32>
  %n1 = tpc.rms_norm %x1, %s epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %f1 = tpc.matmul %n1, %a : tensor<5x8xf32>, tensor<8x6xf32> -> tensor<5x6xf32>
  %p1 = tpc.matmul %f1, %b : tensor<5x6xf32>, tensor<6x8xf32> -> tensor<5x8xf32>
  %g1 = tpc.matmul %n1, %a : tensor<5x8xf32>, tensor<8x6xf32> -> tensor<5x6xf32>
  %q1 = tpc.matmul %g1, %b : tensor<5x6xf32>, tensor<6x8xf32> -> tensor<5x8xf32>
  %t1 = tpc.add %x1, %p1 : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<5x8xf32>
  %x2 = tpc.add %t1, %q1 : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<5x8xf32>
  return %x2 : tensor<5x8xf32>
}
