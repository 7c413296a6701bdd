// A cache is an input and an output. The first copy of each replicated kv head is written to the
// output.
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 --tpc-assign-shardings=shard=tp4 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.mlir
// RUN: FileCheck %s --check-prefix=REPEATED --input-file %t.mlir
// RUN: tpc-opt %t.mlir "--tpc-verify-equivalence=reference=%s" -o /dev/null
// RUN: tpc-opt %t.mlir --tpc-split-stages --tpc-schedule-pipeline -o %t.staged.mlir
// RUN: FileCheck %s --check-prefix=STAGED --input-file %t.staged.mlir
// RUN: tpc-opt %t.staged.mlir --tpc-verify-comms "--tpc-verify-equivalence=reference=%s" -o /dev/null
// REPEATED: @main({{.*}}) -> (tensor<?x8xf32, {{.*}}>, tensor<?x1x?x4xf32, #tpc.dist<[b, 4{tp}, "p + s", 4], local>> {tpc.copies = array<i64: 1, 2>})
// REPEATED: tpc.gather %arg1, %{{.*}} dim 1 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4], local>>
// STAGED: outputs [{{.*}}, {name = "output_1", tpc.copies = array<i64: 1, 2>, type = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>}]

// If `tpc.copies` is missing, the output has too many heads. If it is wrong, the value has no such
// copies.
// RUN: sed 's/{tpc.copies = array<i64: 1, 2>}//' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MORE
// MORE: error: {{.*}}output 1
// RUN: sed 's/\[0, 0, 1, 1\]/[0, 1, 0, 1]/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s interpret=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: {{.*}} delivers one of 2 copies along dimension 1 of a value that is not known to consist of such copies
// RUN: sed 's/\[0, 0, 1, 1\]/[0, 1, 0, 1]/' %t.mlir | not tpc-opt "--tpc-verify-equivalence=reference=%s symbolic=false" -o /dev/null 2>&1 | FileCheck %s --check-prefix=AGREE
// AGREE: error: {{.*}}output 1
// RUN: sed 's/tpc.copies = array<i64: 1, 2>/tpc.copies = array<i64: 1, 3>/' %t.mlir | not tpc-opt -o /dev/null 2>&1 | FileCheck %s --check-prefix=THREE
// THREE: error: {{.*}}'tpc.copies' must be a dimension and the number of copies of each of its indices, not array<i64: 1, 3>

tpc.weight @q in "w" at 0 : tensor<8x32xf32>
tpc.weight @k in "w" at 1024 : tensor<8x8xf32>
tpc.weight @o in "w" at 1536 : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, %past: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>) -> (tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>) {
  %wq = tpc.parameter @q : tensor<8x32xf32>
  %wk = tpc.parameter @k : tensor<8x8xf32>
  %wo = tpc.parameter @o : tensor<32x8xf32>
  %q = tpc.matmul %x, %wq : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[b*s, 32]>> loc("q")
  %k = tpc.matmul %x, %wk : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("k")
  %q4 = tpc.reshape %q : tensor<?x32xf32, #tpc.dist<[b*s, 32]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>
  %k4 = tpc.reshape %k : tensor<?x8xf32, #tpc.dist<[b*s, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %kt = tpc.transpose %k4 [0, 2, 1, 3] : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
  %all = tpc.concat %past, %kt dim 2 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>, tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>
  %keys = tpc.transpose %all [0, 2, 1, 3] : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, "p + s", 2, 4]>>
  %a = tpc.attention %q4, %keys, %keys scale 0.5 : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, "p + s", 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, "p + s", 2, 4]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> loc("attn")
  %a2 = tpc.reshape %a : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> -> tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
  %y = tpc.matmul %a2, %wo : tensor<?x32xf32, #tpc.dist<[b*s, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("o")
  return %y, %all : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>
}
