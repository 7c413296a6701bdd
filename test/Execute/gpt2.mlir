// The partitioned GPT-2 has the results of the original: after sharding, as one rank's program on
// all ranks, and as pipeline stages with micro-batches. Five heads, a vocabulary of 1009, uneven
// batches and tokens, and empty shards.
// DEFINE: %{model} = %S/../Transforms/Inputs/gpt2.mlir
// DEFINE: %{shape} = batch=3,sequence=5
// DEFINE: %{shard} = tp1
// DEFINE: %{evaluate} = --tpc-evaluate=shape=%{shape}
// DEFINE: %{run} = tpc-opt %{model} %{evaluate} --tpc-assign-shardings=shard=%{shard} %{evaluate} --tpc-insert-reshards %{evaluate} --tpc-lower-reshards --tpc-localize --cse %{evaluate} --tpc-split-stages --tpc-schedule-pipeline --cse %{evaluate} -o /dev/null | FileCheck %s

// CHECK-COUNT-4: output 0 is the same

// RUN: %{run}
// REDEFINE: %{shard} = tp2
// RUN: %{run}
// REDEFINE: %{shard} = tp3,sp
// RUN: %{run}
// REDEFINE: %{shard} = tp8,pp4
// RUN: %{run}
// REDEFINE: %{shard} = dp2,mb4
// RUN: %{run}
// REDEFINE: %{shard} = tp4,sp,dp2,pp2,mb2
// RUN: %{run}
// REDEFINE: %{shape} = batch=1,sequence=1
// RUN: %{run}
// REDEFINE: %{shape} = batch=0,sequence=3
// RUN: %{run}
// REDEFINE: %{shape} = batch=5,sequence=2
// REDEFINE: %{shard} = tp2,dp3,pp2,mb3,sp,order=pp-dp-tp
// RUN: %{run}

// REDEFINE: %{model} = %S/../Transforms/Inputs/llama.mlir
// REDEFINE: %{shape} = batch=3,sequence=5
// REDEFINE: %{shard} = tp2
// RUN: %{run}
// REDEFINE: %{shard} = tp4,sp,dp2,pp2,mb2
// RUN: %{run}
// REDEFINE: %{shape} = batch=1,sequence=1
// RUN: %{run}
