// Gradients are compared with differences of the loss.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-verify-gradients

// The loss is the sum of squares of w; the gradient is 2 w.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    %square = tpc.mul %w, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %loss = tpc.reduce sum %square [0] : tensor<4xf32> -> tensor<f32>
    %g = tpc.add %w, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// A wrong gradient of one of two weights is named.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  tpc.weight @v in "w.bin" at 16 : tensor<4xf32>
  // expected-error @below {{the gradient of weight 'v' is not the derivative of the loss: along the weight itself it is}}
  func.func @main(%x: tensor<4xf32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}, tensor<4xf32> {tpc.name = "grad.v"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    %v = tpc.parameter @v : tensor<4xf32>
    %product = tpc.mul %w, %v : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %loss = tpc.reduce sum %product [0] : tensor<4xf32> -> tensor<f32>
    return %loss, %v, %v : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Programs without a loss are not checked.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {tpc.name = "grad.w"}) {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  // expected-error @below {{has result 'grad.w', but reads no weight of that name}}
  func.func @main(%x: tensor<f32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<f32> {tpc.name = "grad.w"}) {
    return %x, %x : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  // expected-error @below {{has result 'grad.w' of type 'tensor<f32>', but the weight has type 'tensor<4xf32>'}}
  func.func @main(%x: tensor<f32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<f32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    return %x, %x : tensor<f32>, tensor<f32>
  }
}
