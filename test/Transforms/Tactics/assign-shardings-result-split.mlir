// If an op needs the annotated dimension whole, only the annotated tensor is stored in shards.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,manual --split-input-file | FileCheck %s
// RUN: tpc-opt %s --split-input-file --tpc-evaluate=shape=batch=5 --tpc-assign-shardings=shard=tp2,manual --tpc-insert-reshards --tpc-evaluate=shape=batch=5 --tpc-lower-reshards --tpc-localize --tpc-evaluate=shape=batch=5 -o /dev/null | FileCheck %s --check-prefix=SAME
// The collectives of these annotations are expected, so no `allow-reshard` is needed.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,manual --tpc-insert-reshards --tpc-lower-reshards --split-input-file | FileCheck %s --check-prefix=LOWERED

// The weight is gathered if it is smaller than the result that its matmul would reduce.
// CHECK: name = "annotations"
// CHECK-SAME: {axis = "tp", kind = "all_gather", size = "16", why = "'w' is stored sharded"}
// CHECK-SAME: "w [tp, -]: 16 over tp 2 in this tensor only; 'n' (tpc.softmax) needs all of it"
// CHECK-SAME: "'w' is gathered over tp before 'y' (tpc.matmul): {{.*}} us"
// CHECK-SAME: 'y' (tpc.matmul): tp stays on nothing ({{.*}} us), not on 16 ({{.*}} us)
// CHECK: tpc.parameter @w {tpc.split = [#tpc.dim<16{tp}>, #tpc.dim<8>]}
// CHECK-NOT: tpc.split
// SAME-COUNT-2: output 0 is the same
// LOWERED-LABEL: func.func @main
// LOWERED: %[[W:.*]] = tpc.parameter @w
// LOWERED: tpc.softmax
// LOWERED-NEXT: %[[G:.*]] = tpc.all_gather %[[W]]
// LOWERED-NEXT: tpc.matmul %{{.*}}, %[[G]]
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{tp}>, #tpc.dim<8>]} : tensor<16x8xf32>
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<16x8xf32>
  %n = tpc.softmax %x dim 1 : tensor<4x16xf32> -> tensor<4x16xf32> loc("n")
  %y = tpc.matmul %n, %w : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32> loc("y")
  return %y : tensor<4x8xf32>
}

// -----

// A large weight is not gathered: the matmul sums over its shard.
// CHECK: 'y' (tpc.matmul): tp stays on 4096 ({{.*}} us)
// CHECK-NOT: is gathered
// CHECK: tpc.matmul {{.*}} {tpc.split = [#tpc.dim<4>, #tpc.dim<4096>, #tpc.dim<4096{tp}>]}
// SAME-COUNT-2: output 0 is the same
// LOWERED-LABEL: func.func @main
// LOWERED: tpc.local_slice
// LOWERED: tpc.matmul
// LOWERED-NEXT: tpc.all_reduce
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<4096{tp}>, #tpc.dim<4096>]} : tensor<4096x4096xf32>
func.func @main(%x: tensor<4x4096xf32>) -> tensor<4x4096xf32> {
  %w = tpc.parameter @w : tensor<4096x4096xf32>
  %n = tpc.softmax %x dim 1 : tensor<4x4096xf32> -> tensor<4x4096xf32> loc("n")
  %y = tpc.matmul %n, %w : tensor<4x4096xf32>, tensor<4096x4096xf32> -> tensor<4x4096xf32> loc("y")
  return %y : tensor<4x4096xf32>
}

// -----

// An annotated value: its partial sums are reduce-scattered, and gathered before the norm. The
// other user reads the same gathered value, at no cost.
// CHECK: "fc2 [-, tp]: 16 over tp 2 in this tensor only; 'norm' (tpc.layer_norm) needs all of it"
// CHECK-SAME: "'fc2' is gathered over tp before 'norm' (tpc.layer_norm), 'residual' (tpc.add): {{.*}} us"
// CHECK: tpc.matmul {{.*}}{tpc.result_split = [#tpc.dim<batch>, #tpc.dim<16{tp}>],
// CHECK-SAME: tpc.split = [#tpc.dim<batch>, #tpc.dim<16>, #tpc.dim<64{tp}>]}
// SAME-COUNT-2: output 0 is the same
// LOWERED-LABEL: func.func @main
// LOWERED: tpc.matmul
// LOWERED: tpc.matmul
// LOWERED-NEXT: %[[S:.*]] = tpc.reduce_scatter
// LOWERED-NEXT: %[[G:.*]] = tpc.all_gather %[[S]]
// LOWERED: tpc.layer_norm %[[G]]
// LOWERED: tpc.add %{{.*}}, %[[G]]
tpc.weight @w1 in "w" at 0 {tpc.sharding = [unit, #tpc.dim<64{tp}>]} : tensor<16x64xf32>
tpc.weight @w2 in "w" at 4096 : tensor<64x16xf32>
tpc.weight @s in "w" at 8192 : tensor<16xf32>
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
  %w1 = tpc.parameter @w1 : tensor<16x64xf32>
  %w2 = tpc.parameter @w2 : tensor<64x16xf32>
  %s = tpc.parameter @s : tensor<16xf32>
  %h = tpc.matmul %x, %w1 : tensor<?x16xf32, #tpc.dist<[batch, 16]>>, tensor<16x64xf32> -> tensor<?x64xf32, #tpc.dist<[batch, 64]>> loc("fc1")
  %y = tpc.matmul %h, %w2 {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<16{tp}>]} : tensor<?x64xf32, #tpc.dist<[batch, 64]>>, tensor<64x16xf32> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("fc2")
  %n = tpc.layer_norm %y, %s epsilon 1.0e-5 : tensor<?x16xf32, #tpc.dist<[batch, 16]>>, tensor<16xf32> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("norm")
  %z = tpc.add %n, %y : tensor<?x16xf32, #tpc.dist<[batch, 16]>>, tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("residual")
  return %z : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
}

// -----

// The gather moves down, so that ops before the one that needs the whole value work on shards.
// CHECK: 'act' (tpc.gelu): tp stays on 16 (0.0 us)
// CHECK: tpc.exp {{.*}}tpc.split = [#tpc.dim<4>, #tpc.dim<16{tp}>]
// CHECK: tpc.gelu {{.*}}tpc.split = [#tpc.dim<4>, #tpc.dim<16{tp}>]
// CHECK: tpc.softmax
// CHECK-NOT: tpc.split
// SAME-COUNT-2: output 0 is the same
// LOWERED-LABEL: func.func @main
// LOWERED: tpc.exp
// LOWERED: tpc.gelu
// LOWERED-NEXT: tpc.all_gather
// LOWERED-NEXT: tpc.softmax
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %e = tpc.exp %x {tpc.sharding = [#tpc.dim<4>, #tpc.dim<16{tp}>]} : tensor<4x16xf32> -> tensor<4x16xf32> loc("e")
  %g = tpc.gelu tanh %e : tensor<4x16xf32> -> tensor<4x16xf32> loc("act")
  %y = tpc.softmax %g dim 1 : tensor<4x16xf32> -> tensor<4x16xf32> loc("n")
  return %y : tensor<4x16xf32>
}

// -----

// A layer's weights are gathered in the layer's function, so that only one layer's are whole at a
// time.
// CHECK: "'a' and 1 more is gathered over tp before 'fc' (tpc.matmul): {{.*}} us"
// CHECK: func.func private @layer({{.*}}: tensor<16x16xf32> {tpc.split = [#tpc.dim<16{tp}>, #tpc.dim<16>]})
// SAME-COUNT-2: output 0 is the same
// LOWERED-LABEL: func.func private @layer
// LOWERED: tpc.softmax
// LOWERED-NEXT: tpc.all_gather
// LOWERED-NEXT: tpc.matmul
// LOWERED-LABEL: func.func @main
// LOWERED-NOT: tpc.all_gather
tpc.weight @a in "w" at 0 {tpc.sharding = [#tpc.dim<16{tp}>, #tpc.dim<16>]} : tensor<16x16xf32>
tpc.weight @b in "w" at 1024 {tpc.sharding = [#tpc.dim<16{tp}>, #tpc.dim<16>]} : tensor<16x16xf32>
func.func private @layer(%x: tensor<64x16xf32>, %w: tensor<16x16xf32>) -> tensor<64x16xf32> {
  %n = tpc.softmax %x dim 1 : tensor<64x16xf32> -> tensor<64x16xf32> loc("n")
  %y = tpc.matmul %n, %w : tensor<64x16xf32>, tensor<16x16xf32> -> tensor<64x16xf32> loc("fc")
  return %y : tensor<64x16xf32>
}
func.func @main(%x: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %a = tpc.parameter @a : tensor<16x16xf32>
  %b = tpc.parameter @b : tensor<16x16xf32>
  %y = call @layer(%x, %a) : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  %z = call @layer(%y, %b) : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  return %z : tensor<64x16xf32>
}
