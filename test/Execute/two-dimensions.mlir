// Tensor parallelism in two dimensions has the results of the original program: after sharding, as
// one rank's program on all ranks, and as pipeline stages. With five heads of size eight, a width
// of 40 and a vocabulary of 1009, few sizes divide evenly. Grids include axes of one rank, more
// ranks than heads, and empty shards. The tolerance is 1e-6, because the epsilon of a decomposed
// norm is a constant in single precision.
// DEFINE: %{model} = %S/../Transforms/Inputs/gpt2.mlir
// DEFINE: %{shape} = batch=3,sequence=5
// DEFINE: %{shard} = tp2x2
// DEFINE: %{evaluate} = "--tpc-evaluate=shape=%{shape} tolerance=1e-6"
// DEFINE: %{run} = tpc-opt %{model} %{evaluate} --tpc-assign-shardings=shard=%{shard} %{evaluate} --tpc-insert-reshards %{evaluate} --tpc-lower-reshards %{evaluate} --tpc-localize --cse %{evaluate} --tpc-split-stages --tpc-schedule-pipeline --cse %{evaluate} -o /dev/null | FileCheck %s

// CHECK-COUNT-5: output 0 is the same

// RUN: %{run}
// REDEFINE: %{shard} = tp2x4
// RUN: %{run}
// REDEFINE: %{shard} = tp1x4
// RUN: %{run}
// REDEFINE: %{shard} = tp4x1
// RUN: %{run}
// REDEFINE: %{shard} = tp3x2,pp2,dp2,mb2
// RUN: %{run}
// REDEFINE: %{shard} = tp2x2,dp2,pp2,order=pp-tp-dp
// RUN: %{run}
// REDEFINE: %{shard} = tp7x6
// RUN: %{run}
// REDEFINE: %{shape} = batch=1,sequence=1
// RUN: %{run}
// REDEFINE: %{shape} = batch=0,sequence=3
// RUN: %{run}

// Groups of heads: fewer kv heads than ranks.
// REDEFINE: %{model} = %S/../Transforms/Inputs/llama.mlir
// REDEFINE: %{shape} = batch=2,sequence=5
// REDEFINE: %{shard} = tp2x2
// RUN: %{run}
// REDEFINE: %{shard} = tp2x4,pp2
// RUN: %{run}
// REDEFINE: %{shard} = tp4x2,dp2
// RUN: %{run}
// REDEFINE: %{shard} = tp3x3
// RUN: %{run}
