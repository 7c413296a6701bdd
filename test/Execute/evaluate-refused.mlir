// RUN: tpc-opt %s --tpc-evaluate=shape=s=9 --verify-diagnostics --split-input-file

tpc.weight @p in "w" at 0 : tensor<8x4xf32>
func.func @main(%x: tensor<?x4xf32, #tpc.dist<[s, 4]>>) -> tensor<?x4xf32, #tpc.dist<[s, 4]>> {
  %p = tpc.parameter @p : tensor<8x4xf32>
  // expected-error @below {{takes elements 0 to 8 of 8: these sizes are not possible}}
  %q = tpc.slice %p dim 0 from 0 : tensor<8x4xf32> -> tensor<?x4xf32, #tpc.dist<[s, 4]>>
  return %q : tensor<?x4xf32, #tpc.dist<[s, 4]>>
}

// -----

// expected-error @below {{there is no function @main to run}}
module {
}

// -----

// Mismatches with an earlier run, and programs that cannot be evaluated.
// expected-error @below {{there were 2 outputs, now there are 1}}
module attributes {tpc.inputs = [], tpc.expected = [dense<0.0> : tensor<f64>, dense<0.0> : tensor<f64>]} {
  func.func @main() -> tensor<f32> {
    %0 = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

func.func @main() -> tensor<f32> {
  // expected-error @below {{(arith.constant): evaluated, the interpreter does not support this op}}
  %0 = arith.constant 1 : i32
  %1 = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @main() -> tensor<2xf32> {
  // expected-error @below {{(tpc.constant): evaluated, its value cannot be read}}
  %0 = tpc.constant dense_resource<elsewhere> : tensor<2xf32> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// expected-error @below {{there were 0 inputs, now there are 1}}
module attributes {tpc.inputs = [], tpc.expected = [dense<0.0> : tensor<f64>]} {
  func.func @main(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
}

// -----

// expected-error @below {{there is no function @main to run}}
module {
  func.func private @main(tensor<f32>) -> tensor<f32>
}

// -----

// expected-error @below {{a staged program is compared with its earlier form}}
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 1, pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[s], local>>) inputs [{}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[s]>>}] {
    tpc.stage 0 {
      tpc.micro_batches {
        tpc.output 0, %x : tensor<?xf32, #tpc.dist<[s], local>>
      }
    }
  }
}

// -----

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{(arith.negf): the verifier has no domain for its operands}}
  %0 = arith.negf %x : tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @f(tensor<f32>) -> tensor<f32>
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{@f cannot be called}}
  %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
