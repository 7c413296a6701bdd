// Cyclic shifts of split tokens: uneven sizes, sequences shorter than a shift or than the number of
// ranks, shifts of either sign. The values are the same from the model to the pipeline, without
// gathers.
// DEFINE: %{shape} = batch=3,sequence=5
// DEFINE: %{shard} = tp2,sp
// DEFINE: %{from} = 1
// DEFINE: %{run} = sed 's/from 1/from "%{from}"/' %S/../Transforms/Inputs/shift.mlir | tpc-opt --tpc-evaluate=shape=%{shape} --tpc-assign-shardings=shard=%{shard} --tpc-insert-reshards --tpc-lower-reshards --tpc-evaluate=shape=%{shape} --tpc-localize --tpc-evaluate=shape=%{shape} --tpc-optimize-collectives --tpc-coalesce-collectives --tpc-split-stages --tpc-schedule-pipeline --tpc-evaluate=shape=%{shape} --tpc-print-report=shape=%{shape} -o %t.mlir

// RUN: %{run} | FileCheck %s --check-prefix=SAME
// RUN: FileCheck %s --input-file=%t.mlir
// SAME-COUNT-3: is the same
// Rank 0 has 8 of 15 tokens, so both ranks have tokens of the second of three sequences. Each sends
// one of these tokens to the other rank.
// SAME: tp: 1 x collective_permute, 40 B
// CHECK: tpc.collective_permute %{{.*}} over ["tp"] dim 0 from 1 every sequence : tensor<?x10xf32, #tpc.dist<[(batch*sequence){tp}, 10], local>>

// REDEFINE: %{shard} = tp4,sp
// REDEFINE: %{from} = sequence + 8
// RUN: %{run} | FileCheck %s --check-prefix=OTHER
// OTHER-COUNT-3: is the same
// OTHER: collective_permute
// REDEFINE: %{from} = -3
// RUN: %{run} | FileCheck %s --check-prefix=OTHER
// REDEFINE: %{shape} = batch=1,sequence=2
// RUN: %{run} | FileCheck %s --check-prefix=OTHER
// REDEFINE: %{shard} = tp2,sp,dp3
// REDEFINE: %{shape} = batch=2,sequence=7
// RUN: %{run} | FileCheck %s --check-prefix=OTHER
// REDEFINE: %{shard} = tp3,sp,dp2,mb2
// REDEFINE: %{shape} = batch=5,sequence=4
// RUN: %{run} | FileCheck %s --check-prefix=OTHER

// If only the batch is split, each rank shifts its own sequences.
// REDEFINE: %{shard} = tp2,dp2
// RUN: %{run} | FileCheck %s --check-prefix=ALONE
// RUN: FileCheck %s --check-prefix=ROLL --input-file=%t.mlir
// ALONE-COUNT-3: is the same
// ALONE-NOT: collective_permute
// ROLL: tpc.roll %{{.*}} dim 0 from {{.*}} every sequence : {{.*}}[batch{dp}*sequence, 10], local>>

// Both equivalence checks accept the program, and so does the proof that ranks cannot deadlock.
// RUN: tpc-opt %S/../Transforms/Inputs/shift.mlir --tpc-assign-shardings=shard=tp4,sp,dp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline -o %t.staged.mlir
// RUN: tpc-opt %t.staged.mlir --tpc-verify-comms=certificate=%t.json --tpc-verify-equivalence=reference=%S/../Transforms/Inputs/shift.mlir -o /dev/null
// RUN: tpc-check-certificate %t.json | FileCheck %s --check-prefix=PROOF
// PROOF: no deadlock
// RUN: FileCheck %s --check-prefix=JSON --input-file=%t.json
// JSON: "every": "sequence"
// JSON-NEXT: "from": "1"
// JSON-NEXT: "op": "collective_permute"

// A shift by another amount is detected by each equivalence check, and by no other verifier.
// DEFINE: %{wrong} = not tpc-opt %t.staged.mlir --tpc-mutate=kind=wrong-shift
// RUN: tpc-opt %t.staged.mlir --tpc-mutate=kind=wrong-shift --tpc-verify-comms -o /dev/null
// RUN: %{wrong} --tpc-verify-equivalence="reference=%S/../Transforms/Inputs/shift.mlir interpret=false" 2>&1 | FileCheck %s --check-prefix=TERMS
// TERMS: this is tpc.roll, whose 'from' is #tpc.expr<2>, the model's is #tpc.expr<1>
// RUN: %{wrong} --tpc-verify-equivalence="reference=%S/../Transforms/Inputs/shift.mlir symbolic=false" 2>&1 | FileCheck %s --check-prefix=FIELD
// FIELD: is not what the model computes
