// A norm over all key heads becomes one over repeated heads. The key weights and the norm's scale
// are repeated.
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 --tpc-assign-shardings=shard=tp4 --tpc-insert-reshards | FileCheck %s
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp3 --tpc-assign-shardings=shard=tp3 --tpc-insert-reshards | FileCheck %s --check-prefix=UNEVEN
// CHECK: 4 groups of heads (2 kv heads, each repeated 2 times: {{.*}}) over tp 4: q (columns), k (columns), v (columns), attn, o (rows)
// CHECK: tpc.parameter @k view <0 {{\[\[}}8 x 8], [2 x 4, 2 x 0, 4 x 1{{\]\]}}> : tensor<8x16xf32, #tpc.dist<[8, 4{tp}*4]>>
// CHECK: tpc.parameter @nk view <0 {{\[\[}}2 x 4, 2 x 0, 4 x 1{{\]\]}}> : tensor<16xf32, #tpc.dist<[4{tp}*4]>>
// CHECK-NOT: tpc.rms_norm
// The mean is still over 16 elements.
// CHECK-DAG: tpc.constant dense<6.250000e-02> : tensor<f32>
// CHECK-DAG: tpc.constant dense<3.125000e-02> : tensor<f32>
// CHECK: tpc.attention {{.*}}#tpc.dist<[b, s, 4{tp}, 4]>
// Over three ranks, heads are selected after matmul and norm, as they are without a norm.
// UNEVEN: 8 heads (2 kv heads, all on every rank, each used 4 times
// UNEVEN: tpc.parameter @nk : tensor<8xf32>
// UNEVEN: %[[N:.*]] = tpc.rms_norm {{.*}}
// UNEVEN: tpc.gather {{.*}} -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8{tp}, 4]>>

!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!q = tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>
!k = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!w = tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
tpc.weight @q in "w" at 0 : tensor<8x32xf32>
tpc.weight @k in "w" at 1024 : tensor<8x8xf32>
tpc.weight @v in "w" at 1280 : tensor<8x8xf32>
tpc.weight @o in "w" at 1536 : tensor<32x8xf32>
tpc.weight @nq in "w" at 2560 : tensor<32xf32>
tpc.weight @nk in "w" at 2688 : tensor<8xf32>
func.func @main(%x: !x) -> !x {
  %q = tpc.parameter @q : tensor<8x32xf32>
  %k = tpc.parameter @k : tensor<8x8xf32>
  %v = tpc.parameter @v : tensor<8x8xf32>
  %o = tpc.parameter @o : tensor<32x8xf32>
  %nq = tpc.parameter @nq : tensor<32xf32>
  %nk = tpc.parameter @nk : tensor<8xf32>
  %q1 = tpc.matmul %x, %q : !x, tensor<8x32xf32> -> !w loc("q")
  %q2 = tpc.rms_norm %q1, %nq epsilon 1.0e-5 : !w, tensor<32xf32> -> !w loc("q_norm")
  %k1 = tpc.matmul %x, %k : !x, tensor<8x8xf32> -> !x loc("k")
  %k2 = tpc.rms_norm %k1, %nk epsilon 1.0e-5 : !x, tensor<8xf32> -> !x loc("k_norm")
  %v1 = tpc.matmul %x, %v : !x, tensor<8x8xf32> -> !x loc("v")
  %q4 = tpc.reshape %q2 : !w -> !q
  %k4 = tpc.reshape %k2 : !x -> !k
  %v4 = tpc.reshape %v1 : !x -> !k
  %a = tpc.attention causal %q4, %k4, %v4 scale 0.5 : !q, !k, !k -> !q loc("attn")
  %a2 = tpc.reshape %a : !q -> !w
  %y = tpc.matmul %a2, %o : !w, tensor<32x8xf32> -> !x loc("o")
  return %y : !x
}
