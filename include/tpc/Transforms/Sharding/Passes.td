//===- Passes.td - From the model to one rank's program ---------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_SHARDING_PASSES
#define TPC_TRANSFORMS_SHARDING_PASSES

include "mlir/Pass/PassBase.td"

def AssignShardings : Pass<"tpc-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Decide which grid axes split which factors of every op";
  let description = [{
    Reads the model and `shard` ("tp2,dp2,sp"), sets `tpc.grid`, and runs the tactics in
    sequence: data (batch over dp and mb), tensor (heads, inner widths and vocabulary over
    tp), sequence (what is left of the tokens over tp). With `tp2x4` the tensor tactics split
    over tpy, and rows (the other side of matrices) over tpx. Norms over what is split within a layer
    (all heads of queries), or as rows, are written out first. Decisions are attributes:
    `tpc.split` on an op has one `#tpc.dim` for each factor of its sharding rule, on an
    argument of a layer function one for each dimension. `tpc.tactics` on the
    module says what each tactic split, and which collectives it predicts.

    `tpc.sharding` on weights, values and inputs (written by hand, or by
    tpc-apply-annotations) is the first tactic: what it says is decided, and the
    strategies fill what is left; with the item `manual` they leave everything else whole.
    Where one axis would split two factors of an op, one of them yields there, by cost. A tensor that is to be in
    parts of a dimension which some op needs whole is held so alone: a weight by its `tpc.split`, a
    value by `tpc.hold`, one `#tpc.dim` for each dimension, into which it is resharded.

    Parameters, constants and iotas get one op for each use, so that layers that share
    one are split independently. A bias is taken out of a product whose inner dimension is
    split: it is added once, after the reduction.

    ```mlir
    %h = tpc.matmul %x, %w1 bias %b1 : [T, 40], [40, 160]
    %y = tpc.matmul %h, %w2 bias %b2 : [T, 160], [160, 40]
    ```
    with tp2 becomes
    ```mlir
    %h = tpc.matmul %x, %w1 bias %b1 {tpc.split = [T, 160{tp}, 40]}
    %p = tpc.matmul %h, %w2          {tpc.split = [T, 40, 160{tp} ]}
    %y = tpc.add %p, %b2
    ```

    Errors: an axis with nothing that it could split, naming the ops that
    forbid it; tp larger than anything that can be split.
  }];
  let options = [Option<"shard", "shard", "std::string", "", "What --megatron-shard takes: tp2,pp2,sp">,
                 Option<"tactics", "tactics", "int64_t", "-1", "Run only so many of the tactics, the first ones (-1: all)">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def ApplyAnnotations : Pass<"tpc-apply-annotations", "::mlir::ModuleOp"> {
  let summary = "Read a file of annotations onto weights, inputs and values";
  let description = [{
    Works on the imported program. A line of `file` is a pattern and a list,

        h.*.mlp.c_fc.weight: [-, tp]     # `-`: not split, `tp+dp`: both, `?`: left to the strategies

    and gives `tpc.sharding` to every weight (by its ONNX initializer's name), input and value
    (by its ONNX name) that the pattern matches; `*` is any characters, `?` is one.

    With `shard`, the multi-device fields of the ONNX file (IR version 11) are read as well, before
    `file`: the device configuration named `configuration`, or the one that has
    as many devices as the grid has ranks. Device numbers are ranks; the parts of a tensor
    must lie along axes of the grid. Pipeline stages of nodes say where stages are cut.

    Errors name file, line and column: a line that is none; a pattern that matches nothing; a list
    that has not as many entries as the tensor has dimensions; an axis that there is not,
    or that is twice in a list; two lines that say different things of one tensor.
  }];
  let options = [Option<"file", "file", "std::string", "", "The file">,
                 Option<"shard", "shard", "std::string", "", "What --megatron-shard takes, which has the grid">,
                 Option<"configuration", "configuration", "std::string", "", "Which of the file's device configurations">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def HoldAnnotations : Pass<"tpc-hold-annotations", "::mlir::ModuleOp"> {
  let summary = "Keep annotations of values while the model is recognized";
  let description = [{
    Takes `tpc.sharding` off ops and marks their locations, which rewrites keep, with a number;
    `tpc.held_annotations` on the module says what each stands for. The first
    pass of the model stage; see tpc-place-annotations.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PlaceAnnotations : Pass<"tpc-place-annotations", "::mlir::ModuleOp"> {
  let summary = "Put held annotations back on ops";
  let description = [{
    Before repeated layers become functions: layers that are annotated in different ways are
    different. An annotation of `[batch, sequence, 64]` is one of `[batch * sequence, 64]`.
    Errors: a value that has become part of a larger op; one whose dimensions are in another order.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def RepeatKvHeads : Pass<"tpc-repeat-kv-heads", "::mlir::ModuleOp"> {
  let summary = "Make kv heads as many as tp has use for, where there are fewer than ranks";
  let description = [{
    Grouped attention with `kv` heads of keys and values, each for `group` query heads, and more ranks in
    tp than kv heads: the group is divided into r parts, and each kv head is there r times, in the
    views of its weights. A rank then holds and computes the kv head that its query heads need, and nothing
    is sent. r divides the group and is the one with which the fullest rank holds least; it may be 1.

    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [16 x 1]]> : tensor<64x16xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x2x8xf32>
    ```
    with shard=tp4 becomes
    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [2 x 8, 2 x 0, 8 x 1]]> : tensor<64x32xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x4x8xf32>
    ```
    Keys or values that do not come from weights alone (a cache), or that are used by others (an output), or are annotated, stay.
    `tpc.repeated_heads` on the attention op says what was done and what it costs.
  }];
  let options = [Option<"shard", "shard", "std::string", "", "What --megatron-shard takes: tp2,pp2,sp">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

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
    %1 = tpc.slice %r dim 0 from "0" : (8)
    %2 = tpc.slice %r dim 0 from "8" : (2)
    ```
    Errors: the module has no grid.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif
