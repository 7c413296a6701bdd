//===- CollectiveOps.td - Resharding and communication ----------*- tablegen -*-===//

#ifndef TPC_DIALECT_COLLECTIVEOPS
#define TPC_DIALECT_COLLECTIVEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_AxesAttr : TypedArrayAttrBase<StrAttr, "grid axes">;

def Tpc_ReshardOp : Tpc_Op<"reshard", [Pure]> {
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

class Tpc_Collective<string mnemonic, list<Trait> traits = []> : Tpc_Op<mnemonic, !listconcat([Pure], traits)> {
  let hasVerifier = 1;
}

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

def Tpc_AllGatherOp : Tpc_Collective<"all_gather"> {
  let summary = "Joins the parts of one dimension; every rank gets the whole";
  let description = [{
    The axes split dimension `dim` of the operand and do not split the result's (they are the innermost split of a factor, or of the
    product). Parts may be uneven or empty. MPI_Allgatherv, ncclAllGather; Megatron's gather_from_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_ReduceScatterOp : Tpc_Collective<"reduce_scatter"> {
  let summary = "Combines the unreduced values of a group; every rank gets its part of one dimension";
  let description = [{
    The operand is unreduced over the axes; the result is not, and the axes split its dimension `dim`.
    MPI_Reduce_scatter, ncclReduceScatter; Megatron's reduce_scatter_to_sequence_parallel_region.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_AllToAllOp : Tpc_Collective<"all_to_all"> {
  let summary = "Moves a split from one dimension to another";
  let description = [{
    The axes split `from_dim` of the operand and `to_dim` of the result. MPI_Alltoallv.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$from_dim, I64Attr:$to_dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `from` $from_dim `to` $to_dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_BroadcastOp : Tpc_Collective<"broadcast"> {
  let summary = "Every rank of the group gets the value of coordinate `root`. Types are equal. MPI_Bcast.";
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$root);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `root` $root attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_LocalSliceOp : Tpc_Collective<"local_slice"> {
  let summary = "Each rank keeps its part of a replicated dimension; no communication";
  let description = [{
    The axes split dimension `dim` of the result and not of the operand. Of a value that is unreduced or split over other axes, those stay as they are.
    With the axis `mb` it takes a micro-batch.
  }];
  let arguments = (ins Tpc_Tensor:$operand, Tpc_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Tpc_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

#endif
