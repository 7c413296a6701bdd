// A norm, an integer mask, and the index of the largest element.
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[batch, 8]>> {tpc.name = "x"}, %mask: tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "mask"}) -> (tensor<?x8xf32, #tpc.dist<[batch, 8]>> {tpc.name = "y"}, tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "first"}) {
  %ones = tpc.constant dense<1.0> : tensor<8xf32> : tensor<8xf32>
  %norm = tpc.layer_norm %x, %ones epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[batch, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[batch, 8]>>
  %truth = tpc.cast %mask : tensor<?xi64, #tpc.dist<[batch]>> -> tensor<?xi1, #tpc.dist<[batch]>>
  %rows = tpc.reshape %truth : tensor<?xi1, #tpc.dist<[batch]>> -> tensor<?x1xi1, #tpc.dist<[batch, 1]>>
  %y = tpc.select %rows, %norm, %x : tensor<?x1xi1, #tpc.dist<[batch, 1]>>, tensor<?x8xf32, #tpc.dist<[batch, 8]>>, tensor<?x8xf32, #tpc.dist<[batch, 8]>> -> tensor<?x8xf32, #tpc.dist<[batch, 8]>>
  %most = tpc.reduce max %y [1] : tensor<?x8xf32, #tpc.dist<[batch, 8]>> -> tensor<?xf32, #tpc.dist<[batch]>>
  %largest = tpc.reshape %most : tensor<?xf32, #tpc.dist<[batch]>> -> tensor<?x1xf32, #tpc.dist<[batch, 1]>>
  %is = tpc.cmp eq %y, %largest : tensor<?x8xf32, #tpc.dist<[batch, 8]>>, tensor<?x1xf32, #tpc.dist<[batch, 1]>> -> tensor<?x8xi1, #tpc.dist<[batch, 8]>>
  %i = tpc.iota dim 1 : tensor<1x8xi64>
  %none = tpc.constant dense<7> : tensor<i64> : tensor<i64>
  %places = tpc.select %is, %i, %none : tensor<?x8xi1, #tpc.dist<[batch, 8]>>, tensor<1x8xi64>, tensor<i64> -> tensor<?x8xi64, #tpc.dist<[batch, 8]>>
  %first = tpc.reduce min %places [1] : tensor<?x8xi64, #tpc.dist<[batch, 8]>> -> tensor<?xi64, #tpc.dist<[batch]>>
  return %y, %first : tensor<?x8xf32, #tpc.dist<[batch, 8]>>, tensor<?xi64, #tpc.dist<[batch]>>
}
