// RUN: tpc-opt %s --tpc-outline-kernels --tpc-plan-buffers | FileCheck %s

// Stages: received, sent and delivered values, with their iterations, ranks and memory.
!x = tensor<?x6xf32, #tpc.dist<[n, 6], local>>
!one = tensor<?x6xf32, #tpc.dist<[n{dp, mb}, 6], local>>
!k = tensor<?x4x4xf32, #tpc.dist<[n{dp, mb}, 4, 4], local>>
!h = tensor<?x2x4xf32, #tpc.dist<[n{dp, mb}, 4{tp}, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 2, mb = 4>} {

// The loop runs over micro-batches of this rank's batch. If axis mb does not split the batch, the
// loop splits it.
// CHECK-LABEL: tpc_buffer.func @main_stage_0_on_buffers of @main stage 0 {
// CHECK-NEXT: %[[X:.*]] = tpc_buffer.input 0 : "_6*n" x f32
// Values computed before the loop are in the stage's frame.
// CHECK-NEXT: %[[OUTER:.*]] = tpc_buffer.push "64*floordiv(4*_6*n + 63, 64)"
// CHECK-NEXT: %[[E:.*]] = tpc_buffer.slot %[[OUTER]] at 0 : "_6*n" x f32
// CHECK-NEXT: tpc_buffer.launch @kernel_exp(%[[X]]) to (%[[E]])
// CHECK-NEXT: tpc_buffer.micro_batches ranks.mb of "floordiv(floordiv(n - rank.dp + ranks.dp - 1, ranks.dp) - rank.mb + ranks.mb - 1, ranks.mb)" {
// They stay there for all iterations. A slice of such a value is an address, without copy or frame.
// CHECK-NEXT: %[[P:.*]] = tpc_buffer.part %[[E]] from
// CHECK-NEXT: tpc_buffer.send %[[P]] count "_6*floordiv(floordiv(n - rank.dp + ranks.dp - 1, ranks.dp) - rank.mb + ranks.mb - 1, ranks.mb)" to 1
// CHECK-NEXT: }
// CHECK-NEXT: tpc_buffer.pop %[[OUTER]]

// CHECK-LABEL: tpc_buffer.func @main_stage_1_on_buffers of @main stage 1 {
// A batch that is split over the axis already belongs to one iteration.
// CHECK: tpc_buffer.micro_batches ranks.mb of "floordiv(floordiv(n - rank.dp + ranks.dp - 1, ranks.dp) - rank.mb + ranks.mb - 1, ranks.mb)" {
// CHECK: %[[R:.*]] = tpc_buffer.slot %{{.*}} at 0
// CHECK-NEXT: tpc_buffer.recv %[[R]] count "_6*floordiv({{.*}})" from 0
// Several ranks may have the same shard: only the first along axes that do not split the value
// writes it to the output. The offset of a shard is computed from its axes, one after the other.
// CHECK-NEXT: tpc_buffer.output 0, %[[R]] shape [n, _6] offset ["floordiv(floordiv(n - rank.dp + ranks.dp - 1, ranks.dp), ranks.mb)*rank.mb + " "floordiv(n, ranks.dp)*rank.dp + {{.*}}", 0] size ["floordiv(floordiv({{.*}}", _6] first ["tp"]
// A slice of a slice: two addresses.
// CHECK-NEXT: %[[DP:.*]] = tpc_buffer.part %[[X:.*]] from "_6*floordiv(n, ranks.dp)*rank.dp + _6*min(mod(n, ranks.dp), rank.dp)" : "_6*floordiv(n - rank.dp + ranks.dp - 1, ranks.dp)" x f32
// CHECK-NEXT: %[[MB:.*]] = tpc_buffer.part %[[DP]] from "_6*floordiv(floordiv(n - rank.dp + ranks.dp - 1, ranks.dp), ranks.mb)*rank.mb + {{.*}}"
// CHECK-NEXT: tpc_buffer.output 1, %[[MB]] shape
// A value that is the same in all iterations is written to the output in the first.
// CHECK: tpc_buffer.output 2, %{{.*}} shape [n, _6] offset [0, 0] size [n, _6] first ["mb", "tp", "dp"]
// The first copy of each replicated head is written to the output. Here the rank has all heads.
// CHECK: tpc_buffer.output 3, %[[K:.*]] shape [n, "floordiv(_4, 2)", _4] offset [{{.*}}, 0, 0] size [{{.*}}, "floordiv(_4 + 1, 2)", _4] first ["tp"] every 1 held _4 begin 0 step 2
// Here a rank has some heads. They are written from the first whose index is a multiple of the
// number of copies.
// CHECK: tpc_buffer.output 4, %{{.*}} shape [n, "floordiv(_4, 2)", _4] offset [{{.*}}, "floordiv(_4.tp*rank.tp + 1, 2)", 0] size [{{.*}}, "-floordiv(_4.tp*rank.tp + 1, 2) + floordiv(_4.tp*rank.tp + _4.tp + 1, 2)", _4] first [] every 1 held _4.tp begin "-_4.tp*rank.tp + 2*floordiv(_4.tp*rank.tp + 1, 2)" step 2
tpc.pipeline @main(%x: !x, %k: tensor<?x4x4xf32, #tpc.dist<[n, 4, 4], local>>) inputs [{}, {}] outputs [
    {name = "a", type = tensor<?x6xf32, #tpc.dist<[n, 6]>>}, {name = "b", type = tensor<?x6xf32, #tpc.dist<[n, 6]>>},
    {name = "c", type = tensor<?x6xf32, #tpc.dist<[n, 6]>>}, {name = "d", type = tensor<?x2x4xf32, #tpc.dist<[n, 2, 4]>>, tpc.copies = array<i64: 1, 2>},
    {name = "e", type = tensor<?x2x4xf32, #tpc.dist<[n, 2, 4]>>, tpc.copies = array<i64: 1, 2>}] {
  tpc.stage 0 {
    %e = tpc.exp %x : !x -> !x
    tpc.micro_batches of <n{dp}> {
      %0 = tpc.local_slice %e over ["dp", "mb"] dim 0 : !x -> !one
      tpc.send %0 to 1 : !one
    }
  }
  tpc.stage 1 {
    tpc.micro_batches of <n{dp, mb}> {
      %1 = tpc.recv from 0 : !one
      tpc.output 0, %1 : !one
      %2 = tpc.local_slice %x over ["dp"] dim 0 : !x -> tensor<?x6xf32, #tpc.dist<[n{dp}, 6], local>>
      %3 = tpc.local_slice %2 over ["mb"] dim 0 : tensor<?x6xf32, #tpc.dist<[n{dp}, 6], local>> -> !one
      tpc.output 1, %3 : !one
      tpc.output 2, %x : !x
      %4 = tpc.local_slice %k over ["dp", "mb"] dim 0 : tensor<?x4x4xf32, #tpc.dist<[n, 4, 4], local>> -> !k
      tpc.output 3, %4 : !k
      %5 = tpc.local_slice %4 over ["tp"] dim 1 : !k -> !h
      tpc.output 4, %5 : !h
    }
  }
}
}
