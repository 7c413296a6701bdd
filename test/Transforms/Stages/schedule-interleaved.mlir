// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=pp2,vpp2,mb2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline | FileCheck %s
// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=pp2,vpp2,mb2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline | tpc-opt --tpc-verify-comms --tpc-verify-equivalence=reference=%S/../Inputs/gpt2.mlir -o /dev/null
// RUN: not tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=pp2,vpp2,mb2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline=policy=gpipe 2>&1 | FileCheck %s --check-prefix=GPIPE
// RUN: not tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=pp2,mb2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline=policy=1f1b 2>&1 | FileCheck %s --check-prefix=TRAINING

// The message from the last rank to the first is received in the slot in which the first rank
// begins its second chunk.

// CHECK: tpc.pipeline @main(
// CHECK-SAME: schedule <"interleaved", {{\[\[}}F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]>
// CHECK: tpc.stage 0
// CHECK: tpc.micro_batches of <batch{mb}>
// CHECK-NEXT: %[[A:.*]] = func.call @chunk_0(
// CHECK-NEXT: tpc.send %[[A]] to 1
// CHECK: tpc.micro_batches of <batch{mb}>
// CHECK-NEXT: %[[B:.*]] = tpc.recv from 1
// CHECK-NEXT: %[[C:.*]] = func.call @chunk_2(%[[B]]
// CHECK-NEXT: tpc.send %[[C]] to 1
// CHECK: tpc.stage 1
// CHECK: tpc.recv from 0
// CHECK-NEXT: func.call @chunk_1(
// CHECK-NEXT: tpc.send {{.*}} to 0
// CHECK: tpc.recv from 0
// CHECK-NEXT: func.call @chunk_3(
// CHECK-NEXT: tpc.output 0

// GPIPE: the schedule 'gpipe' has one chunk on each rank of pp, but vpp2 asks for several
// TRAINING: the schedule '1f1b' has backward events, but the program has no backward pass
