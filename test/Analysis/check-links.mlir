// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp4,gpus-per-node=2 -o /dev/null 2>&1 | FileCheck %s --check-prefix=DIVIDES
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp2,dp2,gpus-per-node=2,order=dp-tp -o /dev/null 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp3,gpus-per-node=2,sp -o /dev/null 2>&1 | FileCheck %s --check-prefix=SP
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp2,dp2,gpus-per-node=2 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SILENT --allow-empty
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp4 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SILENT --allow-empty
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp4,gpus-per-node=8 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SILENT --allow-empty

// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --megatron-shard=tp2x2,gpus-per-node=2 -o /dev/null 2>&1 | FileCheck %s --check-prefix=TWO

// The number of ranks per node is part of the grid.
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp2,gpus-per-node=8 | FileCheck %s --check-prefix=GRID
// GRID: #tpc.mesh<tp = 2, cp = 1, ep = 1, dp = 1, pp = 1, mb = 1, gpus_per_node = 8>

// 5 all-reduces of 1*128*40*4 bytes = 20 KiB each: 2*(3/4)*100 KiB, 30 steps of 10 µs, and
// 150 KiB at 50 GB/s.
// DIVIDES: warning: groups of tp (4 ranks) reach over nodes of 2 GPUs (gpus-per-node=2): at batch=1, sequence=128 a rank sends 0.146 MiB in a step over the link between nodes, an estimated 0.303 ms instead of 0.150 ms within a node; a tp whose size divides 2 keeps it in a node

// ORDER: groups of tp (2 ranks) reach over nodes of 2 GPUs {{.*}}; an order that begins with tp keeps it in a node
// SP: groups of tp (3 ranks) reach over nodes

// tpx has the smaller stride and stays within nodes.
// TWO-NOT: groups of tpx
// TWO: warning: groups of tpy (2 ranks) reach over nodes of 2 GPUs {{.*}}; a tp whose size divides 2 keeps it in a node

// SILENT-NOT: warning
