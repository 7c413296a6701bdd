//===- CollectiveOps.td - Resharding and communication ----------*- tablegen -*-===//

#ifndef TPC_DIALECT_COLLECTIVEOPS
#define TPC_DIALECT_COLLECTIVEOPS

include "tpc/Dialect/TpcBase.td"
include "tpc/Interfaces/Collective.td"

def Tpc_AxesAttr : TypedArrayAttrBase<StrAttr, "grid axes">;

def Tpc_ReshardOp : Tpc_Op<"reshard", [Pure, MovementOpInterface]> {
  let summary = "The same global value under another distribution";
  let description = [{
    Exists in the sharded program only: created by `tpc-insert-reshards`,
    replaced by collectives in `tpc-lower-reshards`. Global sizes and element types are equal.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

// Collectives act on local values. Their types say what they do; verifiers
// compare the two. `axes` are the axes of the group.

/// `answers`: the methods of the interface that the op has an answer of its own to.
class Tpc_Collective<string mnemonic, list<string> answers = [], list<Trait> traits = []>
    : Tpc_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<CollectiveOpInterface, answers>], traits)> {
  let hasVerifier = 1;
}

/// One that adds nothing.
class Tpc_MovingCollective<string mnemonic, list<string> answers = [], list<Trait> movement = [MovementOpInterface]>
    : Tpc_Collective<mnemonic, answers, movement>;

def Tpc_AllReduceOp : Tpc_Collective<"all_reduce"> {
  let summary = "Combines the unreduced values of a group; every rank gets the whole";
  let description = [{
    `tpc.all_reduce %x over ["tp"] : T sum{tp} -> T`. The operand is unreduced over the axes, the result is not; the kind is the operand's.
    MPI_Allreduce, ncclAllReduce; Megatron's reduce_from_tensor_model_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AllGatherOp : Tpc_MovingCollective<"all_gather", ["getOperandSplit"]> {
  let summary = "Joins the parts of one dimension; every rank gets the whole";
  let description = [{
    The axes split dimension `dim` of the operand and do not split the result's (they are the innermost split of a factor, or of the
    product). Parts may be uneven or empty. MPI_Allgatherv, ncclAllGather; Megatron's gather_from_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_ReduceScatterOp : Tpc_Collective<"reduce_scatter", ["getResultSplit"]> {
  let summary = "Combines the unreduced values of a group; every rank gets its part of one dimension";
  let description = [{
    The operand is unreduced over the axes; the result is not, and the axes split its dimension `dim`.
    MPI_Reduce_scatter, ncclReduceScatter; Megatron's reduce_scatter_to_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AllToAllOp : Tpc_MovingCollective<"all_to_all", ["getOperandSplit", "getResultSplit"]> {
  let summary = "Moves a split from one dimension to another";
  let description = [{
    The axes split `from_dim` of the operand and `to_dim` of the result. MPI_Alltoallv.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$from_dim, I64Attr:$to_dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `from` $from_dim `to` $to_dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_CollectivePermuteOp
    : Tpc_MovingCollective<"collective_permute", ["getOperandSplit", "getResultSplit", "sendsPieces", "getPieceBytes"]> {
  let summary = "Moves the elements of a split dimension to the ranks that have them afterwards";
  let description = [{
    The axes split dimension `dim` of the operand and of the result. With `from` and `every` the global value is
    that of `tpc.roll`: a cyclic shift along `dim`, or along runs of `every` elements of it. Without, it is the operand's, and the axes
    split the dimension in another order, or its factors instead of their product: `[64{tp, dp}, 40]` to `[64{dp, tp}, 40]`.

    A rank sends each of its elements to the one rank of the group that has it in the result, and nothing else: a shift by k
    elements sends k of each rank's part if it is larger than that. Blocks may be uneven or empty, and the shift may be longer than a block: then a rank has more than one
    peer. What stays on its rank is copied there. MPI_Isend and MPI_Irecv with these peers; ncclSend and
    ncclRecv in one group.

    Errors: each rank's part must be one range of each run. The axes split the outermost factor of a run, or the product:
    `batch * sequence{tp}` and `(batch * sequence){tp}` can be shifted every `sequence` elements, `4 * 16{tp}` cannot every 64.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim, OptionalAttr<Tpc_SymExpr>:$from,
                       OptionalAttr<Tpc_SymExpr>:$every);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim (`from` custom<SymExpr>($from)^ `every` custom<SymExpr>($every))? attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_ExchangeOp : Tpc_MovingCollective<"exchange", ["movesAnyDim", "sendsPieces", "getPieceBytes"]> {
  let summary = "The same value under another distribution: each rank gets what it needs and does not have, and nothing else";
  let description = [{
    `tpc.exchange %x over ["tp", "dp"]` moves `[64{tp}, 32{dp}, 8]` to `[64{dp}, 32{tp}, 8]`: what no other collective can do at once. The axes are
    those that split any dimension otherwise than before, whichever it is. A rank that has a part
    keeps what it needs of it. All else that it needs it gets from one rank each: the ranks that are alike on the axes that split the
    operand have the same. Of these, the one that sends least so far sends the next piece, the
    largest first, those of one size in the order of the ranks that need them; of equals, the one that is at the receiver's coordinates on all other axes, then the first.

    So a rank gets no more than what it needs without what it has, which is the least that any sequence of collectives can do. What one rank sends to another
    is one message: the intersection of what the one has and the other needs, row by row. Parts may be uneven or empty.
    MPI_Isend and MPI_Irecv with these peers (or MPI_Alltoallv, with empty messages to the others); ncclSend and ncclRecv in one group.

    Errors: `axes` must be these axes, in the order in which they occur. Nothing is added: both sides are
    unreduced over the same axes. `mb` cannot be one of them, as a rank has one micro-batch at a time. Where a dimension's factors differ, one
    side must divide the other's: `12{tp} * 64` and `768{dp}`, but not `12{tp} * 64` and `8{dp} * 96`.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_BroadcastOp
    : Tpc_MovingCollective<"broadcast", [], [DeclareOpInterfaceMethods<MovementOpInterface, ["keepsEveryElement"]>]> {
  let summary = "Every rank of the group gets the value of coordinate `root`. Types are equal. MPI_Bcast.";
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$root);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `root` $root attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_LocalSliceOp : Tpc_Op<"local_slice", [Pure, MovementOpInterface]> {
  let summary = "Each rank keeps its part of a replicated dimension; no communication";
  let description = [{
    The axes split dimension `dim` of the result and not of the operand. Of a value that is unreduced or split over other axes, those stay as they are.
    With the axis `mb` it takes a micro-batch.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

#endif
