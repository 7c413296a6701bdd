//===- BufferAsyncOps.td - Asynchronous communication on buffers *- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFERASYNCOPS
#define TPC_BUFFER_BUFFERASYNCOPS

include "tpc/Buffer/BufferOpBase.td"

def Buffer_AllReduceStartOp : Buffer_Op<"all_reduce_start"> {
  let summary = "Starts a tpc_buffer.all_reduce. tpc_all_reduce_start.";
  let description = [{
    `%t = tpc_buffer.all_reduce_start %x to %y over ["tp"] sum count _8`: %t is the token of a
    `tpc_buffer.wait`. Until the wait, no op writes `from`, and no op reads or writes `to`. Both may
    be the same buffer. Members of the group start their operations in the same order.
  }];
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes,
                       Tpc_ReductionKind:$kind, Tpc_SymExprAttr:$count);
  let results = (outs I32:$token);
  let assemblyFormat = [{
    $from `to` $to `over` $axes $kind `count` custom<SymExpr>($count) attr-dict
  }];
}

def Buffer_WaitOp : Buffer_Op<"wait"> {
  let summary = "Waits until an asynchronous operation is complete. tpc_wait.";
  let description = [{
    `tpc_buffer.wait %t`. Each token is waited for exactly once.
  }];
  let arguments = (ins I32:$token);
  let assemblyFormat = "$token attr-dict";
  let hasVerifier = 1;
}

#endif
