//===- AccumulateOps.td - Sums over micro-batches ----------*- tablegen -*-===//

#ifndef TPC_DIALECT_ACCUMULATEOPS
#define TPC_DIALECT_ACCUMULATEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_AccumulateOp : Tpc_Op<"accumulate"> {
  let summary = "Adds a value of each micro-batch to a sum of the stage";
  let description = [{
    `tpc.accumulate 0, %g : T sum{mb}` in a `tpc.micro_batches` that runs every micro-batch. The
    first iteration sets the sum to its value; each later iteration adds its value, so the order of
    additions is the order of micro-batches. A `tpc.accumulated` with the same index
    in a later `tpc.micro_batches` of the stage reads the sum. The pair is the lowered form of a
    `tpc.all_reduce` over `mb`. Gradient accumulation of PyTorch and Megatron (main_grad).
  }];
  let arguments = (ins I64Attr:$index, Tpc_Tensor:$value);
  let hasVerifier = 1;
  let assemblyFormat = "$index `,` $value attr-dict `:` type($value)";
}

def Tpc_AccumulatedOp : Tpc_Op<"accumulated"> {
  let summary = "Returns the sum over all micro-batches";
  let description = [{
    `%s = tpc.accumulated 0 : T`, after the loop with `tpc.accumulate 0`. The result has the type of
    the accumulated value, reduced over `mb`.
  }];
  let arguments = (ins I64Attr:$index);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$index attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    /// Returns the op that adds to this sum.
    AccumulateOp getSource();
  }];
}

#endif
