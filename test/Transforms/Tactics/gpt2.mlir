// The whole pipeline for GPT-2: 2L+1 all-reduces with tp, 2L+1 reduce-scatters and all-gathers with
// sp. All layers are one function. So the text has two collectives in it and one outside of it.
// With sp, the head adds a gather.
// DEFINE: %{passes} = --tpc-insert-reshards --tpc-lower-reshards --tpc-localize
// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp2 %{passes} | FileCheck %s --check-prefix=TP
// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp8 %{passes} | FileCheck %s --check-prefix=TP
// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp4,sp,dp3,mb2 %{passes} | FileCheck %s --check-prefix=SP
// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=dp2,pp4 %{passes} | FileCheck %s --check-prefix=DP
// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp2 | FileCheck %s --check-prefix=TACTICS

// RUN: tpc-opt %S/../Inputs/llama.mlir --tpc-assign-shardings=shard=tp2 | FileCheck %s --check-prefix=GROUPS

// GROUPS: "2 groups of heads over tp 2: q_proj (columns), k_proj (columns), v_proj (columns), sdpa, o_proj (rows)"

// TACTICS-DAG: "5 heads over tp 2: attn.q (columns), attn.k (columns), attn.v (columns), attn.sdpa, attn.proj (rows)"
// TACTICS-DAG: "160 over tp 2: mlp.fc1 (columns), mlp.fc2 (rows)"
// TACTICS-DAG: "1009 over tp 2: wte"
// TACTICS-DAG: "1009 over tp 2: lm_head (columns)"

// TP-LABEL: @layer
// TP-NOT: tpc.all_gather
// TP: %[[P:.*]] = tpc.matmul {{.*}}sum{tp}
// TP-NEXT: %[[R:.*]] = tpc.all_reduce %[[P]] over ["tp"]
// TP-NEXT: tpc.add %[[R]], %{{.*}} tensor<40xf32>
// TP: tpc.all_reduce
// TP-NOT: tpc.all_
// TP-LABEL: @main
// TP-SAME: [batch, sequence, 1009{tp}]
// TP: tpc.embedding
// TP-NEXT: tpc.all_reduce
// TP-NOT: tpc.all_
// TP: return

// SP-LABEL: @layer
// SP-SAME: [(batch{dp, mb}*sequence){tp}, 40]
// SP: tpc.layer_norm
// SP-NEXT: tpc.all_gather {{.*}} over ["tp"] dim 0
// SP: tpc.reduce_scatter {{.*}} over ["tp"] dim 0
// SP: tpc.layer_norm
// SP-NEXT: tpc.all_gather
// SP: tpc.reduce_scatter
// SP-NOT: tpc.all_
// SP-LABEL: @main
// SP: tpc.local_slice %arg0 over ["dp", "mb"] dim 0
// SP: tpc.embedding
// SP-NEXT: tpc.reduce_scatter
// SP-NOT: tpc.all_
// SP: tpc.layer_norm
// SP-NEXT: tpc.all_gather
// SP-NOT: tpc.all_
// SP: return

// DP-NOT: tpc.all_
// DP: tpc.local_slice %arg0 over ["dp"] dim 0
// DP-NOT: tpc.all_
// DP: return
