// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=rounds | FileCheck %s

!p = tensor<?xf32, #tpc.dist<[s], local>>
!w = tensor<8xf32>
!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!one = tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 3>} {
tpc.weight @w in "/w.bin" at 64 : !w
func.func private @prologue(%c: !w) -> (!w, !w) {
  %0 = tpc.exp %c : !w -> !w
  %1 = tpc.cos %0 : !w -> !w
  return %0, %1 : !w, !w
}
func.func private @stage_0(%x: !x, %a: !w, %b: !w, %w: !w) -> !one {
  %0 = tpc.local_slice %x over ["mb"] dim 0 : !x -> !one
  %1 = tpc.mul %0, %a : !one, !w -> !one
  %2 = tpc.add %1, %b : !one, !w -> !one
  %3 = tpc.mul %2, %w : !one, !w -> !one
  return %3 : !one
}

// Values computed before the loop are in a frame of the stage until the last iteration has ended;
// each iteration pushes another frame.
// CHECK-LABEL: llvm.func internal @tpc_stage_0(
// CHECK: llvm.intr.memcpy
// CHECK: %[[FRAME:.*]] = llvm.call @tpc_frame_push(
// CHECK: %[[B:.*]] = llvm.getelementptr %[[FRAME]]
// CHECK: llvm.call @prologue(%{{.*}}, %{{.*}}, %{{.*}}, %[[FRAME]], %[[B]])
// CHECK: %[[NEG:.*]] = llvm.getelementptr %[[FRAME]]
// CHECK: llvm.call @tpc_launch(
// CHECK: llvm.br ^[[ROUND:bb[0-9]+]]
// The host counts micro-batches in its env, and sets the device's env for later kernels.
// CHECK: ^[[ROUND]](%[[MB:.*]]: i64):
// CHECK: llvm.store %[[MB]]
// CHECK: llvm.call @tpc_set_env(%arg0, %{{.*}}, %[[MB]])
// Sizes are recomputed in each iteration; iterations without samples are skipped.
// CHECK: %[[SOME:.*]] = llvm.icmp "ne"
// CHECK: llvm.cond_br %[[SOME]]
// CHECK: %[[INNER:.*]] = llvm.call @tpc_frame_push(
// CHECK: llvm.call @stage_0(%arg0, %{{.*}}, %{{.*}}, %[[FRAME]], %[[NEG]], %{{.*}}, %[[INNER]]) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, !llvm.ptr)
// CHECK: llvm.call @tpc_output(
// CHECK: llvm.call @tpc_frame_pop(%{{.*}}, %[[INNER]])
// CHECK: llvm.cond_br %{{.*}}, ^[[ROUND]](
// CHECK: llvm.call @tpc_frame_pop(%{{.*}}, %[[FRAME]])
tpc.pipeline @main(%x: !x, %c: !w) inputs [{tpc.name = "x"}, {tpc.name = "c"}] outputs [{name = "y", type = tensor<?x8xf32, #tpc.dist<[n, 8]>>}] {
  tpc.stage 0 {
    %h:2 = func.call @prologue(%c) : (!w) -> (!w, !w)
    %n = tpc.sin %h#1 : !w -> !w
    %w = tpc.parameter @w : !w
    tpc.micro_batches of <n{mb}> {
      %y = func.call @stage_0(%x, %h#0, %n, %w) : (!x, !w, !w, !w) -> !one
      tpc.output 0, %y : !one
    }
  }
}
}
