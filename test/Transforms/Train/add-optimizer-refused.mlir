// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-add-optimizer
// RUN: not tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer=optimizer=adam 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer=optimizer=sgd:beta1=0.9 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer=optimizer=adamw:beta1=1 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not tpc-opt %S/../Inputs/training.mlir --tpc-add-optimizer="optimizer=adamw no-decay=[" 2>&1 | FileCheck %s --check-prefix=PATTERN
// NAME: --optimizer=adam: there is no optimizer 'adam': expected adamw or sgd
// SETTING: optimizer 'sgd' has no setting 'beta1': it has decay, clip, momentum
// RANGE: beta1=1: expected 0 or more, below 1
// PATTERN: error: --no-decay=[: 

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  // expected-error @below {{needs a scalar result 'loss' and results 'grad.…' of weights: run tpc-derive-backward first}}
  func.func @main() -> (tensor<4xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    return %w : tensor<4xf32>
  }
}

// -----

module {
  func.func @main(%loss: tensor<f32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<f32> {tpc.name = "grad.w"}) {
    // expected-error @below {{'grad.w' is a gradient of an unknown weight}}
    %g = tpc.neg %loss : tensor<f32> -> tensor<f32>
    return %loss, %g : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  func.func @main(%loss: tensor<f32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<2xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    // expected-error @below {{no parameter of this weight in @main has this type}}
    %g = tpc.slice %w dim 0 from 0 : tensor<4xf32> -> tensor<2xf32>
    return %loss, %g : tensor<f32>, tensor<2xf32>
  }
}

// -----

// The view reads elements of @w that the optimizer updates, and is no transpose of @w.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  func.func @main(%loss: tensor<f32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    // expected-error @below {{reads elements of weight @w that the optimizer updates through another view}}
    %v = tpc.parameter @w view <2 [[2 x 1]]> : tensor<2xf32>
    %s = tpc.reduce sum %v [0] : tensor<2xf32> -> tensor<f32>
    %g = tpc.mul %w, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
}

// -----

// A head that is tied by its bytes would get an update of its own.
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4xf32>
  // expected-error @below {{@v has bytes of the file that are also weight @w, which the optimizer updates: use one initializer for both}}
  tpc.weight @v in "w.bin" at 8 : tensor<2xf32>
  func.func @main(%loss: tensor<f32>) -> (tensor<f32> {tpc.name = "loss"}, tensor<4xf32> {tpc.name = "grad.w"}) {
    %w = tpc.parameter @w : tensor<4xf32>
    %v = tpc.parameter @v : tensor<2xf32>
    %s = tpc.reduce sum %v [0] : tensor<2xf32> -> tensor<f32>
    %g = tpc.mul %w, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    return %loss, %g : tensor<f32>, tensor<4xf32>
  }
}
