module {
  tpc.weight @v in "w" at 0 : tensor<6x2xf32>
  tpc.weight @w in "w" at 48 : tensor<6x2xf32>
  func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
    %v = tpc.parameter @v : tensor<6x2xf32>
    %w = tpc.parameter @w : tensor<6x2xf32>
    %p = tpc.matmul %x, %v : tensor<4x6xf32>, tensor<6x2xf32> -> tensor<4x2xf32>
    %q = tpc.matmul %x, %w : tensor<4x6xf32>, tensor<6x2xf32> -> tensor<4x2xf32>
    %0 = tpc.tanh %p : tensor<4x2xf32> -> tensor<4x2xf32>
    %1 = tpc.exp %q : tensor<4x2xf32> -> tensor<4x2xf32>
    return %0, %1 : tensor<4x2xf32>, tensor<4x2xf32>
  }
}
