// The proof shows for all sizes that replicated kv heads equal the model's kv heads.
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 -o %t.mlir
// RUN: FileCheck %s --check-prefix=REPEATED --input-file %t.mlir
// RUN: tpc-opt %t.mlir "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 --tpc-assign-shardings=shard=tp4 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.spmd.mlir
// RUN: tpc-opt %t.spmd.mlir "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null
// RUN: tpc-opt %t.spmd.mlir "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null
// REPEATED: tpc.parameter @k view <0 {{\[\[}}8 x 8], [2 x 4, 2 x 0, 4 x 1]]>

// With heads 0, 1, 0, 1 instead of 0, 0, 1, 1, query heads read the keys of another group. This is
// done for keys and values, or for keys alone.
// RUN: sed 's/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: sed '/@k view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: sed '/@k view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.spmd.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=GROUP
// GROUP: (tpc.attention) does not compute what the model computes: this is repetition (dimension: major x times x minor "2: 1 x 2 x 2") : tensor<?x?x4x4xf32

// The view has other rows of the weight.
// RUN: sed '/@k view/s/8 x 8/8 x 4/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=VIEW
// VIEW: does not compute what the model computes: this is weight @k view [0, array<i64: 8, 4>{{.*}}, the model has weight @k view [0, array<i64: 8, 8>

// The bias of values is repeated differently from their weight, so their sum has no known
// repetition.
// RUN: sed '/@vb view/s/2 x 4, 2 x 0, 4 x 1/2 x 0, 2 x 4, 4 x 1/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=BIAS
// BIAS: error: {{.*}} does not compute what the model computes

tpc.weight @q in "w" at 0 : tensor<8x32xf32>
tpc.weight @k in "w" at 1024 : tensor<8x8xf32>
tpc.weight @v in "w" at 1280 : tensor<8x8xf32>
tpc.weight @vb in "w" at 1536 : tensor<8xf32>
tpc.weight @o in "w" at 1568 : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, %c: tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>) -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> {
  %q = tpc.parameter @q : tensor<8x32xf32>
  %k = tpc.parameter @k : tensor<8x8xf32>
  %v = tpc.parameter @v : tensor<8x8xf32>
  %vb = tpc.parameter @vb : tensor<8xf32>
  %o = tpc.parameter @o : tensor<32x8xf32>
  %y = call @layer(%x, %c, %q, %k, %v, %vb, %o) : (tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>, tensor<8x32xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<32x8xf32>) -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
}
func.func private @layer(%x: tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, %c: tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>, %wq: tensor<8x32xf32>, %wk: tensor<8x8xf32>, %wv: tensor<8x8xf32>, %vb: tensor<8xf32>, %wo: tensor<32x8xf32>) -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> attributes {tpc.layer} {
  %q = tpc.matmul %x, %wq : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[b*s, 32]>> loc("q")
  %k = tpc.matmul %x, %wk : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("k")
  %v = tpc.matmul %x, %wv bias %vb : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("v")
  %q4 = tpc.reshape %q : tensor<?x32xf32, #tpc.dist<[b*s, 32]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>
  %k4 = tpc.reshape %k : tensor<?x8xf32, #tpc.dist<[b*s, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %v4 = tpc.reshape %v : tensor<?x8xf32, #tpc.dist<[b*s, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %kr = tpc.rotary %k4, %c, %c : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>, tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %a = tpc.attention causal %q4, %kr, %v4 scale 0.5 : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> loc("attn")
  %a2 = tpc.reshape %a : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> -> tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
  %y = tpc.matmul %a2, %wo : tensor<?x32xf32, #tpc.dist<[b*s, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("o")
  return %y : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
}
