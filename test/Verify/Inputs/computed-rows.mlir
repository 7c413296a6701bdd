// A norm of rows that are looked up at computed indices.
tpc.weight @table in "w" at 0 : tensor<64x8xf32>
func.func @main(%ids: tensor<?xi64, #tpc.dist<[batch]>> {tpc.name = "ids"}) -> (tensor<?x8xf32, #tpc.dist<[batch, 8]>> {tpc.name = "y"}) {
  %table = tpc.parameter @table : tensor<64x8xf32>
  %last = tpc.size "batch - 1" : tensor<i64>
  %rows = tpc.min %ids, %last : tensor<?xi64, #tpc.dist<[batch]>>, tensor<i64> -> tensor<?xi64, #tpc.dist<[batch]>>
  %x = tpc.embedding %table, %rows : tensor<64x8xf32>, tensor<?xi64, #tpc.dist<[batch]>> -> tensor<?x8xf32, #tpc.dist<[batch, 8]>>
  %ones = tpc.constant dense<1.0> : tensor<8xf32> : tensor<8xf32>
  %y = tpc.layer_norm %x, %ones epsilon 1.0e-5 : tensor<?x8xf32, #tpc.dist<[batch, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[batch, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[batch, 8]>>
}
