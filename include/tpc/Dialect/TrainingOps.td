//===- TrainingOps.td - Ops of backward programs -----------*- tablegen -*-===//

#ifndef TPC_DIALECT_TRAININGOPS
#define TPC_DIALECT_TRAININGOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_ScatterAddOp : Tpc_ModelOp<"scatter_add"> {
  let summary = "Sums rows with equal ids into the result row of the id; the transpose of "
                "tpc.embedding";
  let description = [{
    updates [i.., h], ids [i..] -> [v, h]: result[r] is the sum of the updates whose id is r, in the
    order of the updates. A negative id counts from the end; an id that is not in -v to v-1 adds
    nothing. The result type determines v.
    `tpc.scatter_add %d, %ids : tensor<6x16xf32>, tensor<6xi64> -> tensor<8x16xf32>`.
    Rule: i are reduction factors (sum); h is parallel; v occurs only in the result: a rank with a
    shard of the rows adds the updates of its rows, without communication. Linear in the updates.
    Errors: sizes or element types that do not match.
  }];
  let arguments = (ins Tpc_FloatTensor:$updates, Tpc_IntTensor:$ids);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $updates `,` $ids attr-dict `:` type($updates) `,` type($ids) `->` type($result)
  }];
}

def Tpc_AttentionGradOp : Tpc_CostedOp<"attention_grad", [AttrSizedOperandSegments]> {
  let summary = "Gradient of attention with respect to q, k or v";
  let description = [{
    `tpc.attention_grad 1 %q, %k, %v, %d …`: the cotangent of operand 1 (k) of a `tpc.attention`
    with the same operands and attributes, whose result [b, sq, hq, dv] has the cotangent `d`. The
    result has the sizes of that operand: 0 is q, 1 is k, 2 is v. With probabilities p:

        dv = p^T d         ds = p (dp - rowsum(p dp))       dq = scale ds k
        dp = d v^T                                          dk = scale ds^T q

    `ds` is multiplied by the derivative of the softcap, 1 - tanh(x / softcap)^2. dk and dv are sums
    over the query heads of a kv head. A row without visible keys adds nothing, except with
    `uniform_rows` to dv. Ops that differ only in the number of the operand are one runtime call.
    Memory is linear in sq and sk: probabilities are recomputed for a block of queries at a time.

    There is no form for cotangents of `bias` and `slopes`, for `sinks`, and for `lengths`.

    Rule: b and kv heads are parallel, and dv for operand 2. Query heads per kv head and sq are
    parallel for operand 0, else reduction factors (sum). d, sk, and otherwise dv cannot be split.
    Linear in `d`. Source: Dao et al. 2022, appendix B.
  }];
  let arguments = (ins I64Attr:$of, Tpc_FloatTensor:$q, Tpc_FloatTensor:$k,
                       Tpc_FloatTensor:$v, Optional<Tpc_BoolTensor>:$key_mask,
                       Optional<Tpc_BoolTensor>:$mask, Optional<Tpc_FloatTensor>:$bias,
                       Optional<Tpc_FloatTensor>:$slopes, Tpc_FloatTensor:$cotangent,
                       F64Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<Tpc_SymExpr, "::tpc::SymExpr(0)">:$causal_offset,
                       OptionalAttr<Tpc_SymExpr>:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap, UnitAttr:$uniform_rows);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $of (`causal` $causal^)? $q `,` $k `,` $v `,` $cotangent (`key_mask` $key_mask^)?
    (`mask` $mask^)? (`bias` $bias^)? (`slopes` $slopes^)? `scale` $scale
    (`offset` custom<SymExpr>($causal_offset)^)? (`window` custom<SymExpr>($window)^)?
    (`uniform_rows` $uniform_rows^)? attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($cotangent) (`key_mask` type($key_mask)^)?
    (`mask` type($mask)^)? (`bias` type($bias)^)? (`slopes` type($slopes)^)? `->` type($result)
  }];
  let extraClassDeclaration = [{
    MaskedRow getMaskedRow() { return getUniformRows() ? MaskedRow::Uniform : MaskedRow::Zero; }
    /// Returns the ops of the block that differ only in the number of the operand, in program
    /// order. They are one runtime call.
    SmallVector<AttentionGradOp, 3> getMerged();
  }];
}

#endif
