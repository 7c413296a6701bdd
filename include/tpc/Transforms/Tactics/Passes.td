//===- Passes.td - Which axes split which factors ---------------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_TACTICS_PASSES
#define TPC_TRANSFORMS_TACTICS_PASSES

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
    module says what each tactic split, and which collectives it predicts: those that the reshards
    of the values that it claims become.

    `tpc.sharding` on weights, values and inputs (written by hand, or by
    tpc-apply-annotations) is the first tactic: what it says is decided, and the
    others fill what is left; with the item `manual` none of them splits over tp or dp.
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

def RepeatKvHeads : Pass<"tpc-repeat-kv-heads", "::mlir::ModuleOp"> {
  let summary = "Repeat kv heads where their number does not divide by tp";
  let description = [{
    Grouped attention with `kv` heads of keys and values, each for `group` query heads, where `kv` does not
    divide by tp: the group is divided into r parts, and each kv head is there r times, in the views of its
    weights (a rank then holds and computes the kv heads that its query heads need), or behind them (all ranks
    compute all kv heads, and take what they need). Nothing is sent. r divides the group and may be 1. The split
    with which the slowest rank takes the least time is taken; of equals the one with which the fullest rank
    holds least.

    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [16 x 1]]> : tensor<64x16xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x2x8xf32>
    ```
    with shard=tp4 becomes
    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [2 x 8, 2 x 0, 8 x 1]]> : tensor<64x32xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x4x8xf32>
    ```
    Caches that are inputs are whole on every rank, which takes the heads that it needs; of caches that are
    outputs the first copy of each head is delivered (`tpc.copies`). Heads that are annotated stay.
    A norm over all heads of keys is one over the repeated heads, with a scale that is repeated as well.
    `tpc.repeated_heads` on the attention op says what was done and what it costs.
  }];
  let options = [Option<"shard", "shard", "std::string", "", "What --megatron-shard takes: tp2,pp2,sp">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif // TPC_TRANSFORMS_TACTICS_PASSES
