// Two MLPs. Between them, the next token is added to each token; for the last token, the next one
// is the first of the sequence.

tpc.weight @w1 in "shift.bin" at 0 : tensor<10x14xf32>
tpc.weight @w2 in "shift.bin" at 560 : tensor<14x10xf32>
tpc.weight @w3 in "shift.bin" at 1120 : tensor<10x14xf32>
tpc.weight @w4 in "shift.bin" at 1680 : tensor<14x10xf32>

!x = tensor<?x?x10xf32, #tpc.dist<[batch, sequence, 10]>>
!rows = tensor<?x10xf32, #tpc.dist<[batch * sequence, 10]>>
!inner = tensor<?x14xf32, #tpc.dist<[batch * sequence, 14]>>

func.func @main(%x: !x {tpc.name = "x"}) -> (!x {tpc.name = "y"}) {
  %w1 = tpc.parameter @w1 : tensor<10x14xf32>
  %w2 = tpc.parameter @w2 : tensor<14x10xf32>
  %w3 = tpc.parameter @w3 : tensor<10x14xf32>
  %w4 = tpc.parameter @w4 : tensor<14x10xf32>
  %0 = tpc.reshape %x : !x -> !rows
  %1 = tpc.matmul %0, %w1 : !rows, tensor<10x14xf32> -> !inner loc("fc1")
  %2 = tpc.silu %1 : !inner -> !inner
  %3 = tpc.matmul %2, %w2 : !inner, tensor<14x10xf32> -> !rows loc("fc2")
  %4 = tpc.tanh %3 : !rows -> !rows
  %5 = tpc.roll %4 dim 0 from 1 every sequence : !rows -> !rows loc("shift")
  %6 = tpc.sub %4, %5 : !rows, !rows -> !rows
  %7 = tpc.matmul %6, %w3 : !rows, tensor<10x14xf32> -> !inner loc("fc3")
  %8 = tpc.silu %7 : !inner -> !inner
  %9 = tpc.matmul %8, %w4 : !inner, tensor<14x10xf32> -> !rows loc("fc4")
  %10 = tpc.reshape %9 : !rows -> !x
  return %10 : !x
}
