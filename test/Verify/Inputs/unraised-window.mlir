// A window of six keys, as a mask of comparisons, and a clip and soft-caps of logits and scores.
// Runs of sequences shorter than the window do not exercise it, and small numbers do not exercise
// clip and soft-cap.
tpc.weight @w in "w" at 0 : tensor<8x8xf32>
tpc.weight @head in "w" at 256 : tensor<8x12xf32>

!x = tensor<?x?x8xf32, #tpc.dist<[batch, sequence, 8]>>
!rows = tensor<?x8xf32, #tpc.dist<[batch * sequence, 8]>>
!q = tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>
!places = tensor<1x1x?x?xi64, #tpc.dist<[1, 1, sequence, sequence]>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, sequence, sequence]>>
!logits = tensor<?x12xf32, #tpc.dist<[batch * sequence, 12]>>
!y = tensor<?x?x12xf32, #tpc.dist<[batch, sequence, 12]>>

func.func @main(%x: !x {tpc.name = "x"}) -> (!y {tpc.name = "y"}) {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %head = tpc.parameter @head : tensor<8x12xf32>
  %six = tpc.constant dense<6> : tensor<i64> : tensor<i64>
  %clip = tpc.constant dense<8.0> : tensor<f32> : tensor<f32>
  %cap = tpc.constant dense<30.0> : tensor<f32> : tensor<f32>
  %0 = tpc.reshape %x : !x -> !rows
  %1 = tpc.matmul %0, %w : !rows, tensor<8x8xf32> -> !rows loc("q")
  %2 = tpc.min %1, %clip : !rows, tensor<f32> -> !rows loc("clip")
  %q = tpc.reshape %2 : !rows -> !q
  %row = tpc.iota dim 2 : !places
  %column = tpc.iota dim 3 : !places
  %distance = tpc.sub %row, %column : !places, !places -> !places
  %apart = tpc.abs %distance : !places -> !places
  %mask = tpc.cmp lt %apart, %six : !places, tensor<i64> -> !mask loc("window")
  %3 = tpc.attention causal %q, %q, %q mask %mask scale 0.5 {softcap = 20.0 : f64} : !q, !q, !q mask !mask -> !q loc("attention")
  %4 = tpc.reshape %3 : !q -> !rows
  %5 = tpc.matmul %4, %head : !rows, tensor<8x12xf32> -> !logits loc("head")
  %6 = tpc.div %5, %cap : !logits, tensor<f32> -> !logits
  %7 = tpc.tanh %6 : !logits -> !logits loc("cap")
  %8 = tpc.mul %7, %cap : !logits, tensor<f32> -> !logits
  %y = tpc.reshape %8 : !logits -> !y
  return %y : !y
}
