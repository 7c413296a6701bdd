// A softmax that a kernel computes.
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[batch, 8]>> {tpc.name = "x"}) -> (tensor<?x8xf32, #tpc.dist<[batch, 8]>> {tpc.name = "y"}) {
  %y = tpc.softmax %x dim 1 : tensor<?x8xf32, #tpc.dist<[batch, 8]>> -> tensor<?x8xf32, #tpc.dist<[batch, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[batch, 8]>>
}
