// A model like Llama: two layers, 6 query heads and 2 kv heads, rotary positions, a gated MLP, a
// padding mask. Attention and MLP read the same norm (parallel residual).

tpc.weight @embed in "llama.bin" at 0 : tensor<31x24xf32>
tpc.weight @head in "llama.bin" at 2976 : tensor<31x24xf32>
tpc.weight @norm in "llama.bin" at 5952 : tensor<24xf32>
tpc.weight @h0_n1 in "llama.bin" at 6048 : tensor<24xf32>
tpc.weight @h0_wq in "llama.bin" at 6144 : tensor<24x24xf32>
tpc.weight @h0_wk in "llama.bin" at 8448 : tensor<24x8xf32>
tpc.weight @h0_wv in "llama.bin" at 9216 : tensor<24x8xf32>
tpc.weight @h0_wo in "llama.bin" at 9984 : tensor<24x24xf32>
tpc.weight @h0_wg in "llama.bin" at 12288 : tensor<24x20xf32>
tpc.weight @h0_wu in "llama.bin" at 14208 : tensor<24x20xf32>
tpc.weight @h0_wd in "llama.bin" at 16128 : tensor<20x24xf32>
tpc.weight @h1_n1 in "llama.bin" at 18048 : tensor<24xf32>
tpc.weight @h1_wq in "llama.bin" at 18144 : tensor<24x24xf32>
tpc.weight @h1_wk in "llama.bin" at 20448 : tensor<24x8xf32>
tpc.weight @h1_wv in "llama.bin" at 21216 : tensor<24x8xf32>
tpc.weight @h1_wo in "llama.bin" at 21984 : tensor<24x24xf32>
tpc.weight @h1_wg in "llama.bin" at 24288 : tensor<24x20xf32>
tpc.weight @h1_wu in "llama.bin" at 26208 : tensor<24x20xf32>
tpc.weight @h1_wd in "llama.bin" at 28128 : tensor<20x24xf32>

func.func private @layer(%x: tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, %mask: tensor<?x?xi1, #tpc.dist<[batch, sequence]>>, %cos: tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, %sin: tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, %n1: tensor<24xf32>, %wq: tensor<24x24xf32>, %wk: tensor<24x8xf32>, %wv: tensor<24x8xf32>, %wo: tensor<24x24xf32>, %wg: tensor<24x20xf32>, %wu: tensor<24x20xf32>, %wd: tensor<20x24xf32>) -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> attributes {tpc.layer} {
  %n = tpc.rms_norm %x, %n1 epsilon 1.0e-5 : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24xf32> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> loc("norm")
  %q = tpc.matmul %n, %wq : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x24xf32> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> loc("q_proj")
  %q4 = tpc.reshape %q : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> -> tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>>
  %qr = tpc.rotary %q4, %cos, %sin : tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>> -> tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>>
  %k = tpc.matmul %n, %wk : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x8xf32> -> tensor<?x8xf32, #tpc.dist<[batch * sequence, 8]>> loc("k_proj")
  %k4 = tpc.reshape %k : tensor<?x8xf32, #tpc.dist<[batch * sequence, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>
  %kr = tpc.rotary %k4, %cos, %sin : tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>> -> tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>
  %v = tpc.matmul %n, %wv : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x8xf32> -> tensor<?x8xf32, #tpc.dist<[batch * sequence, 8]>> loc("v_proj")
  %v4 = tpc.reshape %v : tensor<?x8xf32, #tpc.dist<[batch * sequence, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>
  %a4 = tpc.attention causal %qr, %kr, %v4 key_mask %mask scale 0.5 : tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[batch, sequence, 2, 4]>> key_mask tensor<?x?xi1, #tpc.dist<[batch, sequence]>> -> tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>> loc("sdpa")
  %a = tpc.reshape %a4 : tensor<?x?x6x4xf32, #tpc.dist<[batch, sequence, 6, 4]>> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
  %o = tpc.matmul %a, %wo : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x24xf32> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> loc("o_proj")
  %g = tpc.matmul %n, %wg : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x20xf32> -> tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>> loc("gate_proj")
  %u = tpc.matmul %n, %wu : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x20xf32> -> tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>> loc("up_proj")
  %s = tpc.silu %g : tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>> -> tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>>
  %m = tpc.mul %s, %u : tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>>, tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>> -> tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>>
  %d = tpc.matmul %m, %wd : tensor<?x20xf32, #tpc.dist<[batch * sequence, 20]>>, tensor<20x24xf32> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> loc("down_proj")
  %x1 = tpc.add %x, %o : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
  %x2 = tpc.add %x1, %d : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
  return %x2 : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
}

func.func @main(%ids: tensor<?x?xi64, #tpc.dist<[batch, sequence]>> {tpc.name = "input_ids"}, %padding: tensor<?x?xi64, #tpc.dist<[batch, sequence]>> {tpc.name = "attention_mask", tpc.default = #tpc.default<ones>}) -> (tensor<?x?x31xf32, #tpc.dist<[batch, sequence, 31]>> {tpc.name = "logits"}) {
  %zero = tpc.constant dense<0> : tensor<i64> : tensor<i64>
  %mask = tpc.cmp ne %padding, %zero : tensor<?x?xi64, #tpc.dist<[batch, sequence]>>, tensor<i64> -> tensor<?x?xi1, #tpc.dist<[batch, sequence]>>
  %i = tpc.reshape %ids : tensor<?x?xi64, #tpc.dist<[batch, sequence]>> -> tensor<?xi64, #tpc.dist<[batch * sequence]>>
  %embed = tpc.parameter @embed : tensor<31x24xf32>
  %x0 = tpc.embedding %embed, %i : tensor<31x24xf32>, tensor<?xi64, #tpc.dist<[batch * sequence]>> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> loc("embed_tokens")
  %pos = tpc.iota dim 1 : tensor<1x?x1xi64, #tpc.dist<[1, sequence, 1]>>
  %posf = tpc.cast %pos : tensor<1x?x1xi64, #tpc.dist<[1, sequence, 1]>> -> tensor<1x?x1xf32, #tpc.dist<[1, sequence, 1]>>
  %freq = tpc.constant dense<[[[1.0, 0.1]]]> : tensor<1x1x2xf32> : tensor<1x1x2xf32>
  %angle = tpc.mul %posf, %freq : tensor<1x?x1xf32, #tpc.dist<[1, sequence, 1]>>, tensor<1x1x2xf32> -> tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>
  %cos = tpc.cos %angle : tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>> -> tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>
  %sin = tpc.sin %angle : tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>> -> tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>
  %n1_0 = tpc.parameter @h0_n1 : tensor<24xf32>
  %wq_0 = tpc.parameter @h0_wq : tensor<24x24xf32>
  %wk_0 = tpc.parameter @h0_wk : tensor<24x8xf32>
  %wv_0 = tpc.parameter @h0_wv : tensor<24x8xf32>
  %wo_0 = tpc.parameter @h0_wo : tensor<24x24xf32>
  %wg_0 = tpc.parameter @h0_wg : tensor<24x20xf32>
  %wu_0 = tpc.parameter @h0_wu : tensor<24x20xf32>
  %wd_0 = tpc.parameter @h0_wd : tensor<20x24xf32>
  %x1 = func.call @layer(%x0, %mask, %cos, %sin, %n1_0, %wq_0, %wk_0, %wv_0, %wo_0, %wg_0, %wu_0, %wd_0) : (tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<?x?xi1, #tpc.dist<[batch, sequence]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, tensor<24xf32>, tensor<24x24xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x24xf32>, tensor<24x20xf32>, tensor<24x20xf32>, tensor<20x24xf32>) -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
  %n1_1 = tpc.parameter @h1_n1 : tensor<24xf32>
  %wq_1 = tpc.parameter @h1_wq : tensor<24x24xf32>
  %wk_1 = tpc.parameter @h1_wk : tensor<24x8xf32>
  %wv_1 = tpc.parameter @h1_wv : tensor<24x8xf32>
  %wo_1 = tpc.parameter @h1_wo : tensor<24x24xf32>
  %wg_1 = tpc.parameter @h1_wg : tensor<24x20xf32>
  %wu_1 = tpc.parameter @h1_wu : tensor<24x20xf32>
  %wd_1 = tpc.parameter @h1_wd : tensor<20x24xf32>
  %x2 = func.call @layer(%x1, %mask, %cos, %sin, %n1_1, %wq_1, %wk_1, %wv_1, %wo_1, %wg_1, %wu_1, %wd_1) : (tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<?x?xi1, #tpc.dist<[batch, sequence]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, tensor<1x?x2xf32, #tpc.dist<[1, sequence, 2]>>, tensor<24xf32>, tensor<24x24xf32>, tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x24xf32>, tensor<24x20xf32>, tensor<24x20xf32>, tensor<20x24xf32>) -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>
  %norm = tpc.parameter @norm : tensor<24xf32>
  %xf = tpc.rms_norm %x2, %norm epsilon 1.0e-5 : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24xf32> -> tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>> loc("final_norm")
  %head = tpc.parameter @head view <0 [[24 x 1], [31 x 24]]> : tensor<24x31xf32>
  %l = tpc.matmul %xf, %head : tensor<?x24xf32, #tpc.dist<[batch * sequence, 24]>>, tensor<24x31xf32> -> tensor<?x31xf32, #tpc.dist<[batch * sequence, 31]>> loc("lm_head")
  %logits = tpc.reshape %l : tensor<?x31xf32, #tpc.dist<[batch * sequence, 31]>> -> tensor<?x?x31xf32, #tpc.dist<[batch, sequence, 31]>>
  return %logits : tensor<?x?x31xf32, #tpc.dist<[batch, sequence, 31]>>
}
