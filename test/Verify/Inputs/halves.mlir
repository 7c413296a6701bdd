// Angles in f32, as in rotary embeddings, a 16-bit norm, and an f32 matmul of 16-bit operands.
func.func @main(%x: tensor<?x8xf16, #tpc.dist<[tokens, 8]>> {tpc.name = "x"}, %position: tensor<?x1xi64, #tpc.dist<[tokens, 1]>> {tpc.name = "position"}, %w: tensor<8x8xf16> {tpc.name = "w"}) -> (tensor<?x8xf16, #tpc.dist<[tokens, 8]>> {tpc.name = "y"}) {
  %f = tpc.constant dense<[1.0, 0.56, 0.32, 0.18, 0.1, 0.056, 0.032, 0.018]> : tensor<8xf32> : tensor<8xf32>
  %n = tpc.cast %position : tensor<?x1xi64, #tpc.dist<[tokens, 1]>> -> tensor<?x1xf32, #tpc.dist<[tokens, 1]>>
  %angle = tpc.mul %n, %f : tensor<?x1xf32, #tpc.dist<[tokens, 1]>>, tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
  %cos = tpc.cos %angle : tensor<?x8xf32, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
  %c = tpc.cast %cos : tensor<?x8xf32, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf16, #tpc.dist<[tokens, 8]>>
  %ones = tpc.constant dense<1.0> : tensor<8xf16> : tensor<8xf16>
  %norm = tpc.rms_norm %x, %ones epsilon 1.0e-5 : tensor<?x8xf16, #tpc.dist<[tokens, 8]>>, tensor<8xf16> -> tensor<?x8xf16, #tpc.dist<[tokens, 8]>>
  %turned = tpc.mul %norm, %c : tensor<?x8xf16, #tpc.dist<[tokens, 8]>>, tensor<?x8xf16, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf16, #tpc.dist<[tokens, 8]>>
  %a = tpc.cast %turned : tensor<?x8xf16, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
  %b = tpc.cast %w : tensor<8x8xf16> -> tensor<8x8xf32>
  %p = tpc.matmul %a, %b : tensor<?x8xf32, #tpc.dist<[tokens, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
  %s = tpc.mul %p, %p : tensor<?x8xf32, #tpc.dist<[tokens, 8]>>, tensor<?x8xf32, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
  %y = tpc.cast %s : tensor<?x8xf32, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf16, #tpc.dist<[tokens, 8]>>
  return %y : tensor<?x8xf16, #tpc.dist<[tokens, 8]>>
}
