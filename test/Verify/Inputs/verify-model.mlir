// Two matmuls with a bias, as in an MLP.
!x = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
!h = tensor<?x5xf32, #tpc.dist<[batch, 5]>>
module {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func @main(%x: !x {tpc.name = "x"}) -> (!x {tpc.name = "y"}) {
    %w1 = tpc.parameter @w1 : tensor<4x5xf32>
    %b1 = tpc.parameter @b1 : tensor<5xf32>
    %w2 = tpc.parameter @w2 : tensor<5x4xf32>
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %0 = tpc.matmul %x, %w1 bias %b1 : !x, tensor<4x5xf32> bias tensor<5xf32> -> !h
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 bias %b2 : !h, tensor<5x4xf32> bias tensor<4xf32> -> !x
    return %2 : !x
  }
}
