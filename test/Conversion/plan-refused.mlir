// RUN: tpc-opt %s --split-input-file --tpc-outline-kernels --tpc-plan-buffers --verify-diagnostics

// Programs that cannot be planned: each error names the op, and the program is unchanged.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
// A program is planned once.
// expected-error@+1 {{exists already: a program is planned once}}
tpc_buffer.func @f_on_buffers of @f(%x = value 0 : 4 x f32) to (%y : 4 x f32) {
  tpc_buffer.copy %x to %y bytes 16
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
}

// -----

// Symbols such as `_4` and `rank.tp` are reserved: the model must not use them.
// expected-error@+1 {{a size is named '_4', which is a reserved symbol (RankSizes.h); rename it in the model}}
module {
tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[_4], local>>) inputs [{}] outputs [] {
  tpc.stage 0 {
  }
}
}

// -----

// expected-error@+1 {{a size is named 'rank.tp', which is a reserved symbol}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<["rank.tp"], local>>) inputs [{}] outputs [] {
  tpc.stage 0 {
  }
}
}

// -----

// Every symbol in a type must be the size of an input, also inside an expression.
func.func private @f(%x: tensor<?xf32, #tpc.dist<[n], local>>) -> tensor<?xf32, #tpc.dist<["n + past"], local>> {
  // expected-error@+1 {{size 'past' of 'tensor<?xf32, #tpc.dist<["n + past"], local>>' is not a size of any input}}
  %0 = tpc.iota dim 0 : tensor<?xf32, #tpc.dist<["n + past"], local>>
  return %0 : tensor<?xf32, #tpc.dist<["n + past"], local>>
}
tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<["2 * n"], local>>) inputs [{}] outputs [] {
  tpc.stage 0 {
  }
}

// -----

// The two copies of an element must be adjacent rows, but a rank has three rows.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.pipeline @main(%x: tensor<6x6xf32>) inputs [{}] outputs [{name = "y", type = tensor<3x6xf32>, tpc.copies = array<i64: 0, 2>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = tpc.local_slice %x over ["tp"] dim 0 : tensor<6x6xf32> -> tensor<3x6xf32, #tpc.dist<[2{tp} * 3, 6], local>>
      // expected-error@+1 {{output 0 has 2 copies along #tpc.dim<2{tp}*3>, which must be within its last factor}}
      tpc.output 0, %0 : tensor<3x6xf32, #tpc.dist<[2{tp} * 3, 6], local>>
    }
  }
}
}
