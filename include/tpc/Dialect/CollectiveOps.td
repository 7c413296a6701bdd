//===- CollectiveOps.td - Resharding and communication ----------*- tablegen -*-===//

#ifndef TPC_DIALECT_COLLECTIVEOPS
#define TPC_DIALECT_COLLECTIVEOPS

include "tpc/Dialect/TpcBase.td"
include "tpc/Interfaces/Collective.td"

def Tpc_AxesAttr : TypedArrayAttrBase<StrAttr, "grid axes">;

def Tpc_ReshardOp : Tpc_Op<"reshard", [Pure, MovementOpInterface]> {
  let summary = "Changes the distribution of a value; the global value stays the same";
  let description = [{
    Exists only in the sharded program: `tpc-insert-reshards` creates it, `tpc-lower-reshards`
    replaces it by collectives. Global sizes and element types are equal.
  }];
  let arguments = (ins Tpc_Tensor:$operand);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

// Collectives act on local values. The types define the operation, the verifiers check the
// attributes against them. `axes` are the axes of the group.

/// `methods`: the interface methods that the op implements itself.
class Tpc_Collective<string mnemonic, list<string> methods = [], list<Trait> traits = []>
    : Tpc_Op<mnemonic,
             !listconcat([Pure, DeclareOpInterfaceMethods<CollectiveOpInterface, methods>],
                         traits)> {
  let hasVerifier = 1;
}

/// A collective without reduction.
class Tpc_MovingCollective<string mnemonic, list<string> methods = [],
                           list<Trait> movement = [MovementOpInterface]>
    : Tpc_Collective<mnemonic, methods, movement>;

def Tpc_AllReduceOp : Tpc_Collective<"all_reduce"> {
  let summary = "Reduces the unreduced values of a group; every rank gets the result";
  let description = [{
    `tpc.all_reduce %x over ["tp"] : T sum{tp} -> T`. The operand is unreduced over the axes, the
    result is not; the reduction kind is the operand's. MPI_Allreduce, ncclAllReduce; Megatron's
    reduce_from_tensor_model_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AllGatherOp : Tpc_MovingCollective<"all_gather", ["getOperandSplit"]> {
  let summary = "Joins the shards of one dimension; every rank gets the whole dimension";
  let description = [{
    The axes split dimension `dim` of the operand but not of the result. They are the innermost
    split of a factor, or of the product. Shards may be uneven or empty. MPI_Allgatherv,
    ncclAllGather; Megatron's gather_from_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_ReduceScatterOp : Tpc_Collective<"reduce_scatter", ["getResultSplit"]> {
  let summary = "Reduces the unreduced values of a group; every rank gets its shard of one "
                "dimension";
  let description = [{
    The operand is unreduced over the axes; the result is not, and the axes split its dimension
    `dim`.
    MPI_Reduce_scatter, ncclReduceScatter; Megatron's reduce_scatter_to_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_AllToAllOp : Tpc_MovingCollective<"all_to_all", ["getOperandSplit", "getResultSplit"]> {
  let summary = "Moves a split from one dimension to another";
  let description = [{
    The axes split `from_dim` of the operand and `to_dim` of the result. MPI_Alltoallv.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$from_dim,
                       I64Attr:$to_dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `from` $from_dim `to` $to_dim attr-dict `:` type($operand) `->`
    type($result)
  }];
}

def Tpc_CollectivePermuteOp
    : Tpc_MovingCollective<"collective_permute",
                           ["getOperandSplit", "getResultSplit", "sendsOnlyNeeded",
                            "getMaxMemberBytes"]> {
  let summary = "Moves the elements of a split dimension to the ranks that have them in the result";
  let description = [{
    The axes split dimension `dim` of the operand and of the result. With `from` and `every` the
    global value is that of `tpc.roll`: a cyclic shift along `dim`, or along runs of `every`
    elements of it. Without them, the global value is the operand's, and the axes split the
    dimension in another order, or its factors instead of their product: `[64{tp, dp}, 40]` to
    `[64{dp, tp}, 40]`.

    A rank sends each of its elements to the one rank of the group that has it in the result, and
    nothing else. A shift by k elements sends k elements per shard, if the shard is larger. Blocks
    may be uneven or empty. If the shift is longer than a block, a rank has more than one peer.
    Elements that stay on their rank are copied locally. MPI_Isend and MPI_Irecv with these peers;
    ncclSend and ncclRecv in one group.

    Errors: each rank's shard must be one range of each run. So the axes split the outermost factor
    of a run, or the product: `batch * sequence{tp}` and `(batch * sequence){tp}` can be shifted
    every `sequence` elements, `4 * 16{tp}` cannot be shifted every 64.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim,
                       OptionalAttr<Tpc_SymExpr>:$from, OptionalAttr<Tpc_SymExpr>:$every);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim
    (`from` custom<SymExpr>($from)^ `every` custom<SymExpr>($every))?
    attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_ExchangeOp
    : Tpc_MovingCollective<"exchange", ["movesAnyDim", "sendsOnlyNeeded", "getMaxMemberBytes"]> {
  let summary = "Changes the distribution of a value by the fewest possible messages and bytes";
  let description = [{
    `tpc.exchange %x over ["tp", "dp"]` moves `[64{tp}, 32{dp}, 8]` to `[64{dp}, 32{tp}, 8]`, which
    takes several of the other collectives. The axes are those whose split of any dimension changes.

    A rank keeps the elements of its shard that it needs in the result. Each further block that it
    needs comes from one source. Ranks with equal coordinates on the axes that split the operand
    have the same data, so there may be several candidates. Blocks are assigned in descending order
    of size, and at equal size in the order of the receiving ranks. The source is the candidate that
    has sent the least so far. Ties prefer the candidate at the receiver's coordinates on all other
    axes, then the first.

    A rank thus receives only what it needs and does not have, which is the minimum for any sequence
    of collectives. All data from one rank to another is one message: the intersection of the
    sender's shard and the receiver's result, row by row. Shards may be uneven or empty.
    MPI_Isend and MPI_Irecv with these peers (or MPI_Alltoallv, with empty messages to the others);
    ncclSend and ncclRecv in one group.

    Errors: `axes` that are not these axes, in the order in which they occur. There is no reduction:
    both sides are unreduced over the same axes. `mb` cannot be one of the axes, as a rank has one
    micro-batch at a time. If a dimension's factors differ, one side must divide the other:
    `12{tp} * 64` and `768{dp}`, but not `12{tp} * 64` and `8{dp} * 96`.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_BroadcastOp
    : Tpc_MovingCollective<"broadcast", [],
                           [DeclareOpInterfaceMethods<MovementOpInterface,
                                                      ["keepsEveryElement"]>]> {
  let summary = "Copies the value at coordinate `root` to every rank of the group. Types are "
                "equal. MPI_Bcast.";
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$root);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `root` $root attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_LocalSliceOp : Tpc_Op<"local_slice", [Pure, MovementOpInterface]> {
  let summary = "Each rank keeps its shard of a replicated dimension; no communication";
  let description = [{
    The axes split dimension `dim` of the result and not of the operand. Unreduced axes and splits
    of the operand over other axes stay unchanged. With the axis `mb`, the op selects a micro-batch.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
}

#endif
