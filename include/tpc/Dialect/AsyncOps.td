//===- AsyncOps.td - Asynchronous communication ------------*- tablegen -*-===//

#ifndef TPC_DIALECT_ASYNCOPS
#define TPC_DIALECT_ASYNCOPS

include "tpc/Dialect/TpcBase.td"
include "tpc/Interfaces/Collective.td"

def Tpc_AllReduceStartOp
    : Tpc_Op<"all_reduce_start", [Pure, DeclareOpInterfaceMethods<CollectiveOpInterface>]> {
  let summary = "Starts an all-reduce, which runs until its `tpc.wait`";
  let description = [{
    `tpc.all_reduce_start %x over ["tp"] chunks 4 grain 32 : T sum{tp} -> T`. The types are those of
    `tpc.all_reduce`. The result is in flight: its only use is a `tpc.wait` in the same block.

    With `chunks c grain g`, c operations reduce the rows (all dimensions but the last), one after
    the other. Rows are divided into u = ceil(rows / g) units of g rows. Chunk i begins at unit
    ceil(i * u / c). Chunks may be empty. If the operand is the result of a matmul, the lowering
    computes a chunk of its rows before it starts the chunk, so that the communication of one chunk
    runs while the next is computed.

    MPI_Iallreduce; ncclAllReduce on a second stream.
  }];
  let arguments = (ins Tpc_Tensor:$operand, TypedArrayAttrBase<StrAttr, "grid axes">:$axes,
                       DefaultValuedAttr<I64Attr, "1">:$chunks,
                       DefaultValuedAttr<I64Attr, "1">:$grain);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $operand `over` $axes (`chunks` $chunks^ `grain` $grain)? attr-dict `:` type($operand) `->`
    type($result)
  }];
  let extraClassDeclaration = [{
    static constexpr int64_t maxChunks = 8;
    /// Returns the rows of each chunk.
    SmallVector<int64_t> getChunkRows(int64_t rows);
  }];
}

def Tpc_WaitOp : Tpc_Op<"wait", [Pure, SameOperandsAndResultType]> {
  let summary = "Waits for a started collective, and returns its result";
  let description = [{
    `%y = tpc.wait %x : T`, where %x is the result of a `tpc.all_reduce_start`. Each started
    collective is waited for exactly once. Until then, its operand must not be written, and its
    result must be neither read nor written. MPI_Wait; cudaStreamWaitEvent.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

#endif
