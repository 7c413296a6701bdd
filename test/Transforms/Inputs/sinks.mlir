// Attention with six query heads, three kv heads, and one sink per query head.

tpc.weight @wq in "sinks.bin" at 0 : tensor<24x24xf32>
tpc.weight @wk in "sinks.bin" at 2304 : tensor<24x12xf32>
tpc.weight @wv in "sinks.bin" at 3456 : tensor<24x12xf32>
tpc.weight @wo in "sinks.bin" at 4608 : tensor<24x24xf32>
tpc.weight @sinks in "sinks.bin" at 6912 : tensor<6xf32>

!x = tensor<?x?x24xf32, #tpc.dist<[batch, sequence, 24]>>
!rows = tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
!kvrows = tensor<?x12xf32, #tpc.dist<[batch * sequence, 12]>>
!q = tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>>
!kv = tensor<?x?x3x4xf32, #tpc.dist<[batch, sequence, 3, 4]>>

func.func @main(%x: !x {tpc.name = "x"}) -> (!x {tpc.name = "y"}) {
  %wq = tpc.parameter @wq : tensor<24x24xf32>
  %wk = tpc.parameter @wk : tensor<24x12xf32>
  %wv = tpc.parameter @wv : tensor<24x12xf32>
  %wo = tpc.parameter @wo : tensor<24x24xf32>
  %sinks = tpc.parameter @sinks : tensor<6xf32>
  %0 = tpc.reshape %x : !x -> !rows
  %1 = tpc.matmul %0, %wq : !rows, tensor<24x24xf32> -> !rows loc("q")
  %q = tpc.reshape %1 : !rows -> !q
  %2 = tpc.matmul %0, %wk : !rows, tensor<24x12xf32> -> !kvrows loc("k")
  %k = tpc.reshape %2 : !kvrows -> !kv
  %3 = tpc.matmul %0, %wv : !rows, tensor<24x12xf32> -> !kvrows loc("v")
  %v = tpc.reshape %3 : !kvrows -> !kv
  %4 = tpc.attention causal %q, %k, %v sinks %sinks scale 0.5 : !q, !kv, !kv sinks tensor<6xf32> -> !q loc("attention")
  %5 = tpc.reshape %4 : !q -> !rows
  %6 = tpc.matmul %5, %wo : !rows, tensor<24x24xf32> -> !rows loc("proj")
  %7 = tpc.add %0, %6 : !rows, !rows -> !rows
  %y = tpc.reshape %7 : !rows -> !x
  return %y : !x
}
