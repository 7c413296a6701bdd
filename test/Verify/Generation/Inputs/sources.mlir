!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!r = tensor<?x?x1x4xf32, #tpc.dist<[b, r, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h {tpc.name = "x"}, %r: !r {tpc.name = "r"}, %c: !old {tpc.cache = @c, tpc.name = "c"}) -> (!h {tpc.name = "y"}, !all {tpc.cache = @c, tpc.name = "c"}) {
  %0 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %1 = tpc.concat %c, %0 dim 2 : !old, !t -> !all
  %k = tpc.transpose %1 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  %e = tpc.neg %r : !r -> !r
  %z = tpc.attention %y, %r, %e scale 1.0 : !h, !r, !r -> !h
  return %z, %1 : !h, !all
}
}
