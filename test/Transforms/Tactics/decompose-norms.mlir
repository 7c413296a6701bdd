// A norm over a dimension that tp splits within a layer is decomposed. A norm over the residual's
// width, or over an unsplit dimension, is not.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-coalesce-collectives --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,sp --tpc-insert-reshards --tpc-lower-reshards --split-input-file | FileCheck %s --check-prefix=SP
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2x2 --tpc-insert-reshards --split-input-file | FileCheck %s --check-prefix=TWO
// RUN: tpc-opt %s --tpc-evaluate=shape=b=2,s=3 --tpc-assign-shardings=shard=tp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-coalesce-collectives --tpc-evaluate=shape=b=2,s=3 --split-input-file | FileCheck %s --check-prefix=SAME
// SAME-COUNT-5: output 0 is the same

// OLMo 2: queries and keys are normalized over all heads. Both sums of squares of a token share one
// all-reduce.
// CHECK-LABEL: @main
// CHECK: tpc.rms_norm %arg0
// CHECK-DAG: tpc.reduce sum {{.*}} -> tensor<?x1xf32, #tpc.dist<[b*s, 1], sum{tp}, local>>
// CHECK-DAG: tpc.reduce sum {{.*}} -> tensor<?x1xf32, #tpc.dist<[b*s, 1], sum{tp}, local>>
// CHECK: %[[S:.*]] = tpc.concat {{.*}} dim 1
// CHECK: tpc.all_reduce %[[S]] over ["tp"] {{.*}} tensor<?x2xf32
// CHECK: tpc.attention {{.*}}4{tp}, 2
// CHECK: tpc.all_reduce {{.*}} -> tensor<?x8xf32
// CHECK-NOT: tpc.all_reduce
// A single number per token is not scattered. Only the residual is gathered.
// SP-LABEL: @main
// SP: tpc.rms_norm
// SP: %[[Q:.*]] = tpc.reduce sum
// SP-NOT: over ["tp"]
// SP: tpc.all_reduce %{{.*}} over ["tp"] {{.*}} tensor<?x1xf32
// SP: tpc.rsqrt {{.*}} -> tensor<?x1xf32, #tpc.dist<[b*s, 1]>>
// SP-NOT: tpc.all_gather
// SP: tpc.attention
// TWO-LABEL: @main
// TWO-NOT: tpc.rms_norm
// TWO: tpc.reduce sum {{.*}} -> tensor<?x1xf32, #tpc.dist<[b*s, 1], sum{tpx, tpy}>>
// TWO: tpc.attention {{.*}}#tpc.dist<[b, s, 4{tpy, tpx}, 2]>
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x4x2xf32, #tpc.dist<[b, s, 4, 2]>>
tpc.weight @n in "w" at 0 : tensor<8xf32>
tpc.weight @nq in "w" at 32 : tensor<8xf32>
tpc.weight @nk in "w" at 64 : tensor<8xf32>
tpc.weight @q in "w" at 96 : tensor<8x8xf32>
tpc.weight @k in "w" at 352 : tensor<8x8xf32>
tpc.weight @v in "w" at 608 : tensor<8x8xf32>
tpc.weight @o in "w" at 864 : tensor<8x8xf32>
func.func @main(%x: !x) -> !x {
  %n = tpc.parameter @n : tensor<8xf32>
  %nq = tpc.parameter @nq : tensor<8xf32>
  %nk = tpc.parameter @nk : tensor<8xf32>
  %wq = tpc.parameter @q : tensor<8x8xf32>
  %wk = tpc.parameter @k : tensor<8x8xf32>
  %wv = tpc.parameter @v : tensor<8x8xf32>
  %wo = tpc.parameter @o : tensor<8x8xf32>
  %m = tpc.rms_norm %x, %n epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %q0 = tpc.matmul %m, %wq : !x, tensor<8x8xf32> -> !x
  %q1 = tpc.rms_norm %q0, %nq epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %q = tpc.reshape %q1 : !x -> !h
  %k0 = tpc.matmul %m, %wk : !x, tensor<8x8xf32> -> !x
  %k1 = tpc.rms_norm %k0, %nk epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %k = tpc.reshape %k1 : !x -> !h
  %v0 = tpc.matmul %m, %wv : !x, tensor<8x8xf32> -> !x
  %v = tpc.reshape %v0 : !x -> !h
  %a = tpc.attention causal %q, %k, %v scale 0.5 : !h, !h, !h -> !h
  %c = tpc.reshape %a : !h -> !x
  %o = tpc.matmul %c, %wo : !x, tensor<8x8xf32> -> !x
  %r = tpc.add %x, %o : !x, !x -> !x
  return %r : !x
}

// -----

// A norm over the inner width of an MLP (BitNet, EVA-02), with a mean and a bias.
// CHECK-LABEL: @main
// CHECK: tpc.layer_norm %arg0
// CHECK-NOT: tpc.layer_norm
// CHECK: tpc.reduce sum {{.*}} sum{tp}
// CHECK: tpc.all_reduce
// CHECK: tpc.reduce sum {{.*}} sum{tp}
// CHECK: tpc.all_reduce
// CHECK: tpc.rsqrt
// CHECK: tpc.matmul {{.*}}, tensor<16x8xf32, #tpc.dist<[32{tp}, 8], local>>
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!f = tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
tpc.weight @n in "w" at 0 : tensor<8xf32>
tpc.weight @m in "w" at 32 : tensor<32xf32>
tpc.weight @e in "w" at 160 : tensor<32xf32>
tpc.weight @u in "w" at 288 : tensor<8x32xf32>
tpc.weight @d in "w" at 1312 : tensor<32x8xf32>
func.func @main(%x: !x) -> !x {
  %n = tpc.parameter @n : tensor<8xf32>
  %m = tpc.parameter @m : tensor<32xf32>
  %e = tpc.parameter @e : tensor<32xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %0 = tpc.layer_norm %x, %n epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %1 = tpc.matmul %0, %u : !x, tensor<8x32xf32> -> !f
  %2 = tpc.gelu none %1 : !f -> !f
  %3 = tpc.layer_norm %2, %m bias %e epsilon 1.0e-5 : !f, tensor<32xf32> bias tensor<32xf32> -> !f
  %4 = tpc.matmul %3, %d : !f, tensor<32x8xf32> -> !x
  %5 = tpc.add %x, %4 : !x, !x -> !x
  return %5 : !x
}

// -----

// Unchanged: norms over the size of a head (Qwen 3), and over a result that is added to the
// residual (OLMo 2).
// CHECK-LABEL: @main
// CHECK: tpc.rms_norm {{.*}}#tpc.dist<[b, s, 4{tp}, 2], local>>
// CHECK: tpc.attention
// CHECK: tpc.all_reduce
// CHECK: tpc.rms_norm {{.*}}#tpc.dist<[b*s, 8], local>>
// With two-dimensional tp, the residual is split, so its norms are decomposed.
// TWO-LABEL: @main
// TWO: tpc.rms_norm {{.*}}#tpc.dist<[b, s, 4{tpy, tpx}, 2]>>
// TWO-NOT: tpc.rms_norm
// TWO: tpc.reduce sum {{.*}} sum{tpx, tpy}
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x4x2xf32, #tpc.dist<[b, s, 4, 2]>>
tpc.weight @n in "w" at 0 : tensor<8xf32>
tpc.weight @nq in "w" at 32 : tensor<2xf32>
tpc.weight @q in "w" at 96 : tensor<8x8xf32>
tpc.weight @k in "w" at 352 : tensor<8x8xf32>
tpc.weight @v in "w" at 608 : tensor<8x8xf32>
tpc.weight @o in "w" at 864 : tensor<8x8xf32>
func.func @main(%x: !x) -> !x {
  %n = tpc.parameter @n : tensor<8xf32>
  %nq = tpc.parameter @nq : tensor<2xf32>
  %wq = tpc.parameter @q : tensor<8x8xf32>
  %wk = tpc.parameter @k : tensor<8x8xf32>
  %wv = tpc.parameter @v : tensor<8x8xf32>
  %wo = tpc.parameter @o : tensor<8x8xf32>
  %q0 = tpc.matmul %x, %wq : !x, tensor<8x8xf32> -> !x
  %q1 = tpc.reshape %q0 : !x -> !h
  %q = tpc.rms_norm %q1, %nq epsilon 1.0e-5 : !h, tensor<2xf32> -> !h
  %k0 = tpc.matmul %x, %wk : !x, tensor<8x8xf32> -> !x
  %k = tpc.reshape %k0 : !x -> !h
  %v0 = tpc.matmul %x, %wv : !x, tensor<8x8xf32> -> !x
  %v = tpc.reshape %v0 : !x -> !h
  %a = tpc.attention causal %q, %k, %v scale 0.5 : !h, !h, !h -> !h
  %c = tpc.reshape %a : !h -> !x
  %o = tpc.matmul %c, %wo : !x, tensor<8x8xf32> -> !x
  %m = tpc.rms_norm %o, %n epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %r = tpc.add %x, %m : !x, !x -> !x
  return %r : !x
}

// -----

// A weight is annotated as replicated, so the norm of its matmul's result is not decomposed.
// CHECK-LABEL: @main
// CHECK: tpc.rms_norm
// CHECK: tpc.all_reduce
// CHECK-NOT: tpc.all_reduce
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!f = tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
tpc.weight @m in "w" at 32 : tensor<32xf32>
tpc.weight @u in "w" at 288 {tpc.sharding = [#tpc.dim<8>, #tpc.dim<32>]} : tensor<8x32xf32>
tpc.weight @d in "w" at 1312 : tensor<32x8xf32>
tpc.weight @e in "w" at 2336 : tensor<8x50xf32>
tpc.weight @f in "w" at 3936 : tensor<50x8xf32>
func.func @main(%x: !x) -> !x {
  %m = tpc.parameter @m : tensor<32xf32>
  %u = tpc.parameter @u : tensor<8x32xf32>
  %d = tpc.parameter @d : tensor<32x8xf32>
  %e = tpc.parameter @e : tensor<8x50xf32>
  %f = tpc.parameter @f : tensor<50x8xf32>
  %1 = tpc.matmul %x, %u : !x, tensor<8x32xf32> -> !f
  %3 = tpc.rms_norm %1, %m epsilon 1.0e-5 : !f, tensor<32xf32> -> !f
  %4 = tpc.matmul %3, %d : !f, tensor<32x8xf32> -> !x
  %5 = tpc.add %x, %4 : !x, !x -> !x
  %6 = tpc.matmul %5, %e : !x, tensor<8x50xf32> -> tensor<?x50xf32, #tpc.dist<[b*s, 50]>>
  %7 = tpc.matmul %6, %f : tensor<?x50xf32, #tpc.dist<[b*s, 50]>>, tensor<50x8xf32> -> !x
  return %7 : !x
}

// -----

// Unchanged: a norm over a latent width (DeepSeek). The next matmul reduces over this width, but its
// columns, which are more, are split instead.
// CHECK-LABEL: @main
// CHECK: tpc.rms_norm {{.*}} -> tensor<?x16xf32, #tpc.dist<[b*s, 16], local>>
// CHECK: tpc.matmul {{.*}}#tpc.dist<[16, 64{tp}], local>>
// CHECK: tpc.all_reduce
// CHECK-NOT: tpc.all_reduce
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!l = tensor<?x16xf32, #tpc.dist<[b*s, 16]>>
!f = tensor<?x64xf32, #tpc.dist<[b*s, 64]>>
tpc.weight @n in "w" at 0 : tensor<16xf32>
tpc.weight @a in "w" at 64 : tensor<8x16xf32>
tpc.weight @u in "w" at 576 : tensor<16x64xf32>
tpc.weight @d in "w" at 4672 : tensor<64x8xf32>
func.func @main(%x: !x) -> !x {
  %n = tpc.parameter @n : tensor<16xf32>
  %a = tpc.parameter @a : tensor<8x16xf32>
  %u = tpc.parameter @u : tensor<16x64xf32>
  %d = tpc.parameter @d : tensor<64x8xf32>
  %0 = tpc.matmul %x, %a : !x, tensor<8x16xf32> -> !l
  %1 = tpc.rms_norm %0, %n epsilon 1.0e-5 : !l, tensor<16xf32> -> !l
  %2 = tpc.matmul %1, %u : !l, tensor<16x64xf32> -> !f
  %3 = tpc.gelu none %2 : !f -> !f
  %4 = tpc.matmul %3, %d : !f, tensor<64x8xf32> -> !x
  %5 = tpc.add %x, %4 : !x, !x -> !x
  return %5 : !x
}
