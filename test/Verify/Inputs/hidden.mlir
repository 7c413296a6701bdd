// A bias of -inf hides later keys and padding. A row without visible keys is zero.
func.func @main(%x: tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> {tpc.name = "x"}, %pad: tensor<?x?xi1, #tpc.dist<[b, s]>> {tpc.name = "pad"}) -> (tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> {tpc.name = "y"}) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 0 : tensor<?x1xi64, #tpc.dist<[s, 1]>>
  %j = tpc.iota dim 1 : tensor<1x?xi64, #tpc.dist<[1, s]>>
  %own = tpc.cmp le %j, %i : tensor<1x?xi64, #tpc.dist<[1, s]>>, tensor<?x1xi64, #tpc.dist<[s, 1]>> -> tensor<?x?xi1, #tpc.dist<[s, s]>>
  %keys = tpc.reshape %pad : tensor<?x?xi1, #tpc.dist<[b, s]>> -> tensor<?x1x1x?xi1, #tpc.dist<[b, 1, 1, s]>>
  %seen = tpc.and %own, %keys : tensor<?x?xi1, #tpc.dist<[s, s]>>, tensor<?x1x1x?xi1, #tpc.dist<[b, 1, 1, s]>> -> tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>
  %bias = tpc.select %seen, %zero, %low : tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>, tensor<f32>, tensor<f32> -> tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>>
  %y = tpc.attention %x, %x, %x bias %bias scale 0.5 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> bias tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  return %y : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
}
