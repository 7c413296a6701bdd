// Annotations split two classes over one axis, and both occur in one op. Estimated seconds decide
// which split the op keeps, and a remark names the op.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,manual --split-input-file | FileCheck %s
// RUN: tpc-opt %s --split-input-file --tpc-evaluate=shape=batch=5 --tpc-assign-shardings=shard=tp2,manual --tpc-insert-reshards --tpc-evaluate=shape=batch=5 --tpc-lower-reshards --tpc-localize --tpc-evaluate=shape=batch=5 -o /dev/null | FileCheck %s --check-prefix=SAME
// RUN: tpc-opt %s --split-input-file --tpc-assign-shardings=shard=tp2,manual --tpc-insert-reshards --tpc-lower-reshards | FileCheck %s --check-prefix=LOWERED

// Costs assume a batch of 1 sample, and w has 4096 columns. So x is gathered, and w is not.
// CHECK: name = "conflicts"
// CHECK-SAME: 'fc' (tpc.matmul): tp stays on 4096 ({{.*}} us), not on batch ({{.*}} us)
// SAME-COUNT-2: output 0 is the same
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<4096{tp}>]} : tensor<16x4096xf32>
// LOWERED-LABEL: func.func @main
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>> {tpc.name = "x", tpc.sharding = [#tpc.dim<batch{tp}>, #tpc.dim<16>]})
    -> tensor<?x4096xf32, #tpc.dist<[batch, 4096]>> {
  // CHECK: tpc.parameter @w {tpc.split = [#tpc.dim<16>, #tpc.dim<4096{tp}>]}
  %w = tpc.parameter @w : tensor<16x4096xf32>
  // CHECK: tpc.gelu {{.*}}{tpc.split = [#tpc.dim<batch{tp}>, #tpc.dim<16>]}
  %g = tpc.gelu tanh %x : tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("act")
  // CHECK: tpc.matmul {{.*}}{tpc.split = [#tpc.dim<batch>, #tpc.dim<4096{tp}>, #tpc.dim<16>]}
  // LOWERED: tpc.all_gather
  // LOWERED-SAME: [batch, 16]
  %y = tpc.matmul %g, %w : tensor<?x16xf32, #tpc.dist<[batch, 16]>>, tensor<16x4096xf32> -> tensor<?x4096xf32, #tpc.dist<[batch, 4096]>> loc("fc")
  return %y : tensor<?x4096xf32, #tpc.dist<[batch, 4096]>>
}

// -----

// Now x is large and w is small: w is gathered. The order of the annotations is the same.
// CHECK: 'fc' (tpc.matmul): tp stays on 8192 ({{.*}} us), not on 4 (
// SAME-COUNT-2: output 0 is the same
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<4{tp}>]} : tensor<16x4xf32>
// LOWERED-LABEL: func.func @main
func.func @main(%x: tensor<8192x16xf32> {tpc.name = "x", tpc.sharding = [#tpc.dim<8192{tp}>, #tpc.dim<16>]})
    -> tensor<8192x4xf32> {
  %w = tpc.parameter @w : tensor<16x4xf32>
  %g = tpc.gelu tanh %x : tensor<8192x16xf32> -> tensor<8192x16xf32> loc("act")
  // LOWERED-NOT: tpc.all_gather{{.*}}8192
  %y = tpc.matmul %g, %w : tensor<8192x16xf32>, tensor<16x4xf32> -> tensor<8192x4xf32> loc("fc")
  return %y : tensor<8192x4xf32>
}

// -----

// A weight that is annotated as replicated is loaded whole, and sliced at its uses.
// SAME-COUNT-2: output 0 is the same
tpc.weight @w1 in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<64{tp}>]} : tensor<16x64xf32>
tpc.weight @w2 in "w" at 4096 {tpc.sharding = [#tpc.dim<64>, #tpc.dim<16>]} : tensor<64x16xf32>
// LOWERED-LABEL: func.func @main
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
  // CHECK: tpc.parameter @w1 {tpc.split
  // CHECK: tpc.parameter @w2 :
  %w1 = tpc.parameter @w1 : tensor<16x64xf32>
  %w2 = tpc.parameter @w2 : tensor<64x16xf32>
  // LOWERED: tpc.local_slice
  // LOWERED: tpc.all_reduce
  %h = tpc.matmul %x, %w1 : tensor<?x16xf32, #tpc.dist<[batch, 16]>>, tensor<16x64xf32> -> tensor<?x64xf32, #tpc.dist<[batch, 64]>> loc("fc1")
  %y = tpc.matmul %h, %w2 : tensor<?x64xf32, #tpc.dist<[batch, 64]>>, tensor<64x16xf32> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("fc2")
  return %y : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
}

// -----

// Two layers may split a shared value differently: one use of the bias is split over tp, the other
// is whole.
// SAME-COUNT-2: output 0 is the same
tpc.weight @w1 in "w" at 0 {tpc.sharding = [#tpc.dim<64>, #tpc.dim<64{tp}>]} : tensor<64x64xf32>
tpc.weight @w2 in "w" at 16384 : tensor<64x64xf32>
tpc.weight @zero in "w" at 32768 : tensor<64xf32>
func.func @main(%x: tensor<?x64xf32, #tpc.dist<[batch, 64]>>) -> tensor<?x64xf32, #tpc.dist<[batch, 64]>> {
  %w1 = tpc.parameter @w1 : tensor<64x64xf32>
  %w2 = tpc.parameter @w2 : tensor<64x64xf32>
  // CHECK-DAG: tpc.parameter @zero {tpc.split = [#tpc.dim<64{tp}>]}
  // CHECK-DAG: tpc.parameter @zero : tensor<64xf32>
  // CHECK-DAG: tpc.constant dense<1.000000e+00>
  %zero = tpc.parameter @zero : tensor<64xf32>
  %mask = tpc.constant dense<1.0> : tensor<64xf32> : tensor<64xf32>
  %h = tpc.matmul %x, %w1 bias %zero : tensor<?x64xf32, #tpc.dist<[batch, 64]>>, tensor<64x64xf32> bias tensor<64xf32> -> tensor<?x64xf32, #tpc.dist<[batch, 64]>> loc("fc1")
  %m = tpc.mul %h, %mask : tensor<?x64xf32, #tpc.dist<[batch, 64]>>, tensor<64xf32> -> tensor<?x64xf32, #tpc.dist<[batch, 64]>>
  %y = tpc.matmul %m, %w2 bias %zero : tensor<?x64xf32, #tpc.dist<[batch, 64]>>, tensor<64x64xf32> bias tensor<64xf32> -> tensor<?x64xf32, #tpc.dist<[batch, 64]>> loc("fc2")
  %n = tpc.mul %y, %mask : tensor<?x64xf32, #tpc.dist<[batch, 64]>>, tensor<64xf32> -> tensor<?x64xf32, #tpc.dist<[batch, 64]>>
  return %n : tensor<?x64xf32, #tpc.dist<[batch, 64]>>
}
