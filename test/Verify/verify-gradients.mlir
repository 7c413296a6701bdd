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
  // expected-error @below {{the gradient of weight 'v' is not the derivative of the loss: along a random direction it is}}
  func.func @main(%x: tensor<4xf32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}, tensor<4xf32> {tpc.name = "grad.v"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    %v = tpc.parameter @v : tensor<4xf32>
    %product = tpc.mul %w, %v : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %loss = tpc.reduce sum %product [0] : tensor<4xf32> -> tensor<f32>
    return %loss, %v, %v : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// The loss does not depend on the norm of w, as that of a matrix before a norm.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    %squares = tpc.mul %w, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %square = tpc.reduce sum %squares [0] : tensor<4xf32> -> tensor<f32>
    %r = tpc.rsqrt %square : tensor<f32> -> tensor<f32>
    %unit = tpc.mul %w, %r : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %terms = tpc.mul %unit, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %loss = tpc.reduce sum %terms [0] : tensor<4xf32> -> tensor<f32>
    // r x - r^2 loss w
    %first = tpc.mul %x, %r : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %r2 = tpc.mul %r, %r : tensor<f32>, tensor<f32> -> tensor<f32>
    %factor = tpc.mul %r2, %loss : tensor<f32>, tensor<f32> -> tensor<f32>
    %second = tpc.mul %w, %factor : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %g = tpc.sub %first, %second : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// Twice this gradient is as orthogonal to w as the gradient.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  // expected-error @below {{the gradient of weight 'w' is not the derivative of the loss}}
  func.func @main(%x: tensor<4xf32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    %squares = tpc.mul %w, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %square = tpc.reduce sum %squares [0] : tensor<4xf32> -> tensor<f32>
    %r = tpc.rsqrt %square : tensor<f32> -> tensor<f32>
    %unit = tpc.mul %w, %r : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %terms = tpc.mul %unit, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %loss = tpc.reduce sum %terms [0] : tensor<4xf32> -> tensor<f32>
    // r x - r^2 loss w
    %first = tpc.mul %x, %r : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %r2 = tpc.mul %r, %r : tensor<f32>, tensor<f32> -> tensor<f32>
    %factor = tpc.mul %r2, %loss : tensor<f32>, tensor<f32> -> tensor<f32>
    %second = tpc.mul %w, %factor : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %g = tpc.sub %first, %second : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %twice = tpc.add %g, %g : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %loss, %twice : tensor<f32>, tensor<4xf32>
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
