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

// Operands and results of collectives have local types, which determine the data movement.
// Verifiers check the attributes against the types. `axes` are the grid axes that span the group.

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
  let summary = "Reduces an unreduced value over a group; every rank receives the result";
  let description = [{
    `tpc.all_reduce %x over ["tp"] : T sum{tp} -> T`. The operand is unreduced over the axes, the
    result is reduced. The operand's type determines the reduction kind. MPI_Allreduce,
    ncclAllReduce; Megatron's reduce_from_tensor_model_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AllGatherOp : Tpc_MovingCollective<"all_gather", ["getOperandSplitDim"]> {
  let summary = "Concatenates the shards of one dimension; every rank receives the whole dimension";
  let description = [{
    The axes split dimension `dim` of the operand but not of the result. In the operand's `#tpc.dim`
    they are the last axes of a factor, or of the product of factors. Shards may be uneven or empty.
    MPI_Allgatherv, ncclAllGather; Megatron's gather_from_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_ReduceScatterOp : Tpc_Collective<"reduce_scatter", ["getResultSplitDim"]> {
  let summary = "Reduces an unreduced value over a group; every rank receives its shard of one "
                "dimension";
  let description = [{
    The operand is unreduced over the axes. The result is reduced, and the axes split its dimension
    `dim`. MPI_Reduce_scatter, ncclReduceScatter; Megatron's
    reduce_scatter_to_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
}

def Tpc_AllToAllOp
    : Tpc_MovingCollective<"all_to_all", ["getOperandSplitDim", "getResultSplitDim"]> {
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
                           ["getOperandSplitDim", "getResultSplitDim", "sendsOnlyMissing",
                            "getMaxMemberBytes"]> {
  let summary = "Redistributes a split dimension by messages between pairs of ranks, with an "
                "optional cyclic shift";
  let description = [{
    The axes split dimension `dim` of both operand and result. With `from` and `every`, the op
    computes `tpc.roll`: a cyclic shift of each run of `every` elements along `dim`. Without them,
    the global value stays the same and only the split changes: the axes are in another order, or
    split the factors instead of their product: `[64{tp, dp}, 40]` to `[64{dp, tp}, 40]`.

    Each element is sent once, to the rank of the group whose result shard contains it. A shift by k
    elements sends k elements per shard if shards have at least k elements; otherwise a rank has
    several peers. Shards may be uneven or empty. Elements that stay on their rank are copied
    locally. Equivalent to MPI_Isend and MPI_Irecv with each peer, or ncclSend and ncclRecv in one
    group.

    Errors: a shard that is not one contiguous range of each run. The axes must therefore split the
    outermost factor of a run, or the product of factors: `batch * sequence{tp}` and `(batch *
    sequence){tp}` can be shifted every `sequence` elements, `4 * 16{tp}` cannot be shifted every
    64.
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
    : Tpc_MovingCollective<"exchange",
                           ["mayChangeAnySplit", "sendsOnlyMissing", "getMaxMemberBytes"]> {
  let summary = "Changes the distribution of a value by the fewest possible messages and bytes";
  let description = [{
    `tpc.exchange %x over ["tp", "dp"]` moves `[64{tp}, 32{dp}, 8]` to `[64{dp}, 32{tp}, 8]`, which
    would take several of the other collectives. `axes` lists the axes whose split changes in any
    dimension.

    A rank copies the elements that are in both its operand shard and its result shard. Every other
    block of the result shard is received from one source rank. Ranks with equal coordinates on the
    axes that split the operand have the same data, so a block may have several candidate sources.
    Blocks are assigned in descending order of size; equal sizes in the order of the receiving
    ranks. The source of a block is the candidate with the fewest elements sent so far. Ties go to
    the candidate with the receiver's coordinates on all other axes, then to the first candidate.

    Each rank receives only missing elements, which is the minimum over all sequences of
    collectives. All data from one rank to another is one message: the intersection of the sender's
    operand shard and the receiver's result shard, in row-major order. Shards may be uneven or
    empty. Equivalent to MPI_Isend and MPI_Irecv with each peer, to MPI_Alltoallv, or to ncclSend
    and ncclRecv in one group.

    Errors: `axes` that are not the axes whose split changes, in order of their first occurrence;
    operand and result that are unreduced over different axes (the op does not reduce); `mb` in
    `axes` (a rank has one micro-batch at a time); factors that cannot be aligned: `12{tp} * 64` and
    `768{dp}` are valid, `12{tp} * 64` and `8{dp} * 96` are not.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_BroadcastOp
    : Tpc_MovingCollective<"broadcast", [],
                           [DeclareOpInterfaceMethods<MovementOpInterface,
                                                      ["preservesAllElements"]>]> {
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
    The axes split dimension `dim` of the result but not of the operand. Splits over other axes and
    unreduced axes are the same in both types. With the axis `mb`, the op selects a micro-batch.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)
  }];
}

#endif
