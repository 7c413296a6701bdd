// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-derive-backward=micro-batches=2

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x9xf32>
  // expected-error @+1 {{input 1 has the batch (2) in dimension 1; micro-batches are slices of the first dimension; leave out mb}}
  func.func @main(%x: tensor<2x4xf32>, %y: tensor<9x2xf32>) -> (tensor<2x9xf32> {tpc.name = "logits"}) {
    %w = tpc.parameter @w : tensor<4x9xf32>
    %m = tpc.matmul %x, %w : tensor<2x4xf32>, tensor<4x9xf32> -> tensor<2x9xf32>
    %t = tpc.transpose %y [1, 0] : tensor<9x2xf32> -> tensor<2x9xf32>
    %r = tpc.add %m, %t : tensor<2x9xf32>, tensor<2x9xf32> -> tensor<2x9xf32>
    return %r : tensor<2x9xf32>
  }
}

// -----

module {
  tpc.weight @w in "w.bin" at 0 : tensor<2x9xf32>
  // expected-error @+1 {{no input has the first dimension of the logits (2), so there are no micro-batches; leave out mb}}
  func.func @main(%x: tensor<9xf32>) -> tensor<2x9xf32> {
    %w = tpc.parameter @w : tensor<2x9xf32>
    %m = tpc.mul %w, %x : tensor<2x9xf32>, tensor<9xf32> -> tensor<2x9xf32>
    return %m : tensor<2x9xf32>
  }
}
