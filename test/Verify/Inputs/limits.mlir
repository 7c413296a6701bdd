// Kernels that compare floats, and that index rows of a computed table.
!x = tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
!id = tensor<?xi64, #tpc.dist<[tokens]>>
func.func @main(%x: !x {tpc.name = "x"}, %id: !id {tpc.name = "id"}, %a: tensor<3x8xf32> {tpc.name = "a"}, %b: tensor<5x8xf32> {tpc.name = "b"}) -> (!x {tpc.name = "y"}) {
  %r = tpc.relu %x : !x -> !x
  %m = tpc.neg %b : tensor<5x8xf32> -> tensor<5x8xf32>
  %t = tpc.concat %a, %m dim 0 : tensor<3x8xf32>, tensor<5x8xf32> -> tensor<8x8xf32>
  %g = tpc.gather %t, %id dim 0 : tensor<8x8xf32>, !id -> !x
  %n = tpc.max %g, %r : !x, !x -> !x
  %y = tpc.add %n, %r : !x, !x -> !x
  return %y : !x
}
