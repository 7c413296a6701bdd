// RUN: tpc-opt %s --tpc-split-stages --split-input-file --verify-diagnostics

// Two values are live between the second op and the last, so there is only one cut position.
module attributes {tpc.mesh = #tpc.mesh<pp = 3, mb = 1>} {
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

// expected-error @below {{needs a function @main and a tpc.mesh}}
module {
}

// -----

// Stage annotations that the grid or the order of ops contradicts.
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    // expected-error-re @below {{'{{.*}}' is annotated with pipeline stage 2, but the grid has pp2}}
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 2} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %p : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    // expected-note @below {{this is in stage 1}}
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 1} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error-re @below {{is annotated with pipeline stage 0, but it uses a result of '{{.*}}' from stage 1, and stages run in order}}
    %q = tpc.matmul %p, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error-re @below {{pipeline stage 1 has no op: '{{.*}}', the last one, is annotated with an earlier stage}}
    %q = tpc.matmul %p, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 3, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  // expected-error @below {{pp3: no cuts between the ops with stage annotations result in this number of stages}}
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %q = tpc.matmul %p, %a {tpc.pipeline_stage = 2} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}

// -----

// A recomputed op may run in later stages than its annotation, but not in earlier ones.
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    // expected-note @below {{this is in stage 1}}
    %n = tpc.neg %x {tpc.pipeline_stage = 1} : tensor<4x8xf32> -> tensor<4x8xf32>
    // This op is not annotated, but is between the two that are.
    %m = tpc.neg %n : tensor<4x8xf32> -> tensor<4x8xf32>
    // expected-error @below {{is annotated with pipeline stage 0, but it uses a result of}}
    %p = tpc.matmul %m, %a {tpc.pipeline_stage = 0} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %q = tpc.matmul %p, %a {tpc.pipeline_stage = 1} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %q : tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  func.func private @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{is annotated with a pipeline stage, but it is not in @main: annotate the call of its function}}
    %n = tpc.neg %x {tpc.pipeline_stage = 1} : tensor<4x8xf32> -> tensor<4x8xf32>
    return %n : tensor<4x8xf32>
  }
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %n = func.call @layer(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %n : tensor<4x8xf32>
  }
}


// -----

// An op without a cost model is an error, not free.
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tpc.parameter @a : tensor<8x8xf32>
    %m = tpc.matmul %x, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    // expected-error @below {{(arith.negf) has no cost model}}
    %n = arith.negf %m : tensor<4x8xf32>
    %p = tpc.matmul %n, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %p : tensor<4x8xf32>
  }
}
