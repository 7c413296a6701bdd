// RUN: tpc-opt %s --tpc-split-stages --split-input-file --verify-diagnostics | FileCheck %s

// Rotary angles as exported: a product of frequencies and positions, or a lookup in a small table.
// Each stage recomputes both, and only the residual is sent. The embedding's large table is in the
// first stage only.
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @table in "w" at 0 : tensor<1000x64xf32>
  tpc.weight @small in "w" at 256000 : tensor<16x4xf32>
  tpc.weight @frequencies in "w" at 256256 : tensor<4x1xf32>
  tpc.weight @a in "w" at 256272 : tensor<64x64xf32>
  // CHECK-LABEL: func.func private @stage_0
  // CHECK-SAME: -> tensor<16x64xf32> attributes
  // CHECK-DAG: tpc.parameter @table
  // CHECK-DAG: tpc.parameter @small
  // CHECK-DAG: tpc.matmul %{{.*}} : tensor<4x1xf32>, tensor<1x16xf32>
  // CHECK: return %{{[0-9]*}} : tensor<16x64xf32>
  // CHECK-LABEL: func.func private @stage_1
  // CHECK-SAME: (%arg0: tensor<16x64xf32>, %arg1: tensor<16xi64>) -> tensor<16x64xf32> attributes
  // CHECK-NOT: @table
  // CHECK: tpc.matmul %{{.*}} : tensor<4x1xf32>, tensor<1x16xf32>
  // CHECK: tpc.parameter @small
  // CHECK-LABEL: func.func @main
  func.func @main(%ids: tensor<16xi64>) -> tensor<16x64xf32> {
    %f = tpc.parameter @frequencies : tensor<4x1xf32>
    %row = tpc.reshape %ids : tensor<16xi64> -> tensor<1x16xi64>
    %positions = tpc.cast %row : tensor<1x16xi64> -> tensor<1x16xf32>
    %angles = tpc.matmul %f, %positions : tensor<4x1xf32>, tensor<1x16xf32> -> tensor<4x16xf32>
    %turned = tpc.transpose %angles [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
    %s = tpc.parameter @small : tensor<16x4xf32>
    %found = tpc.embedding %s, %ids : tensor<16x4xf32>, tensor<16xi64> -> tensor<16x4xf32>
    %sum = tpc.add %turned, %found : tensor<16x4xf32>, tensor<16x4xf32> -> tensor<16x4xf32>
    %cos = tpc.concat %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum, %sum dim 1 : tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32> -> tensor<16x64xf32>
    %table = tpc.parameter @table : tensor<1000x64xf32>
    %x = tpc.embedding %table, %ids : tensor<1000x64xf32>, tensor<16xi64> -> tensor<16x64xf32>
    %a = tpc.parameter @a : tensor<64x64xf32>
    %0 = tpc.matmul %x, %a : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %1 = tpc.mul %0, %cos : tensor<16x64xf32>, tensor<16x64xf32> -> tensor<16x64xf32>
    %2 = tpc.matmul %1, %a : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %3 = tpc.mul %2, %cos : tensor<16x64xf32>, tensor<16x64xf32> -> tensor<16x64xf32>
    return %3 : tensor<16x64xf32>
  }
}

// -----

// Values that depend only on weights are never sent, whatever their cost.
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<64x64xf16>
  // CHECK-LABEL: func.func private @stage_0
  // CHECK: tpc.cast
  // CHECK-COUNT-1: tpc.matmul
  // CHECK-LABEL: func.func private @stage_1(%arg0: tensor<16x64xf32>) -> tensor<16x64xf32>
  // CHECK: tpc.cast
  // CHECK-COUNT-1: tpc.matmul
  func.func @main(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
    %half = tpc.parameter @a : tensor<64x64xf16>
    %a = tpc.cast %half : tensor<64x64xf16> -> tensor<64x64xf32>
    %0 = tpc.matmul %x, %a : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %1 = tpc.matmul %0, %a : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    return %1 : tensor<16x64xf32>
  }
}

// -----

// Three layers on four stages.
// CHECK: tpc.warnings = ["pp4: stage 3 has none of 3 layers: there are fewer layers than stages; with pp3 all stages have work"]
// expected-warning @below {{pp4: stage 3 has none of 3 layers: there are fewer layers than stages; with pp3 all stages have work}}
module attributes {tpc.mesh = #tpc.mesh<pp = 4, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<64x64xf32>
  tpc.weight @b in "w" at 16384 : tensor<64x32xf32>
  func.func @main(%x: tensor<16x64xf32>) -> tensor<16x32xf32> {
    %a = tpc.parameter @a : tensor<64x64xf32>
    %0 = call @layer(%x, %a) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %1 = call @layer(%0, %a) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %2 = call @layer(%1, %a) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %b = tpc.parameter @b : tensor<64x32xf32>
    %3 = tpc.matmul %2, %b : tensor<16x64xf32>, tensor<64x32xf32> -> tensor<16x32xf32>
    return %3 : tensor<16x32xf32>
  }
  func.func private @layer(%x: tensor<16x64xf32>, %a: tensor<64x64xf32>) -> tensor<16x64xf32> attributes {tpc.layer} {
    %0 = tpc.matmul %x, %a : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %1 = tpc.add %x, %0 : tensor<16x64xf32>, tensor<16x64xf32> -> tensor<16x64xf32>
    return %1 : tensor<16x64xf32>
  }
}

// -----

// The head costs as much as many layers, so it has its own stage.
// expected-warning @below {{pp2: stage 1 has none of 2 layers: its other ops take as long as 8.8 layers}}
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<64x64xf32>
  tpc.weight @b in "w" at 16384 : tensor<64x1000xf32>
  func.func @main(%x: tensor<16x64xf32>) -> tensor<16x1000xf32> {
    %a = tpc.parameter @a : tensor<64x64xf32>
    %0 = call @layer(%x, %a) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %1 = call @layer(%0, %a) : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %b = tpc.parameter @b : tensor<64x1000xf32>
    %2 = tpc.matmul %1, %b : tensor<16x64xf32>, tensor<64x1000xf32> -> tensor<16x1000xf32>
    return %2 : tensor<16x1000xf32>
  }
  func.func private @layer(%x: tensor<16x64xf32>, %a: tensor<64x64xf32>) -> tensor<16x64xf32> attributes {tpc.layer} {
    %0 = tpc.matmul %x, %a : tensor<16x64xf32>, tensor<64x64xf32> -> tensor<16x64xf32>
    %1 = tpc.add %x, %0 : tensor<16x64xf32>, tensor<16x64xf32> -> tensor<16x64xf32>
    return %1 : tensor<16x64xf32>
  }
}
