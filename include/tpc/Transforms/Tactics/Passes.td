//===- Passes.td - Passes that decide splits ---------------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_TACTICS_PASSES
#define TPC_TRANSFORMS_TACTICS_PASSES

include "mlir/Pass/PassBase.td"

def AssignShardings : Pass<"tpc-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Decide which grid axes split the factors of every op";
  let description = [{
    Reads the model and `shard` ("tp2,dp2,sp"), sets `tpc.grid`, and runs the tactics in sequence:
    data (batch over dp and mb), tensor (heads, inner widths and vocabulary over tp), sequence (the
    remaining tokens over tp). With `tp2x4` the tensor tactics split over tpy, and rows (the other
    side of matrices) over tpx. Norms over a dimension that is split within a layer (all heads of
    queries), or as rows, are decomposed first. Decisions are attributes: `tpc.split` on an op has
    one `#tpc.dim` for each factor of its sharding rule, on an argument of a layer function one for
    each dimension. `tpc.tactics` on the module lists the splits of each tactic and its expected
    collectives: those that implement the reshards of the tactic's values.

    `tpc.sharding` on weights, values and inputs (written by hand, or by tpc-apply-annotations) is
    the first tactic: its splits are fixed, and the other tactics split the remaining factors. With
    the item `manual` no other tactic splits over tp or dp. If one axis would split two factors of
    an op, one of them loses the conflict, by cost. If a tensor shall be split along a dimension
    that some op needs whole, only its storage is split: a weight by its `tpc.split`, a value by
    `tpc.result_split`, one `#tpc.dim` for each dimension, to which it is resharded.

    Parameters, constants and iotas are duplicated for each use, so that layers that share one are
    split independently. The bias of a matmul whose inner dimension is split is hoisted out of it:
    it is added once, after the reduction.

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

    Errors: an axis with nothing to split, naming the ops that prevent it; tp larger than any
    dimension that can be split.
  }];
  let options = [
    Option<"shard", "shard", "std::string", "", "Value of --megatron-shard: tp2,pp2,sp">,
    Option<"tactics", "tactics", "int64_t", "-1",
           "Number of tactics to run, from the first one (-1: all)">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def RepeatKvHeads : Pass<"tpc-repeat-kv-heads", "::mlir::ModuleOp"> {
  let summary = "Replicate KV heads if their number is not divisible by tp";
  let description = [{
    Applies to grouped attention with `kv` heads of keys and values, each for `group` query heads,
    if tp does not divide `kv`. The group is divided into r parts, and each KV head is replicated r
    times: in the views of its weights (a rank then stores and computes the KV heads that its query
    heads need), or after them (all ranks compute all KV heads, and select the ones that they need).
    Neither needs communication. r divides the group and may be 1. The pass chooses the split with
    the least time on the slowest rank; among equals, the one with the least memory on the rank with
    the most.

    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [16 x 1]]> : tensor<64x16xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x2x8xf32>
    ```
    with shard=tp4 becomes
    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [2 x 8, 2 x 0, 8 x 1]]> : tensor<64x32xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x4x8xf32>
    ```
    Caches that are inputs are unsplit on every rank, which selects the heads that it needs. For
    caches that are outputs, the first copy of each head is delivered (`tpc.copies`). Annotated
    heads are not changed. A norm over all heads of keys becomes one over the replicated heads, with
    a replicated scale. `tpc.repeated_heads` on the attention op describes the change and its cost.
  }];
  let options = [
    Option<"shard", "shard", "std::string", "", "Value of --megatron-shard: tp2,pp2,sp">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif // TPC_TRANSFORMS_TACTICS_PASSES
