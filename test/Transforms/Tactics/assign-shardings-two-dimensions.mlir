// Splits with tp2x2: in matmuls, rows over one of tpx and tpy and columns over the other;
// elsewhere, both axes together.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2x2 --tpc-insert-reshards --tpc-lower-reshards --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2x2 --split-input-file | FileCheck %s --check-prefix=TACTICS
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp1x4 --split-input-file | FileCheck %s --check-prefix=FLAT
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2x2 --tpc-insert-reshards --tpc-lower-reshards --split-input-file | FileCheck %s --check-prefix=CLEAN
// CLEAN-NOT: {tpc.norm}

// The norm is decomposed; an RMS norm has a sum of squares and no mean. A matmul's operand is
// gathered over the axis of the weight's columns; its result is partial over that of the rows.
// TACTICS: name = "tp"{{.*}}splits = ["32 over tpy 2: up (columns), down (rows)"]
// TACTICS-SAME: name = "rows"
// TACTICS-SAME: axis = "tpx", kind = "all_reduce", why = "norms need mean and variance of a split width"
// TACTICS-SAME: splits = ["8 over tpx 2 in matmuls, over tpx 2 and tpy 2 elsewhere: up (rows), down (columns)"]
// FLAT: splits = ["32 over tpy 4: up (columns), down (rows)"]
// FLAT: tpc.parameter @u {tpc.split = [#tpc.dim<8>, #tpc.dim<32{tpy}>]}
// FLAT: tpc.add {{.*}}#tpc.dim<8{tpy}>
// CHECK-LABEL: @main
// CHECK: %[[X:.*]] = tpc.local_slice %arg0 over ["tpx", "tpy"] dim 1
// CHECK: tpc.parameter @s : tensor<8xf32, #tpc.dist<[8{tpx, tpy}]>>
// CHECK: tpc.parameter @u : tensor<8x32xf32, #tpc.dist<[8{tpx}, 32{tpy}]>>
// CHECK: tpc.parameter @d : tensor<32x8xf32, #tpc.dist<[32{tpy}, 8{tpx}]>>
// CHECK: %[[Q:.*]] = tpc.mul %[[X]], %[[X]]
// CHECK-NEXT: tpc.reduce sum %[[Q]] [1] keep {{.*}} -> tensor<?x1xf32, #tpc.dist<[t, 1], sum{tpx, tpy}>>
// CHECK: tpc.all_reduce {{.*}} over ["tpx", "tpy"]
// CHECK: tpc.rsqrt
// CHECK: %[[G:.*]] = tpc.all_gather {{.*}} over ["tpy"] dim 1 {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8{tpx}]>>
// CHECK-NEXT: %[[P:.*]] = tpc.matmul %[[G]], {{.*}} -> tensor<?x32xf32, #tpc.dist<[t, 32{tpy}], sum{tpx}>>
// CHECK-NEXT: %[[R:.*]] = tpc.reduce_scatter %[[P]] over ["tpx"] dim 1 {{.*}} -> tensor<?x32xf32, #tpc.dist<[t, 32{tpy, tpx}]>>
// CHECK-NEXT: %[[A:.*]] = tpc.gelu tanh %[[R]]
// CHECK-NEXT: %[[H:.*]] = tpc.all_gather %[[A]] over ["tpx"] dim 1
// CHECK-NEXT: %[[M:.*]] = tpc.matmul %[[H]], {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8{tpx}], sum{tpy}>>
// CHECK-NEXT: %[[S:.*]] = tpc.reduce_scatter %[[M]] over ["tpy"] dim 1 {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8{tpx, tpy}]>>
// CHECK-NEXT: tpc.add %[[X]], %[[S]]
tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>> {
  %s = tpc.parameter @s : tensor<8xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %p = tpc.matmul %n, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>> loc("up")
  %a = tpc.gelu tanh %p : tensor<?x32xf32, #tpc.dist<[t, 32]>> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %q = tpc.matmul %a, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("down")
  %r = tpc.add %x, %q : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %r : tensor<?x8xf32, #tpc.dist<[t, 8]>>
}

// -----

// A parallel residual is reduced once. A norm of a value that is not the residual is not
// decomposed.
// CHECK-LABEL: @main
// CHECK: tpc.layer_norm
// CHECK: %[[A:.*]] = tpc.matmul {{.*}} sum{tpy}>>
// CHECK: %[[B:.*]] = tpc.matmul {{.*}} sum{tpy}>>
// CHECK-NOT: over ["tpy"]
// CHECK: %[[C:.*]] = tpc.add %[[A]], %[[B]] {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8{tpx}], sum{tpy}>>
// CHECK-NEXT: tpc.reduce_scatter %[[C]] over ["tpy"] dim 1
// CHECK-NOT: over ["tpy"]
tpc.weight @s in "w" at 0 : tensor<6xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
tpc.weight @v in "w" at 0 : tensor<8x16xf32>
tpc.weight @e in "w" at 0 : tensor<16x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>, %y: tensor<?x6xf32, #tpc.dist<[t, 6]>>)
    -> (tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x6xf32, #tpc.dist<[t, 6]>>) {
  %s = tpc.parameter @s : tensor<6xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %v = tpc.parameter @v : tensor<8x16xf32>
  %e = tpc.parameter @e : tensor<16x8xf32>
  %n = tpc.layer_norm %y, %s epsilon 1.0e-5 : tensor<?x6xf32, #tpc.dist<[t, 6]>>, tensor<6xf32> -> tensor<?x6xf32, #tpc.dist<[t, 6]>>
  %p = tpc.matmul %x, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %q = tpc.matmul %p, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %a = tpc.matmul %x, %v : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x16xf32> -> tensor<?x16xf32, #tpc.dist<[t, 16]>>
  %b = tpc.matmul %a, %e : tensor<?x16xf32, #tpc.dist<[t, 16]>>, tensor<16x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %r = tpc.add %x, %q : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %z = tpc.add %r, %b : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %z, %n : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x6xf32, #tpc.dist<[t, 6]>>
}

// -----

// Rows and columns of a weight are the same factor class, but an axis splits only one dimension of
// a matrix. So this matmul is replicated.
// TACTICS: "not split, on every rank: square"
// CHECK-LABEL: @main
// CHECK: tpc.parameter @a : tensor<8x8xf32>
// CHECK: %[[G:.*]] = tpc.all_gather {{.*}} over ["tpx", "tpy"] dim 1 {{.*}} -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
// CHECK-NEXT: tpc.matmul %[[G]]
// CHECK-NEXT: tpc.local_slice {{.*}} over ["tpx", "tpy"] dim 1
tpc.weight @s in "w" at 0 : tensor<8xf32>
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 1024 : tensor<32x8xf32>
tpc.weight @a in "w" at 2048 : tensor<8x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>> {
  %s = tpc.parameter @s : tensor<8xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %a = tpc.parameter @a : tensor<8x8xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %p = tpc.matmul %n, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>> loc("up")
  %q = tpc.matmul %p, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("down")
  %r = tpc.add %x, %q : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %b = tpc.matmul %r, %a : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>> loc("square")
  %z = tpc.add %r, %b : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %z : tensor<?x8xf32, #tpc.dist<[t, 8]>>
}

// -----

// A shift along the residual's width crosses shards of both axes: one expected permute.
// TACTICS: name = "rows"
// TACTICS-SAME: {axis = "tpx", kind = "collective_permute", size = "8", why = "shifts along a dimension that tpx splits"}
// TACTICS-SAME: {axis = "tpy", kind = "collective_permute", size = "8", why = "shifts along a dimension that tpy splits"}
// CHECK-LABEL: @main
// CHECK: tpc.collective_permute {{.*}} over ["tpx", "tpy"] dim 1 from 3 every 8
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>> {
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %h = tpc.matmul %x, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %a = tpc.gelu tanh %h : tensor<?x32xf32, #tpc.dist<[t, 32]>> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %y = tpc.matmul %a, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %n = tpc.tanh %y : tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %r = tpc.roll %n dim 1 from 3 every 8 : tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %r : tensor<?x8xf32, #tpc.dist<[t, 8]>>
}

// -----

// An annotation splits the residual over tpy only, and nothing remains to split over tpx. The first
// matmul's partial sums over tpy are still expected.
// CHECK-LABEL: @main
// CHECK: tpc.matmul {{.*}} sum{tpy}>>
// CHECK-NEXT: tpc.all_reduce {{.*}} over ["tpy"]
tpc.weight @u in "w" at 0 : tensor<8x32xf32>
tpc.weight @d in "w" at 0 {tpc.sharding = [#tpc.dim<32>, #tpc.dim<8{tpy}>]} : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> tensor<?x8xf32, #tpc.dist<[t, 8]>> {
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %p = tpc.matmul %x, %u : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[t, 32]>>
  %q = tpc.matmul %p, %d : tensor<?x32xf32, #tpc.dist<[t, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  %r = tpc.add %x, %q : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?x8xf32, #tpc.dist<[t, 8]>> -> tensor<?x8xf32, #tpc.dist<[t, 8]>>
  return %r : tensor<?x8xf32, #tpc.dist<[t, 8]>>
}
