//===- ExpertOps.td - Mixture of experts -------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_EXPERTOPS
#define TPC_DIALECT_EXPERTOPS

include "tpc/Dialect/TpcBase.td"
include "tpc/Dialect/ExpertEnums.td"
include "tpc/Interfaces/Collective.td"

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
    Computed in f32 at least, and rounded once. up, gate and down may be f16 or bf16 if x is f32.

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

/// A collective of a mixture of experts, over one axis, which splits the tokens (dimension 0) of
/// one of its values. `experts`: distribution of the experts, whose split contains the axis.
class Tpc_RoutedCollective<string mnemonic, string split>
    : Tpc_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<
          CollectiveOpInterface, [split, "sendsOnlyMissing", "getMaxMemberBytes"]>]> {
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
}

def Tpc_DispatchOp : Tpc_RoutedCollective<"dispatch", "getOperandSplitDim"> {
  let summary = "All-gather of tokens in which a rank receives only the tokens of its experts";
  let description = [{
    The operand's rows are [.., routing weights of all experts, ..]; the weights begin at `column`.
    The axis splits dimension 0 of the operand but not of the result. A rank receives a row only if
    the row has a nonzero weight for one of the rank's experts; it receives the row once, with the
    weights of its experts. All other elements of its result, in columns of other experts or in rows
    that it does not receive, are 0.

    For `tpc.moe`, and only for it, the result is equivalent to that of an all-gather, because rows
    with weight 0 add nothing. Therefore its only uses are slices that are `x` and `routing` of one
    `tpc.moe` with experts of this distribution, whose result has the only use `tpc.combine`.

    Ranks first send which rows and weights follow, one bit for each weight, then the data. All
    members of a group take part, also without tokens. MPI_Alltoallv, ncclSend and ncclRecv in one
    group; Megatron-LM's and DeepSeek's token dispatch. Errors: other uses; several axes.
  }];
  let arguments = (ins Tpc_FloatTensor:$operand, TypedArrayAttrBase<StrAttr, "grid axes">:$axes,
                       I64Attr:$column, Tpc_DimAttr:$experts, I64Attr:$top_k);
  let assemblyFormat = [{
    $operand `over` $axes `from` $column `experts` $experts `top_k` $top_k attr-dict `:`
    type($operand) `->` type($result)
  }];
}

def Tpc_CombineOp : Tpc_RoutedCollective<"combine", "getResultSplitDim"> {
  let summary = "Reduce-scatter of the results of experts in which rows of zeros are not sent";
  let description = [{
    The operand is a sum over the axis, which splits dimension 0 of the result. Operand and result
    have the values of a `tpc.reduce_scatter`, to the bit. A rank sends each member the rows that
    are not 0, after one bit for each row. Since `tpc.moe` adds the results of a rank's experts,
    this is at most one row for each token and rank.

    `experts` and `top_k` are those of the experts, for costs. Errors: an operand that is not a sum
    over the axis; several axes.
  }];
  let arguments = (ins Tpc_FloatTensor:$operand, TypedArrayAttrBase<StrAttr, "grid axes">:$axes,
                       Tpc_DimAttr:$experts, I64Attr:$top_k);
  let assemblyFormat = [{
    $operand `over` $axes `experts` $experts `top_k` $top_k attr-dict `:` type($operand) `->`
    type($result)
  }];
}

#endif
