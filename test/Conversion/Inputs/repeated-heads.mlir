// Two kv heads, each replicated twice over four ranks: a rank has the copy that its query heads
// read. Caches are passed through two levels of calls, to a function that two layers call.
!n = tensor<?xi64, #tpc.dist<[b], local>>
!x = tensor<?x1x?x8xf32, #tpc.dist<[b, 4{tp}, s, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
!kt = tensor<?x1x?x8xf32, #tpc.dist<[b, 4{tp}, c, 8], local>>
!i = tensor<4xi64>
!it = tensor<1xi64, #tpc.dist<[4{tp}], local>>
!whole = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 4, pp = 1>} {
tpc.cache @k0 : !whole
tpc.cache @k1 : !whole

func.func private @layer(%n: !n, %x: !x, %k: !k) -> !kt {
  %0 = tpc.constant dense<[0, 0, 1, 1]> : tensor<4xi64> : !i
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : !i -> !it
  %2 = tpc.gather %k, %1 dim 1 : !k, !it -> !kt
  %3 = tpc.append %2, %x at %n : !kt, !x, !n -> !kt
  return %3 : !kt
}

func.func private @stage(%n: !n, %x: !x, %k0: !k, %k1: !k) -> (!kt, !kt) {
  %0 = func.call @layer(%n, %x, %k0) : (!n, !x, !k) -> !kt
  %1 = func.call @layer(%n, %x, %k1) : (!n, !x, !k) -> !kt
  return %0, %1 : !kt, !kt
}

tpc.pipeline @main(%n: !n, %x: tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>>, %k0: !k, %k1: !k) inputs [{}, {}, {tpc.cache = @k0}, {tpc.cache = @k1}]
    outputs [{name = "k0", type = !whole, tpc.cache = @k0, tpc.copies = array<i64: 1, 2>},
             {name = "k1", type = !whole, tpc.cache = @k1, tpc.copies = array<i64: 1, 2>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = tpc.local_slice %x over ["tp"] dim 1 : tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>> -> !x
      %1:2 = func.call @stage(%n, %0, %k0, %k1) : (!n, !x, !k, !k) -> (!kt, !kt)
      tpc.output 0, %1#0 : !kt
      tpc.output 1, %1#1 : !kt
    }
  }
}
}
