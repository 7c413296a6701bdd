// Metadata of executables is compared with the model's: names and defaults of inputs, names of
// outputs, constraints, the folder of weight files, ranges of index inputs.
// RUN: split-file %s %t
// DEFINE: %{verify} = "--tpc-verify-equivalence=reference=%t/model.mlir" -o /dev/null
// DEFINE: %{refuse} = not tpc-opt %t/edited.mlir %{verify} 2>&1 | FileCheck %s --check-prefix
// RUN: tpc-opt %t/staged.mlir %{verify}
// RUN: sed 's/name = "keys"/name = "values "/; s/name = "values"/name = "keys"/; s/"values "/"values"/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=EXCHANGED
// RUN: sed 's/name = "keys", //' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=UNNAMED
// RUN: sed 's/tpc.name = "x"/tpc.name = "y"/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=INPUT
// RUN: sed 's/{tpc.name = "x"}/{tpc.default = #tpc.default<ones>, tpc.name = "x"}/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=DEFAULT
// RUN: sed 's/tpc.default = #tpc.default<ones>, //' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=REQUIRED
// RUN: sed 's/<ones>/<positions>/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=OTHER
// RUN: sed 's/max = 64/max = 65/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=CONSTRAINTS
// RUN: sed 's/, tpc.constraints = \[.*\], tpc.source/, tpc.source/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=CONSTRAINTS
// RUN: sed 's|/here/m.onnx|/there/m.onnx|' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=SOURCE
// RUN: sed 's/@v in "w" at 128/@v in "w" at 132/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=OFFSET
// RUN: sed 's/tpc.weight @v/tpc.weight @u in "w" at 0 : tensor<4x4xf32>\n  &/' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=WEIGHT
// RUN: sed 's|// more||' %t/staged.mlir > %t/edited.mlir
// RUN: %{refuse}=LOOKUP

// EXCHANGED: output 0 of the program has the 'tpc.name' "values", but the model's has the 'tpc.name' "keys"
// UNNAMED: output 0 of the program has no 'tpc.name', but the model's has the 'tpc.name' "keys"
// INPUT: input 0 of the program has the 'tpc.name' "y", but the model's has the 'tpc.name' "x"
// DEFAULT: input 0 of the program has the 'tpc.default' #tpc.default<ones>, but the model's has no 'tpc.default'
// REQUIRED: input 1 of the program has no 'tpc.default', but the model's has the 'tpc.default' #tpc.default<ones>
// OTHER: input 1 of the program has the 'tpc.default' #tpc.default<positions>, but the model's has the 'tpc.default' #tpc.default<ones>
// CONSTRAINTS: the program has {{the|no}} 'tpc.constraints'{{.*}}, but the model's has the 'tpc.constraints' [{expr = #tpc.expr<s>, max = 64 : i64}]
// SOURCE: the program has the 'tpc.source' "/there/m.onnx", but the model's has the 'tpc.source' "/here/m.onnx"
// OFFSET: weight @v has the 'offset' 132 : i64, but the model's has the 'offset' 128 : i64
// WEIGHT: 'tpc.weight' op is a weight that the model does not have
// LOOKUP: (tpc.embedding) is a lookup that no output needs and the model does not have

//--- model.mlir
!x = tensor<?xi64, #tpc.dist<[s]>>
!y = tensor<?x4xf32, #tpc.dist<[s, 4]>>
module attributes {tpc.constraints = [{expr = #tpc.expr<s>, max = 64 : i64}], tpc.source = "/here/m.onnx"} {
  tpc.weight @w in "w" at 0 : tensor<8x4xf32>
  tpc.weight @v in "w" at 128 : tensor<4x4xf32>
  func.func @main(%x: !x {tpc.name = "x"}, %m: !x {tpc.default = #tpc.default<ones>, tpc.name = "m"}) -> (!y {tpc.name = "keys"}, !y {tpc.name = "values"}) {
    %w = tpc.parameter @w : tensor<8x4xf32>
    %0 = tpc.embedding %w, %x : tensor<8x4xf32>, !x -> !y
    %1 = tpc.embedding %w, %m : tensor<8x4xf32>, !x -> !y
    return %0, %1 : !y, !y
  }
}
//--- staged.mlir
!x = tensor<?xi64, #tpc.dist<[s]>>
!y = tensor<?x4xf32, #tpc.dist<[s, 4]>>
!l = tensor<?xi64, #tpc.dist<[s], local>>
!o = tensor<?x4xf32, #tpc.dist<[s, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>, tpc.constraints = [{expr = #tpc.expr<s>, max = 64 : i64}], tpc.source = "/here/m.onnx"} {
  tpc.weight @w in "w" at 0 : tensor<8x4xf32>
  tpc.weight @v in "w" at 128 : tensor<4x4xf32>
  func.func private @stage_0(%x: !l, %m: !l) -> (!o, !o) {
    %w = tpc.parameter @w : tensor<8x4xf32>
    %v = tpc.parameter @v : tensor<4x4xf32>
    %0 = tpc.embedding %w, %x : tensor<8x4xf32>, !l -> !o
    %1 = tpc.embedding %w, %m : tensor<8x4xf32>, !l -> !o
    // more %2 = tpc.embedding %v, %m : tensor<4x4xf32>, !l -> !o
    return %0, %1 : !o, !o
  }
  tpc.pipeline @main(%x: !l, %m: !l) inputs [{tpc.name = "x"}, {tpc.default = #tpc.default<ones>, tpc.name = "m"}] outputs [{name = "keys", type = !y}, {name = "values", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %0, %1 = func.call @stage_0(%x, %m) : (!l, !l) -> (!o, !o)
        tpc.output 0, %0 : !o
        tpc.output 1, %1 : !o
      }
    }
  }
}
