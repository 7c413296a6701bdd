// GPT-2 at the model level: two layers, five heads of size 8, a vocabulary of 1009. Only the widths
// are divisible by 2.

tpc.weight @wte in "gpt2.bin" at 0 : tensor<1009x40xf32>
tpc.weight @wpe in "gpt2.bin" at 161440 : tensor<64x40xf32>
tpc.weight @h0_ln1s in "gpt2.bin" at 171680 : tensor<40xf32>
tpc.weight @h0_ln1b in "gpt2.bin" at 171840 : tensor<40xf32>
tpc.weight @h0_qkvw in "gpt2.bin" at 172000 : tensor<40x120xf32>
tpc.weight @h0_qkvb in "gpt2.bin" at 191200 : tensor<120xf32>
tpc.weight @h0_pw in "gpt2.bin" at 191680 : tensor<40x40xf32>
tpc.weight @h0_pb in "gpt2.bin" at 198080 : tensor<40xf32>
tpc.weight @h0_ln2s in "gpt2.bin" at 198240 : tensor<40xf32>
tpc.weight @h0_ln2b in "gpt2.bin" at 198400 : tensor<40xf32>
tpc.weight @h0_w1 in "gpt2.bin" at 198560 : tensor<40x160xf32>
tpc.weight @h0_b1 in "gpt2.bin" at 224160 : tensor<160xf32>
tpc.weight @h0_w2 in "gpt2.bin" at 224800 : tensor<160x40xf32>
tpc.weight @h0_b2 in "gpt2.bin" at 250400 : tensor<40xf32>
tpc.weight @h1_ln1s in "gpt2.bin" at 250560 : tensor<40xf32>
tpc.weight @h1_ln1b in "gpt2.bin" at 250720 : tensor<40xf32>
tpc.weight @h1_qkvw in "gpt2.bin" at 250880 : tensor<40x120xf32>
tpc.weight @h1_qkvb in "gpt2.bin" at 270080 : tensor<120xf32>
tpc.weight @h1_pw in "gpt2.bin" at 270560 : tensor<40x40xf32>
tpc.weight @h1_pb in "gpt2.bin" at 276960 : tensor<40xf32>
tpc.weight @h1_ln2s in "gpt2.bin" at 277120 : tensor<40xf32>
tpc.weight @h1_ln2b in "gpt2.bin" at 277280 : tensor<40xf32>
tpc.weight @h1_w1 in "gpt2.bin" at 277440 : tensor<40x160xf32>
tpc.weight @h1_b1 in "gpt2.bin" at 303040 : tensor<160xf32>
tpc.weight @h1_w2 in "gpt2.bin" at 303680 : tensor<160x40xf32>
tpc.weight @h1_b2 in "gpt2.bin" at 329280 : tensor<40xf32>
tpc.weight @lnfs in "gpt2.bin" at 329440 : tensor<40xf32>
tpc.weight @lnfb in "gpt2.bin" at 329600 : tensor<40xf32>

func.func private @layer(%x: tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, %ln1s: tensor<40xf32>, %ln1b: tensor<40xf32>, %wq: tensor<40x40xf32>, %bq: tensor<40xf32>, %wk: tensor<40x40xf32>, %bk: tensor<40xf32>, %wv: tensor<40x40xf32>, %bv: tensor<40xf32>, %pw: tensor<40x40xf32>, %pb: tensor<40xf32>, %ln2s: tensor<40xf32>, %ln2b: tensor<40xf32>, %w1: tensor<40x160xf32>, %b1: tensor<160xf32>, %w2: tensor<160x40xf32>, %b2: tensor<40xf32>) -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> attributes {tpc.layer} {
  %n1 = tpc.layer_norm %x, %ln1s bias %ln1b epsilon 1.0e-5 : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("ln_1")
  %q = tpc.matmul %n1, %wq bias %bq : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40x40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("attn.q")
  %q4 = tpc.reshape %q : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> -> tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>>
  %k = tpc.matmul %n1, %wk bias %bk : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40x40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("attn.k")
  %k4 = tpc.reshape %k : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> -> tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>>
  %v = tpc.matmul %n1, %wv bias %bv : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40x40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("attn.v")
  %v4 = tpc.reshape %v : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> -> tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>>
  %a4 = tpc.attention causal %q4, %k4, %v4 scale 0.35355339059327373 : tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>>, tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>>, tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>> -> tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>> loc("attn.sdpa")
  %a = tpc.reshape %a4 : tensor<?x?x5x8xf32, #tpc.dist<[batch, sequence, 5, 8]>> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>
  %p = tpc.matmul %a, %pw bias %pb : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40x40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("attn.proj")
  %x1 = tpc.add %x, %p : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("residual_1")
  %n2 = tpc.layer_norm %x1, %ln2s bias %ln2b epsilon 1.0e-5 : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("ln_2")
  %h = tpc.matmul %n2, %w1 bias %b1 : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40x160xf32> bias tensor<160xf32> -> tensor<?x160xf32, #tpc.dist<[batch * sequence, 160]>> loc("mlp.fc1")
  %g = tpc.gelu tanh %h : tensor<?x160xf32, #tpc.dist<[batch * sequence, 160]>> -> tensor<?x160xf32, #tpc.dist<[batch * sequence, 160]>> loc("mlp.gelu")
  %m = tpc.matmul %g, %w2 bias %b2 : tensor<?x160xf32, #tpc.dist<[batch * sequence, 160]>>, tensor<160x40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("mlp.fc2")
  %x2 = tpc.add %x1, %m : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("residual_2")
  return %x2 : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>
}

func.func @main(%ids: tensor<?x?xi64, #tpc.dist<[batch, sequence]>> {tpc.name = "input_ids"}) -> (tensor<?x?x1009xf32, #tpc.dist<[batch, sequence, 1009]>> {tpc.name = "logits"}) {
  %wte = tpc.parameter @wte : tensor<1009x40xf32>
  %wpe = tpc.parameter @wpe : tensor<64x40xf32>
  %i = tpc.reshape %ids : tensor<?x?xi64, #tpc.dist<[batch, sequence]>> -> tensor<?xi64, #tpc.dist<[batch * sequence]>>
  %te = tpc.embedding %wte, %i : tensor<1009x40xf32>, tensor<?xi64, #tpc.dist<[batch * sequence]>> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("wte")
  %pos = tpc.iota dim 1 : tensor<?x?xi64, #tpc.dist<[batch, sequence]>>
  %pi = tpc.reshape %pos : tensor<?x?xi64, #tpc.dist<[batch, sequence]>> -> tensor<?xi64, #tpc.dist<[batch * sequence]>>
  %pe = tpc.embedding %wpe, %pi : tensor<64x40xf32>, tensor<?xi64, #tpc.dist<[batch * sequence]>> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("wpe")
  %x0 = tpc.add %te, %pe : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("embeddings")
  %ln1s_0 = tpc.parameter @h0_ln1s : tensor<40xf32>
  %ln1b_0 = tpc.parameter @h0_ln1b : tensor<40xf32>
  %wq_0 = tpc.parameter @h0_qkvw view <0 [[40 x 120], [40 x 1]]> : tensor<40x40xf32>
  %bq_0 = tpc.parameter @h0_qkvb view <0 [[40 x 1]]> : tensor<40xf32>
  %wk_0 = tpc.parameter @h0_qkvw view <40 [[40 x 120], [40 x 1]]> : tensor<40x40xf32>
  %bk_0 = tpc.parameter @h0_qkvb view <40 [[40 x 1]]> : tensor<40xf32>
  %wv_0 = tpc.parameter @h0_qkvw view <80 [[40 x 120], [40 x 1]]> : tensor<40x40xf32>
  %bv_0 = tpc.parameter @h0_qkvb view <80 [[40 x 1]]> : tensor<40xf32>
  %pw_0 = tpc.parameter @h0_pw : tensor<40x40xf32>
  %pb_0 = tpc.parameter @h0_pb : tensor<40xf32>
  %ln2s_0 = tpc.parameter @h0_ln2s : tensor<40xf32>
  %ln2b_0 = tpc.parameter @h0_ln2b : tensor<40xf32>
  %w1_0 = tpc.parameter @h0_w1 : tensor<40x160xf32>
  %b1_0 = tpc.parameter @h0_b1 : tensor<160xf32>
  %w2_0 = tpc.parameter @h0_w2 : tensor<160x40xf32>
  %b2_0 = tpc.parameter @h0_b2 : tensor<40xf32>
  %x1 = func.call @layer(%x0, %ln1s_0, %ln1b_0, %wq_0, %bq_0, %wk_0, %bk_0, %wv_0, %bv_0, %pw_0, %pb_0, %ln2s_0, %ln2b_0, %w1_0, %b1_0, %w2_0, %b2_0) : (tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40x160xf32>, tensor<160xf32>, tensor<160x40xf32>, tensor<40xf32>) -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>
  %ln1s_1 = tpc.parameter @h1_ln1s : tensor<40xf32>
  %ln1b_1 = tpc.parameter @h1_ln1b : tensor<40xf32>
  %wq_1 = tpc.parameter @h1_qkvw view <0 [[40 x 120], [40 x 1]]> : tensor<40x40xf32>
  %bq_1 = tpc.parameter @h1_qkvb view <0 [[40 x 1]]> : tensor<40xf32>
  %wk_1 = tpc.parameter @h1_qkvw view <40 [[40 x 120], [40 x 1]]> : tensor<40x40xf32>
  %bk_1 = tpc.parameter @h1_qkvb view <40 [[40 x 1]]> : tensor<40xf32>
  %wv_1 = tpc.parameter @h1_qkvw view <80 [[40 x 120], [40 x 1]]> : tensor<40x40xf32>
  %bv_1 = tpc.parameter @h1_qkvb view <80 [[40 x 1]]> : tensor<40xf32>
  %pw_1 = tpc.parameter @h1_pw : tensor<40x40xf32>
  %pb_1 = tpc.parameter @h1_pb : tensor<40xf32>
  %ln2s_1 = tpc.parameter @h1_ln2s : tensor<40xf32>
  %ln2b_1 = tpc.parameter @h1_ln2b : tensor<40xf32>
  %w1_1 = tpc.parameter @h1_w1 : tensor<40x160xf32>
  %b1_1 = tpc.parameter @h1_b1 : tensor<160xf32>
  %w2_1 = tpc.parameter @h1_w2 : tensor<160x40xf32>
  %b2_1 = tpc.parameter @h1_b2 : tensor<40xf32>
  %x2 = func.call @layer(%x1, %ln1s_1, %ln1b_1, %wq_1, %bq_1, %wk_1, %bk_1, %wv_1, %bv_1, %pw_1, %pb_1, %ln2s_1, %ln2b_1, %w1_1, %b1_1, %w2_1, %b2_1) : (tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40x40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40x160xf32>, tensor<160xf32>, tensor<160x40xf32>, tensor<40xf32>) -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>
  %lnfs = tpc.parameter @lnfs : tensor<40xf32>
  %lnfb = tpc.parameter @lnfb : tensor<40xf32>
  %xf = tpc.layer_norm %x2, %lnfs bias %lnfb epsilon 1.0e-5 : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>> loc("ln_f")
  %head = tpc.parameter @wte view <0 [[40 x 1], [1009 x 40]]> : tensor<40x1009xf32>
  %l = tpc.matmul %xf, %head : tensor<?x40xf32, #tpc.dist<[batch * sequence, 40]>>, tensor<40x1009xf32> -> tensor<?x1009xf32, #tpc.dist<[batch * sequence, 1009]>> loc("lm_head")
  %logits = tpc.reshape %l : tensor<?x1009xf32, #tpc.dist<[batch * sequence, 1009]>> -> tensor<?x?x1009xf32, #tpc.dist<[batch, sequence, 1009]>>
  return %logits : tensor<?x?x1009xf32, #tpc.dist<[batch, sequence, 1009]>>
}
