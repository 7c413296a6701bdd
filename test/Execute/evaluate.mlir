// Errors that the evaluator detects.
// DEFINE: %{model} = %S/../Transforms/Inputs/gpt2.mlir
// DEFINE: %{evaluate} = --tpc-evaluate=shape=batch=2,sequence=3
// RUN: tpc-opt %{model} %{evaluate} --tpc-assign-shardings=shard=tp2,dp2,pp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.spmd.mlir
// RUN: tpc-opt %t.spmd.mlir --tpc-split-stages --tpc-schedule-pipeline -o %t.staged.mlir
// RUN: tpc-opt %t.staged.mlir %{evaluate} -o /dev/null | FileCheck %s --check-prefix=SAME

// Another activation, and another bias.
// RUN: sed 's/tpc.gelu tanh/tpc.gelu none/' %t.spmd.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=DIFFERS
// RUN: sed 's/tpc.parameter @h1_pb/tpc.parameter @h0_pb/' %t.staged.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=DIFFERS
// Messages without a sender or a receiver.
// RUN: sed '/tpc.send/d' %t.staged.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOT-SENT
// RUN: sed 's/\(.*tpc.send .*\)/\1\n\1/' %t.staged.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOT-RECEIVED
// An output that is not delivered.
// RUN: sed '/tpc.output/d' %t.staged.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING

// SAME: output 0 is the same
// DIFFERS: output 0 is not the same: of values up to
// NOT-SENT: waits for a message that no rank sent
// NOT-RECEIVED: a message from stage 0 to the rank at dp=0, pp=1, tp=0 is never received
// MISSING: output 0 is not the same: parts are missing
