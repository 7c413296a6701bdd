//===- Passes.td - Passes that create and optimize collectives ------------===//

#ifndef TPC_TRANSFORMS_COLLECTIVES_PASSES
#define TPC_TRANSFORMS_COLLECTIVES_PASSES

include "mlir/Pass/PassBase.td"

def InsertReshards : Pass<"tpc-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Set the distribution of every value, and insert reshards";
  let description = [{
    Reads `tpc.split`. An op's splits and its sharding rule determine the distributions of its
    operands and results; a split reduction factor makes the results unreduced. A linear op
    propagates unreduced operands (delayed reduction) if its result is not larger than the operands
    and no other use of the operands requires reduced values. For all other mismatches the pass
    inserts a `tpc.reshard` after the producer, one for each distinct distribution. The reshard of a
    weight is inserted before the user instead, so that a gathered weight is live for a short time.
    A result with `tpc.result_split` is resharded to this distribution before all uses. Inputs are
    replicated on every rank. Functions return reduced values; outputs are not gathered.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def LowerReshards : Pass<"tpc-lower-reshards", "::mlir::ModuleOp"> {
  let summary = "Lower reshards to collectives";
  let description = [{
    Each reshard becomes the sequence of `local_slice` (free), `reduce_scatter`, `all_reduce`,
    `collective_permute`, `all_to_all` and `all_gather` in which a rank sends the fewest bytes; for
    equal bytes, the sequence with the fewest collectives. The search covers all sequences over the
    axes that occur in either distribution. An `exchange` replaces a subsequence if it sends fewer
    bytes. A collective that is not among the expected collectives of the tactics (`tpc.tactics`) is
    an error with the value's ONNX node, because unexpected all-gathers make a partition slow;
    `allow-reshard` disables this check. A `tpc.roll` with split runs becomes a `collective_permute`
    or, for non-contiguous shards of runs, a gather; both must be expected.
  }];
  let options = [Option<"allowReshard", "allow-reshard", "bool", "false",
                        "Accept collectives that are not expected by a tactic">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def Localize : Pass<"tpc-localize", "::mlir::ModuleOp"> {
  let summary = "Convert all types to local types of one rank";
  let description = [{
    Converts the global program to the program of one rank: builtin shapes become local sizes, `?`
    where they differ between ranks. Errors: a remaining `tpc.reshard`.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def OptimizeCollectives : Pass<"tpc-optimize-collectives", "::mlir::ModuleOp"> {
  let summary = "Reduce the bytes and the number of collectives";
  let description = [{
    Runs on the program of one rank, after `tpc-localize` and before `tpc-split-stages`. Each
    rewrite reduces the bytes that a rank sends or, for equal bytes, the number of collectives:

    * Dead and duplicate ops are erased. Two collectives are duplicates if they have the same
      operand and axes.
    * Consecutive collectives and slices are replaced by the optimal sequence for their combined
      reshard if it is cheaper: a slice of an all-reduce becomes a reduce-scatter; a gather of a
      slice is a no-op.
    * A gather moves after an op that is parallel in the gathered dimension; a reduction moves after
      a linear op. A gather before an op that reduces the gathered dimension becomes an all-reduce
      of the op's result. These rewrites apply if one collective replaces those of several operands
      (`add`), or if the op's result is smaller than the operand (a narrowing cast, a slice, a sum).
      Gathers also move if the bytes are equal, to reduce computation. The sharding rule of the op
      determines the valid rewrites.
    * All-reduces of a function's results move to its calls if the results of several calls are
      added, as gradients of micro-batches are: one all-reduce of the sum remains.

    ```mlir
    %1 = tpc.all_gather %a over ["tp"] dim 0 : (T{tp}, 8) -> (T, 8)
    %2 = tpc.all_gather %b over ["tp"] dim 0 : (T{tp}, 8) -> (T, 8)
    %3 = tpc.add %1, %2
    ```
    becomes
    ```mlir
    %1 = tpc.add %a, %b : (T{tp}, 8)
    %3 = tpc.all_gather %1 over ["tp"] dim 0 : (T{tp}, 8) -> (T, 8)
    ```
    Errors: the module has no grid.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def CoalesceCollectives : Pass<"tpc-coalesce-collectives", "::mlir::ModuleOp"> {
  let summary = "Merge small adjacent collectives";
  let description = [{
    Merges all-reduces, all-gathers or reduce-scatters of the same kind over the same axes if they
    are independent, close together (at most six others between them) and latency-bound (α ≥
    β·bytes, by `tpc.links` and nominal sizes). The operands are concatenated along an unsplit
    dimension. All-reduces of unsplit values of different shapes are flattened first.

    ```mlir
    %1 = tpc.all_reduce %a over ["tp"] : (8) sum{tp} -> (8)
    %2 = tpc.all_reduce %b over ["tp"] : (2) sum{tp} -> (2)
    ```
    becomes
    ```mlir
    %j = tpc.concat %a, %b dim 0 : (10) sum{tp}
    %r = tpc.all_reduce %j over ["tp"] : (10) sum{tp} -> (10)
    %1 = tpc.slice %r dim 0 from 0 : (8)
    %2 = tpc.slice %r dim 0 from 8 : (2)
    ```
    Errors: the module has no grid.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def DispatchExperts : Pass<"tpc-dispatch-experts", "::mlir::ModuleOp"> {
  let summary = "Send tokens only to the ranks of their experts";
  let description = [{
    The all-gathers of the tokens and routing weights of a `tpc.moe`, and the reduce-scatter of its
    result, over one axis that splits the experts, become a `tpc.dispatch` and a `tpc.combine`. The
    form with the lower estimated time is used (`tpc.links`, nominal sizes): the gathers for few
    tokens or few ranks, the dispatch if most tokens need few ranks.

    ```mlir
    %1 = tpc.all_gather %rows over ["dp"] dim 0 : (T{dp}, 36) -> (T, 36)
    %x = tpc.slice %1 dim 1 from 0 : (T, 32)
    %r = tpc.slice %1 dim 1 from 32 : (T, 4)
    %2 = tpc.moe silu %x, %r, %up, %down top_k 2 : (T, 32) sum{dp}
    %3 = tpc.reduce_scatter %2 over ["dp"] dim 0 : (T, 32) sum{dp} -> (T{dp}, 32)
    ```
    becomes
    ```mlir
    %1 = tpc.dispatch %rows over ["dp"] from 32 experts (4{dp}) top_k 2 : (T{dp}, 36) -> (T, 36)
    %x = tpc.slice %1 dim 1 from 0 : (T, 32)
    %r = tpc.slice %1 dim 1 from 32 : (T, 4)
    %2 = tpc.moe silu %x, %r, %up, %down top_k 2 : (T, 32) sum{dp}
    %3 = tpc.combine %2 over ["dp"] experts (4{dp}) top_k 2 : (T, 32) sum{dp} -> (T{dp}, 32)
    ```
    Left alone: gathers with other uses; rows of a rank that are not adjacent; gathers over several
    axes. Errors: an unknown form.
  }];
  let options = [Option<"form", "form", "std::string", "\"auto\"",
                        "auto, gather, or all-to-all wherever it is possible">,
                 Option<"seconds", "seconds", "double", "0",
                        "time of a dispatch or combine apart from its messages">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def OverlapCollectives : Pass<"tpc-overlap-collectives", "::mlir::ModuleOp"> {
  let summary = "Start all-reduces of matmuls in chunks, and wait for them before their first use";
  let description = [{
    An all-reduce whose operand is the result of a matmul with a parameter, and has no other use,
    becomes a `tpc.all_reduce_start` of `chunks` chunks directly after the matmul, and a `tpc.wait`
    directly before the first use. The lowering computes the matmul chunk by chunk, so that a chunk
    is sent while the next is computed. No chunk but the last has fewer than `grain` rows.

    With `chunks=0`, each all-reduce gets the number of chunks with the lowest estimate. With m the
    seconds of the matmul of one chunk, which reads the whole weight, and t those of its all-reduce
    (`Cost.h`), c chunks take m + (c - 1) * max(m, t) + t. All-reduces that would gain less than 5%
    are left alone.

    ```mlir
    %1 = tpc.matmul %x, %w : (T, 8{tp}), (8{tp}, 4) -> (T, 4) sum{tp}
    %2 = tpc.all_reduce %1 over ["tp"] : (T, 4) sum{tp} -> (T, 4)
    ```
    becomes
    ```mlir
    %1 = tpc.matmul %x, %w : (T, 8{tp}), (8{tp}, 4) -> (T, 4) sum{tp}
    %2 = tpc.all_reduce_start %1 over ["tp"] chunks 4 grain 32 : (T, 4) sum{tp} -> (T, 4)
    %3 = tpc.wait %2 : (T, 4)
    ```
    All-reduces of other values, and matmuls of two computed values, are left alone. Sums keep their
    order, so results have the same bits. Runs on the staged program. Errors: a number of chunks
    that the op does not support.
  }];
  let options = [Option<"chunks", "chunks", "int64_t", "4",
                        "Chunks of each all-reduce; 0: the number with the lowest estimate">,
                 Option<"grain", "grain", "int64_t", "32",
                        "Minimum number of rows of all chunks but the last">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif // TPC_TRANSFORMS_COLLECTIVES_PASSES
