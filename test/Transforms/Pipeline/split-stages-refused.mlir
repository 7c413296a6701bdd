// RUN: tpc-opt %s --tpc-split-stages --split-input-file --verify-diagnostics

// Two values are live between the second op and the last: one place to cut.
module attributes {tpc.grid = #tpc.grid<pp = 3, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  // expected-error @below {{pp3: the model can be cut into at most 2 pipeline stages}}
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %q = tpc.matmul %p, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %t = tpc.add %p, %q : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    return %t : tensor<4x8xf32>
  }
}

// -----

// expected-error @below {{needs a function @main and a tpc.grid}}
module {
}

// -----

// Ops that say in which stage they are to be.
module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    // expected-error-re @below {{'{{.*}}' is to be in pipeline stage 2, but the grid has pp2}}
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 2} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %p : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 1} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error-re @below {{is to be in pipeline stage 0, but it comes after '{{.*}}' of stage 1}}
    %q = tpc.matmul %p, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.grid = #tpc.grid<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  // expected-error @below {{no op is to be in pipeline stage 1, but the grid has pp2}}
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %q = tpc.matmul %p, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.grid = #tpc.grid<pp = 3, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  // expected-error @below {{pipeline stage 1 has no op of its own}}
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %q = tpc.matmul %p, %a {tpc.pipeline_stage = 2} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}
