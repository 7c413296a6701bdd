// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp2,pp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline --tpc-print-report=shape=batch=2,sequence=8 -o /dev/null | FileCheck %s --check-prefix=TP
// RUN: tpc-opt %S/../Transforms/Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp4,sp,pp2,dp2,mb4 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline -o %t.mlir
// RUN: tpc-opt %t.mlir --tpc-print-report=shape=batch=5,sequence=7 -o /dev/null | FileCheck %s --check-prefix=SP
// RUN: tpc-opt %t.mlir --tpc-print-report=shape=batch=1,sequence=1 -o /dev/null | FileCheck %s --check-prefix=ONE
// RUN: tpc-opt %t.mlir --tpc-print-report=shape=batch=0,sequence=7 -o /dev/null | FileCheck %s --check-prefix=EMPTY
// RUN: tpc-opt %t.mlir --tpc-print-report="shape=batch=5,sequence=7 json" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: not tpc-opt %t.mlir --tpc-print-report=shape=batch=5 -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not tpc-opt %t.mlir --tpc-print-report=shape=batch=x -o /dev/null 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not tpc-opt %S/../Transforms/Inputs/gpt2.mlir --tpc-print-report -o /dev/null 2>&1 | FileCheck %s --check-prefix=EARLY

// 2L+1 = 5 all-reduces of 2*8*40*4 = 2560 bytes; the residual is sent once; all logits are gathered.
// TP: tp: 160 over tp 2: mlp.fc1 (columns), mlp.fc2 (rows)
// TP: stage 0, tp: 3 x all_reduce, 7.5 KiB
// TP-NEXT: stage 0, pp: 1 x send, 2.5 KiB
// TP-NEXT: stage 1, tp: 2 x all_reduce, 5.0 KiB
// TP-NEXT: stage 1, output: 1 x gather, 63.1 KiB
// TP-NOT: stage

// Replica 0 has 3 samples of 7 tokens: three micro-batches of 1, the fourth is empty. A
// reduce-scatter of 7*40*4 = 1120 bytes each; rank 0 sends 2 of 7 tokens, 320 bytes, each time.
// SP: 3 micro-batches
// SP: stage 0, tp: 9 x reduce_scatter, 9.8 KiB
// SP-NEXT: stage 0, tp: 6 x all_gather, 6.6 KiB
// SP-NEXT: stage 0, pp: 3 x send, 960 B
// SP-NEXT: stage 1, tp: 9 x all_gather, 9.8 KiB
// SP-NEXT: stage 1, tp: 6 x reduce_scatter, 6.6 KiB
// SP-NEXT: stage 1, output: 1 x gather, 137.9 KiB

// ONE: 1 micro-batch,
// ONE: stage 0, pp: 1 x send, 160 B

// EMPTY: 0 micro-batches
// EMPTY: Communication of one rank in one step:
// EMPTY-NEXT: none

// JSON: "collectives": [
// JSON: "axis": "tp",
// JSON-NEXT: "bytes": 10080,
// JSON-NEXT: "count": 9,
// JSON-NEXT: "kind": "reduce_scatter",
// JSON-NEXT: "stage": 0
// JSON: "shape": {
// JSON-NEXT: "batch": 5,
// JSON-NEXT: "sequence": 7

// MISSING: no size is given for: sequence
// BAD: shape: 'batch=x' is not name=size
// EARLY: a report needs a staged program
