// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-derive-backward

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x9xf32>
  // expected-error @+1 {{has 2 outputs, and none is named 'logits'; the loss needs one}}
  func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x9xf32>, tensor<2x9xf32>) {
    %w = tpc.parameter @w : tensor<4x9xf32>
    %y = tpc.matmul %x, %w : tensor<2x4xf32>, tensor<4x9xf32> -> tensor<2x9xf32>
    return %y, %y : tensor<2x9xf32>, tensor<2x9xf32>
  }
}

// -----

module {
  // expected-error @+1 {{has logits that depend on no weight}}
  func.func @main(%x: tensor<2x9xf32>) -> tensor<2x9xf32> {
    return %x : tensor<2x9xf32>
  }
}

// -----

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x9xf32>
  func.func @main(%x: tensor<2x4xf32>, %m: tensor<f32>) -> tensor<2x9xf32> {
    %w = tpc.parameter @w : tensor<4x9xf32>
    %y = tpc.matmul %x, %w : tensor<2x4xf32>, tensor<4x9xf32> -> tensor<2x9xf32>
    // expected-error @+1 {{(tpc.mod) has no gradient}}
    %z = tpc.mod %y, %m : tensor<2x9xf32>, tensor<f32> -> tensor<2x9xf32>
    return %z : tensor<2x9xf32>
  }
}

// -----

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x9xf16>
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x9xf32> {
    // expected-error @+1 {{weight 'w' has type 'f16'; only f32 weights have gradients}}
    %w = tpc.parameter @w : tensor<4x9xf16>
    %v = tpc.cast %w : tensor<4x9xf16> -> tensor<4x9xf32>
    %y = tpc.matmul %x, %v : tensor<2x4xf32>, tensor<4x9xf32> -> tensor<2x9xf32>
    return %y : tensor<2x9xf32>
  }
}

// -----

// The columns 0 to 3 and 2 to 5.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x6xf32>
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = tpc.parameter @w view <2 [[4 x 6], [4 x 1]]> : tensor<4x4xf32>
    // expected-error @+1 {{weight 'w' is read through overlapping views}}
    %1 = tpc.parameter @w view <0 [[4 x 6], [4 x 1]]> : tensor<4x4xf32>
    %2 = tpc.matmul %x, %1 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %3 = tpc.matmul %2, %0 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
}
