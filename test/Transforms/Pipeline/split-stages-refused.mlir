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
