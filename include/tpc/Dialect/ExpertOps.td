//===- ExpertOps.td - Mixture of experts -------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_EXPERTOPS
#define TPC_DIALECT_EXPERTOPS

include "tpc/Dialect/TpcBase.td"
include "tpc/Dialect/ExpertEnums.td"

def Tpc_MoeOp : Tpc_InferredOp<"moe", [AttrSizedOperandSegments]> {
  let summary = "Mixture of experts: the sum of the selected experts of each token";
  let description = [{
    x [tokens, hidden], routing [tokens, experts], up and gate [experts, inner, hidden], down
    [experts, outputs, inner], up_bias and gate_bias [experts, inner] -> [tokens, outputs]:

        result[t, o] = sum over e of routing[t, e] * sum over f of h[t, e, f] * down[e, o, f]
        h[t, e, f]   = activation(u)                       without gate
                     = activation(v) * (u + beta)          with gate
        u            = x[t, :] · up[e, f, :] + up_bias[e, f]
        v            = x[t, :] · gate[e, f, :] + gate_bias[e, f]

    With `limit` L > 0, v is at most L, and u is clamped to [-L, L]. `silu` is z * sigmoid(alpha z).
    Element [t, e] of `routing` is 0 if token t does not use expert e; then expert e is not computed
    for t, and infinities in its weights have no effect. `top_k` is the expected number of nonzero
    elements of a row, for costs. A bias after `down` is the matmul of `routing` and the biases.
    Computed in f32 at least, and rounded once.

    Rule: tokens and outputs are parallel; experts and inner are reductions (sum). `hidden` cannot
    be split. Every rank has whole rows of `routing`, and reads the columns of its experts, so a
    split of experts does not split the router. Linear in `routing` and in `down`.

    Errors: sizes that do not match; `limit`, `beta` or gate_bias without `gate`; `alpha` without
    silu. Sources: com.microsoft MoE; Mixtral, Qwen3-MoE and gpt-oss in transformers; Megatron-LM's
    expert parallelism.
  }];
  let arguments = (ins Tpc_FloatTensor:$x, Tpc_FloatTensor:$routing, Tpc_FloatTensor:$up,
                       Tpc_FloatTensor:$down, Optional<Tpc_FloatTensor>:$gate,
                       Optional<Tpc_FloatTensor>:$up_bias, Optional<Tpc_FloatTensor>:$gate_bias,
                       Tpc_ExpertActivation:$activation, I64Attr:$top_k,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha,
                       DefaultValuedAttr<F64Attr, "0.0">:$beta,
                       DefaultValuedAttr<F64Attr, "0.0">:$limit);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $activation $x `,` $routing `,` $up `,` $down (`gate` $gate^)? (`up_bias` $up_bias^)?
    (`gate_bias` $gate_bias^)? `top_k` $top_k (`alpha` $alpha^)? (`beta` $beta^)?
    (`limit` $limit^)? attr-dict `:` type($x) `,` type($routing) `,` type($up) `,` type($down)
    (`gate` type($gate)^)? (`up_bias` type($up_bias)^)? (`gate_bias` type($gate_bias)^)?
    `->` type($result)
  }];
}

#endif
