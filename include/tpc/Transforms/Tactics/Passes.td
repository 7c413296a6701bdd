//===- Passes.td - Passes that decide splits ---------------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_TACTICS_PASSES
#define TPC_TRANSFORMS_TACTICS_PASSES

include "mlir/Pass/PassBase.td"

def AssignShardings : Pass<"tpc-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Choose the grid axes that split the factors of each op";
  let description = [{
    Reads the model and `shard` ("tp2,dp2,sp"), sets `tpc.mesh`, and runs the tactics in sequence:
    data (batch over dp and mb), tensor (heads, inner widths and vocabulary over tp), sequence
    (tokens of values that tp does not split yet). With `tp2x4` the tensor tactics split columns
    over tpy, and the `rows` tactic splits the residual's width over tpx. Norms over a dimension
    that a tactic splits are decomposed first. The result is the attribute `tpc.split`: on an op one
    `#tpc.dim` for each factor of its sharding rule, on an argument of a layer function one for each
    dimension. `tpc.tactics` on the module lists the splits of each tactic and its expected
    collectives: those of the reshards of values that the tactic splits.

    Annotations (`tpc.sharding` on weights, values and inputs) are applied first: their splits are
    fixed, and the tactics split the remaining factors. With the item `manual` the tactics do not
    split over tp or dp. If one axis would split two factors of an op, the cheaper of the two splits
    is kept. If an annotated dimension cannot be split in the ops that use the tensor, only the
    stored tensor is split: a weight by its `tpc.split`, a value by `tpc.result_split`, which has
    one `#tpc.dim` for each dimension.

    Parameters, constants and iotas are duplicated for each use, so that users are split
    independently. If the inner dimension of a matmul is split, its bias is hoisted: it becomes an
    add after the reduction.

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

    Errors: an axis that splits no dimension, with the ops that prevent it; tp larger than every
    dimension that can be split.
  }];
  let options = [
    Option<"shard", "shard", "::tpc::ShardSpec", "", "Value of --megatron-shard: tp2,pp2,sp">,
    Option<"tactics", "tactics", "int64_t", "-1",
           "Number of tactics to run, from the first one (-1: all)">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def RepeatKvHeads : Pass<"tpc-repeat-kv-heads", "::mlir::ModuleOp"> {
  let summary = "Replicate KV heads if their number is not divisible by tp";
  let description = [{
    Applies to grouped attention with `kv` KV heads, each for `group` query heads, if tp does not
    divide `kv`. Each KV head is replicated r times, where r divides `group` and may be 1, so that
    each copy has group / r query heads. Replication is either in the views of the weights (a rank
    stores and computes the KV heads that its query heads need) or after the projections (all ranks
    compute all KV heads and select the needed ones). Neither needs communication. The pass chooses
    the variant with the minimum time of the slowest rank; for equal times, the variant that needs
    less memory on the worst-case rank.

    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [16 x 1]]> : tensor<64x16xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x2x8xf32>
    ```
    with shard=tp4 becomes
    ```mlir
    %k = tpc.parameter @k view <0 [[64 x 16], [2 x 8, 2 x 0, 8 x 1]]> : tensor<64x32xf32>
    tpc.attention %q, %k4, ...  : tensor<2x5x8x8xf32>, tensor<2x5x4x8xf32>
    ```
    Input caches are replicated, and each rank selects the heads that it needs. For output caches,
    the first copy of each head is delivered (`tpc.copies`). Attention ops with annotated heads are
    not changed. A norm over all heads of keys becomes a norm over the replicated heads, with a
    replicated scale. `tpc.repeated_heads` on the attention op describes the change and its cost.
  }];
  let options = [
    Option<"shard", "shard", "::tpc::ShardSpec", "", "Value of --megatron-shard: tp2,pp2,sp">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif // TPC_TRANSFORMS_TACTICS_PASSES
