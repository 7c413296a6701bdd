// The logarithm of position 0 is -inf and has no integer. `tpc.select` drops it.
func.func @main(%x: tensor<?x4xf32, #tpc.dist<[s, 4]>> {tpc.name = "x"}, %table: tensor<8x4xf32> {tpc.name = "table"}) -> (tensor<?x4xf32, #tpc.dist<[s, 4]>> {tpc.name = "y"}) {
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[s]>>
  %number = tpc.cast %i : tensor<?xi64, #tpc.dist<[s]>> -> tensor<?xf32, #tpc.dist<[s]>>
  %log = tpc.log %number : tensor<?xf32, #tpc.dist<[s]>> -> tensor<?xf32, #tpc.dist<[s]>>
  %far = tpc.cast %log : tensor<?xf32, #tpc.dist<[s]>> -> tensor<?xi64, #tpc.dist<[s]>>
  %near = tpc.cmp lt %i, %two : tensor<?xi64, #tpc.dist<[s]>>, tensor<i64> -> tensor<?xi1, #tpc.dist<[s]>>
  %row = tpc.select %near, %i, %far : tensor<?xi1, #tpc.dist<[s]>>, tensor<?xi64, #tpc.dist<[s]>>, tensor<?xi64, #tpc.dist<[s]>> -> tensor<?xi64, #tpc.dist<[s]>>
  %rows = tpc.embedding %table, %row : tensor<8x4xf32>, tensor<?xi64, #tpc.dist<[s]>> -> tensor<?x4xf32, #tpc.dist<[s, 4]>>
  %y = tpc.add %x, %rows : tensor<?x4xf32, #tpc.dist<[s, 4]>>, tensor<?x4xf32, #tpc.dist<[s, 4]>> -> tensor<?x4xf32, #tpc.dist<[s, 4]>>
  return %y : tensor<?x4xf32, #tpc.dist<[s, 4]>>
}
