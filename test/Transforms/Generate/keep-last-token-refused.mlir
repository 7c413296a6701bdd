// RUN: tpc-opt %s --tpc-keep-last-token --verify-diagnostics

!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<tokens = s, capacity = capacity, lengths = "lengths", counts = "counts">} {
  tpc.cache @k0 : !cache
  func.func @main(%x: !new {tpc.name = "x"}, %lengths: tensor<?xi64, #tpc.dist<[b]>> {tpc.name = "lengths"},
                  %counts: tensor<?xi64, #tpc.dist<[b]>> {tpc.name = "counts"}, %k0: !cache {tpc.cache = @k0}) -> (!new, !cache {tpc.cache = @k0}) {
    %all = tpc.append %k0, %x at %lengths : !cache, !new, tensor<?xi64, #tpc.dist<[b]>> -> !cache
    // expected-error @unknown {{'sum' (tpc.cumsum) does not compute each token independently}}
    %y = tpc.cumsum %x dim 2 : !new -> !new loc("sum")
    return %y, %all : !new, !cache
  }
}
