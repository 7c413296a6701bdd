//===- Passes.td - Passes that create and optimize collectives ------------===//

#ifndef TPC_TRANSFORMS_COLLECTIVES_PASSES
#define TPC_TRANSFORMS_COLLECTIVES_PASSES

include "mlir/Pass/PassBase.td"

def InsertReshards : Pass<"tpc-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Give every value a distribution, and insert reshards";
  let description = [{
    Reads `tpc.split`. An op with these splits requires its operands, and returns its results, with
    the dimensions of its sharding rule; a split reduction returns an unreduced value. A linear op
    propagates unreduced operands if they do not become larger and have no other use that needs them
    reduced (delayed reduction). Everywhere else the pass inserts a `tpc.reshard` after the
    producer, one for each distinct distribution. The reshard of a weight is inserted before the op
    that uses it, so that a gathered weight is live only as long as necessary. The distribution of
    `tpc.result_split` is applied before all uses. Inputs are unsplit on every rank. Functions
    return reduced values; outputs are not gathered.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def LowerReshards : Pass<"tpc-lower-reshards", "::mlir::ModuleOp"> {
  let summary = "Lower reshards to collectives";
  let description = [{
    Each reshard becomes the sequence of `local_slice` (free), `reduce_scatter`, `all_reduce`,
    `collective_permute`, `all_to_all` and `all_gather` in which a rank sends the fewest bytes;
    among equals, the one with the fewest collectives. The search covers all sequences over the axes
    that occur in either distribution. An `exchange`, which sends each rank only the elements that
    it needs and does not have, replaces a subsequence if it sends less. A collective that no tactic
    expects (`tpc.tactics`) is an error that names the source of the value, unless `allow-reshard`
    is given: silent all-gathers make partitions slow. A `tpc.roll` with split runs becomes a
    `collective_permute`, which tactics expect too.
  }];
  let options = [Option<"allowReshard", "allow-reshard", "bool", "false",
                                            "Accept collectives that no tactic expects">];
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
    Runs on the program of one rank, after `tpc-localize` and before stages are cut. Each rewrite
    reduces the bytes that a rank sends or, for equal bytes, the number of collectives:

    * Dead and duplicate ops are erased. A collective duplicates only one over the same axes, on the
      same operand.
    * Consecutive collectives and slices are combined into one reshard, which is replanned if that
      is cheaper: slice of all-reduce is reduce-scatter; gather of slice is a no-op.
    * A gather moves below an op that is parallel in the gathered dimension, a reduction below a
      linear op. A gather before an op that reduces the gathered dimension becomes an all-reduce of
      its result. These rewrites apply if two collectives meet (`add`) or if the result is smaller
      (a narrowing cast, a slice, a sum). Gathers also move at equal bytes, to reduce computation.
      The sharding rule of an op determines the valid rewrites.

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
    Merges all-reduces, all-gathers or reduce-scatters of one kind over the same axes that are
    independent, close together (at most seven ops between them) and dominated by latency (α ≥
    β·bytes, by `tpc.links` and nominal sizes). The operands are concatenated along a dimension that
    nothing splits; all-reduces of unsplit values of different shapes are flattened first.

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

#endif // TPC_TRANSFORMS_COLLECTIVES_PASSES
