// A model, for steps that are rejected before the comparison with it.
func.func @main(%x: tensor<?x?xf32, #tpc.dist<[b, s]>> {tpc.name = "x"}) -> (tensor<?x?xf32, #tpc.dist<[b, s]>> {tpc.name = "y"}) {
  return %x : tensor<?x?xf32, #tpc.dist<[b, s]>>
}
