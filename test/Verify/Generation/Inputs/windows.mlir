// Layers with and without a window.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
tpc.cache @d : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h {tpc.name = "x"}, %c: !old {tpc.cache = @c, tpc.name = "c"}, %d: !old {tpc.cache = @d, tpc.name = "d"})
    -> (!h {tpc.name = "y"}, !all {tpc.cache = @c, tpc.name = "c"}, !all {tpc.cache = @d, tpc.name = "d"}) {
  %t = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %0 = tpc.concat %c, %t dim 2 : !old, !t -> !all
  %1 = tpc.concat %d, %t dim 2 : !old, !t -> !all
  %k = tpc.transpose %0 [0, 2, 1, 3] : !all -> !keys
  %l = tpc.transpose %1 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p window 3 : !h, !keys, !keys -> !h
  %z = tpc.attention causal %y, %l, %l scale 1.0 offset p : !h, !keys, !keys -> !h
  return %z, %0, %1 : !h, !all, !all
}
}
