//===- TrainingOps.td - Ops of backward programs -----------*- tablegen -*-===//

#ifndef TPC_DIALECT_TRAININGOPS
#define TPC_DIALECT_TRAININGOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_ScatterAddOp : Tpc_ModelOp<"scatter_add"> {
  let summary = "Adds rows to the rows of zeros that their ids select"
                ": the transpose of tpc.embedding";
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

#endif
