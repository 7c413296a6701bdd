// A norm of each repeated kv head, followed by a norm over all kv heads. The second norm is
// decomposed, so the verifier decomposes the first one in both programs. Sums of the first norm are
// repeated like the heads; a sum of the second norm is the same with and without repetition.
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 --tpc-assign-shardings=shard=tp4 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.mlir
// RUN: FileCheck %s --check-prefix=REPEATED --input-file %t.mlir
// RUN: tpc-opt %t.mlir "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null
// RUN: tpc-opt %t.mlir "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null
// REPEATED: tpc.parameter @nk view <0 {{\[\[}}2 x 4, 2 x 0, 4 x 1]]>

// Faults: another epsilon of the first norm, and copies 0, 1, 0, 1.
// RUN: sed '/rms_norm/s/epsilon 1.000000e-05/epsilon 2.0e-05/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// RUN: sed '/@n\?k view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// CHECK: does not compute what the model computes

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
tpc.weight @nh in "w" at 2720 : tensor<4xf32>
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
  %nh = tpc.parameter @nh : tensor<4xf32>
  %kh = tpc.reshape %k1 : !x -> !k
  %kn = tpc.rms_norm %kh, %nh epsilon 1.0e-5 : !k, tensor<4xf32> -> !k loc("k_head_norm")
  %ka = tpc.reshape %kn : !k -> !x
  %k2 = tpc.rms_norm %ka, %nk epsilon 1.0e-5 : !x, tensor<8xf32> -> !x loc("k_norm")
  %v1 = tpc.matmul %x, %v : !x, tensor<8x8xf32> -> !x loc("v")
  %q4 = tpc.reshape %q2 : !w -> !q
  %k4 = tpc.reshape %k2 : !x -> !k
  %v4 = tpc.reshape %v1 : !x -> !k
  %a = tpc.attention causal %q4, %k4, %v4 scale 0.5 : !q, !k, !k -> !q loc("attn")
  %a2 = tpc.reshape %a : !q -> !w
  %y = tpc.matmul %a2, %o : !w, tensor<32x8xf32> -> !x loc("o")
  return %y : !x
}
