// A model for tests in which the step is rejected before it is compared with the model.
func.func @main(%x: tensor<?x?xf32, #tpc.dist<[b, s]>> {tpc.name = "x"}) -> (tensor<?x?xf32, #tpc.dist<[b, s]>> {tpc.name = "y"}) {
  return %x : tensor<?x?xf32, #tpc.dist<[b, s]>>
}
