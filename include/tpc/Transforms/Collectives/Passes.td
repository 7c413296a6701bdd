//===- Passes.td - From shardings to one rank's program ---------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_COLLECTIVES_PASSES
#define TPC_TRANSFORMS_COLLECTIVES_PASSES

include "mlir/Pass/PassBase.td"

def InsertReshards : Pass<"tpc-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Give every value its distribution, and reshard where ops need another";
  let description = [{
    Reads `tpc.split`: an op with these splits needs its operands, and yields its
    results, with the dimensions that its rule says; a split reduction yields an
    unreduced value. An op that is linear passes unreduced operands on, if
    that makes them no larger and nobody else needs them reduced (delayed reduction).
    Everywhere else a `tpc.reshard` is placed after the producer, one for
    each distinct distribution; that of a weight before the op that needs it, so that a gathered weight does
    not live longer than it must. What `tpc.hold` says comes before all users. Inputs are whole on every rank. Functions
    return reduced values; outputs are not gathered.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def LowerReshards : Pass<"tpc-lower-reshards", "::mlir::ModuleOp"> {
  let summary = "Turn reshards into collectives";
  let description = [{
    Each reshard becomes the sequence of `local_slice` (free), `reduce_scatter`,
    `all_reduce`, `collective_permute`, `all_to_all` and `all_gather` in which a rank sends the fewest bytes; of
    several, the one with fewest collectives. All sequences are considered, over the axes
    that occur in either distribution. Where one more `exchange`, which sends each rank what it needs and has not, sends less
    than all of these, it takes the place of what it does better. A collective that no tactic predicted (`tpc.tactics`) is an error that names the
    source of the value, unless `allow-reshard` is given: silent all-gathers are how
    partitions get slow. A `tpc.roll` of which runs are split becomes a `collective_permute`, predicted as well.
  }];
  let options = [Option<"allowReshard", "allow-reshard", "bool", "false",
                        "Accept collectives that no tactic predicted">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def Localize : Pass<"tpc-localize", "::mlir::ModuleOp"> {
  let summary = "Make every type one rank's";
  let description = [{
    From the program that says what values are to the one that a rank runs: builtin shapes
    become local sizes, `?` where they are not the same on all ranks.
    Errors: a `tpc.reshard` is left.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def OptimizeCollectives : Pass<"tpc-optimize-collectives", "::mlir::ModuleOp"> {
  let summary = "Send fewer bytes, in fewer collectives";
  let description = [{
    Works on one rank's program, after `tpc-localize` and before stages are cut. Each rewrite
    lessens the bytes that a rank sends or, for the same bytes, the number of collectives:

    * Dead and duplicate ops go. A collective is a duplicate only of one over the same axes, on the same operand.
    * Collectives and slices in a row are one reshard, which is made anew if that is
      cheaper: slice of all-reduce is reduce-scatter, gather of slice is nothing.
    * Below an op that is parallel in the gathered dimension a gather moves, below one that is linear a
      reduction, below one that reduces the gathered dimension a gather becomes an all-reduce of the result: where that lets
      two meet (`add`) or where the result is smaller (a narrowing cast, a slice, a sum). Gathers also move where as much is
      sent, so that less is computed. What an op may do is read off its sharding rule.

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
  let summary = "Join small collectives of one place";
  let description = [{
    All-reduces, all-gathers and reduce-scatters of one kind over the same axes that do not depend on each other, stand near each
    other (at most seven between them) and whose latency takes longer than their bytes (α ≥ β·bytes, by `tpc.links` and nominal
    sizes) become one, of joined operands: concatenated along a dimension that nothing splits, all-reduces of whole values of different
    shapes flat.

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
