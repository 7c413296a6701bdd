module attributes {tpc.constraints = [{expr = #tpc.expr<batch>, min = 1 : i64, max = 8 : i64, why = "a table of 8 rows"}]} {
  func.func @main(%x: tensor<?xf32, #tpc.dist<[batch]>> {tpc.name = "x"}) -> tensor<?xf32, #tpc.dist<[batch]>> {
    return %x : tensor<?xf32, #tpc.dist<[batch]>>
  }
}
