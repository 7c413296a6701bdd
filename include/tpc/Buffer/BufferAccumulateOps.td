//===- BufferAccumulateOps.td - Sums over micro-batches ----*- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFERACCUMULATEOPS
#define TPC_BUFFER_BUFFERACCUMULATEOPS

include "tpc/Buffer/BufferOpBase.td"

def Buffer_AccumulateOp : Buffer_Op<"accumulate"> {
  let summary = "Adds a buffer to the sum over micro-batches. tpc_accumulate.";
  let description = [{
    `tpc_buffer.accumulate %g to %sum count "12*_8"`: in micro-batch 0 `to` becomes `from`; in later
    ones, `from` is added to `to` in place.
  }];
  let arguments = (ins Buffer_Read:$from, Arg<Buffer_Buffer, "", [MemRead, MemWrite]>:$to,
                       Tpc_SymExprAttr:$count);
  let assemblyFormat = "$from `to` $to `count` custom<SymExpr>($count) attr-dict";
}

#endif
