// RUN: tpc-opt %s --split-input-file --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program -verify-diagnostics

// A size that no input has is unknown at run time.
func.func private @stage_0() -> tensor<?xi64, #tpc.dist<[k]>> {
  // expected-error@+1 {{size 'k' of 'tensor<?xi64, #tpc.dist<[k]>>' is not a size of any input}}
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[k]>>
  return %0 : tensor<?xi64, #tpc.dist<[k]>>
}

// -----

// The library computes attention in single precision only.
func.func private @stage_0(%q: tensor<1x2x3x4xf64>) -> tensor<1x2x3x4xf64> {
  // expected-error@+1 {{cannot be computed on CPUs with elements of type 'f64': export the model in f32, f16 or bf16}}
  %0 = tpc.attention %q, %q, %q scale 1.0 : tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64> -> tensor<1x2x3x4xf64>
  return %0 : tensor<1x2x3x4xf64>
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
// A rank's shard must be a box in the output.
tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[b*s], local>>) inputs [{}] outputs [{name = "y", type = tensor<?xf32, #tpc.dist<[b*s]>>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @kernel(%x) : (tensor<?xf32, #tpc.dist<[b*s], local>>) -> tensor<?xf32, #tpc.dist<[(b*s{dp}){tp}], local>>
      // expected-error@+1 {{output 0 is split over "tp" across the factors of dimension 0, so that a rank's shard is not a block; gather it before}}
      tpc.output 0, %0 : tensor<?xf32, #tpc.dist<[(b*s{dp}){tp}], local>>
    }
  }
}
func.func private @kernel(%x: tensor<?xf32, #tpc.dist<[b*s], local>>) -> tensor<?xf32, #tpc.dist<[(b*s{dp}){tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.local_slice %x over ["dp"] dim 0 : tensor<?xf32, #tpc.dist<[b*s], local>> -> tensor<?xf32, #tpc.dist<[b*s{dp}], local>>
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : tensor<?xf32, #tpc.dist<[b*s{dp}], local>> -> tensor<?xf32, #tpc.dist<[(b*s{dp}){tp}], local>>
  return %1 : tensor<?xf32, #tpc.dist<[(b*s{dp}){tp}], local>>
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
// expected-error@+1 {{is split over tp across its factors, #tpc.dim<(4{dp}*6){tp}>, which no rank can load}}
tpc.weight @w in "w.bin" at 0 : tensor<24xf32>
tpc.pipeline @main(%x: tensor<24xf32>) inputs [{}] outputs [{name = "y", type = tensor<24xf32>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = tpc.parameter @w : tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>>
      %1 = func.call @kernel(%0) : (tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>>) -> tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>>
      %2 = tpc.all_gather %1 over ["tp"] dim 0 : tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>> -> tensor<12xf32, #tpc.dist<[4{dp}*6], local>>
      tpc.output 0, %2 : tensor<12xf32, #tpc.dist<[4{dp}*6], local>>
    }
  }
}
func.func private @kernel(%0: tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>>) -> tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>> attributes {tpc.kernel = 1} {
  %1 = tpc.neg %0 : tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>> -> tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>>
  return %1 : tensor<6xf32, #tpc.dist<[(4{dp}*6){tp}], local>>
}
}

// -----

// expected-error@+1 {{needs a staged program, with one tpc.pipeline: run tpc-split-stages and tpc-schedule-pipeline first}}
module {
  func.func @main(%x: tensor<?xf32, #tpc.dist<[s]>>) -> tensor<?xf32, #tpc.dist<[s]>> {
    return %x : tensor<?xf32, #tpc.dist<[s]>>
  }
}

// -----

func.func private @stage_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is not in a kernel: run tpc-outline-kernels first}}
  %0 = tpc.gelu tanh %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The runtime permutes along one axis.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
func.func private @stage_0(%x: tensor<2x8xf32, #tpc.dist<[8{tp, dp}, 8], local>>) -> tensor<8x2xf32, #tpc.dist<[8, 8{tp, dp}], local>> {
  // expected-error@+1 {{must be over one axis: an all-to-all over several axes cannot be lowered}}
  %0 = tpc.all_to_all %x over ["tp", "dp"] from 0 to 1 : tensor<2x8xf32, #tpc.dist<[8{tp, dp}, 8], local>> -> tensor<8x2xf32, #tpc.dist<[8, 8{tp, dp}], local>>
  return %0 : tensor<8x2xf32, #tpc.dist<[8, 8{tp, dp}], local>>
}
}

// -----

tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
  tpc.stage 0 {
    // expected-error@+1 {{is in a stage, but outside of tpc.micro_batches}}
    tpc.output 0, %x : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{output 1 has no type, or its elements are not numbers}}
tpc.pipeline @main() inputs [] outputs [{type = tensor<4xf32>}, {name = "y"}] {
  tpc.stage 0 {
  }
}

// -----

// expected-error@+1 {{output 0 has no type, or its elements are not numbers}}
tpc.pipeline @main() inputs [] outputs [{name = "y", type = tensor<4xindex>}] {
  tpc.stage 0 {
  }
}

// -----

func.func private @stage_0() -> tensor<2xf32> {
  // expected-error@+1 {{must have dense elements}}
  %0 = tpc.constant dense_resource<elements> : tensor<2xf32> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

{-#
  dialect_resources: {builtin: {elements: "0x040000000000803F00000040"}}
#-}
