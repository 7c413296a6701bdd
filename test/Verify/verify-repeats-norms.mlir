// Replicated kv heads with a norm over all of them, as one op or decomposed. The mean over equally
// many copies of each element is the mean over the elements.
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 -o %t.mlir
// RUN: tpc-opt %t.mlir "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 --tpc-assign-shardings=shard=tp4 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.spmd.mlir
// RUN: tpc-opt %t.spmd.mlir "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null
// RUN: tpc-opt %t.spmd.mlir "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null
// If the number of copies is not a power of two, the factor 1/n is rounded.
// RUN: sed 's/8x4xf32/12x4xf32/g; s/\[b, s, 8, 4\]/[b, s, 12, 4]/; s/?x32xf32/?x48xf32/; s/\[b\*s, 32\]/[b*s, 48]/; s/8x32xf32/8x48xf32/g; s/32x8xf32/48x8xf32/g; s/tensor<32xf32>/tensor<48xf32>/g' %s > %t.six.mlir
// RUN: tpc-opt %t.six.mlir --tpc-repeat-kv-heads=shard=tp6 --tpc-assign-shardings=shard=tp6 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.six.spmd.mlir
// RUN: FileCheck %s --check-prefix=SIX --input-file %t.six.spmd.mlir
// RUN: tpc-opt %t.six.spmd.mlir "--tpc-verify-equivalence=reference=%t.six.mlir interpret=false" -o /dev/null
// RUN: tpc-opt %t.six.spmd.mlir "--tpc-verify-equivalence=reference=%t.six.mlir symbolic=false" -o /dev/null
// SIX: tpc.parameter @nk view <0 {{\[\[}}2 x 4, 3 x 0, 4 x 1]]>

// Faults: the mean divides by the number of elements without copies or by another number, or
// epsilon differs. The proof and the run find them.
// RUN: sed 's/dense<6.250000e-02>/dense<1.250000e-01>/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/dense<6.250000e-02>/dense<1.250000e-01>/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: sed 's/dense<6.250000e-02>/dense<3.125000e-02>/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/dense<6.250000e-02>/dense<6.25000038e-02>/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// RUN: sed 's/dense<6.250000e-02>/dense<6.25000038e-02>/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=SMALL
// The scale is repeated differently from the keys.
// RUN: sed '/@nk view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// RUN: sed '/@nk view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// Keys and scale have heads 0, 1, 0, 1. The norm does not distinguish this from 0, 0, 1, 1, but
// attention does.
// RUN: sed '/@n\?k view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s
// CHECK: does not compute what the model computes
// SMALL: run at small sizes

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
