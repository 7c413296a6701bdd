// The memory of a sum over micro-batches has the sum from iteration to iteration.
// RUN: tpc-opt %s --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers -o %t
// RUN: tpc-opt %t --tpc-verify-buffers | FileCheck %s
// CHECK: tpc_buffer.micro_batches ranks.mb
// CHECK: tpc_buffer.accumulate %{{.*}} to %[[SUM:.*]] count
// CHECK: tpc_buffer.micro_batches 1
// CHECK: tpc_buffer.call @update_on_buffers(%[[SUM]],

// An op overwrites the sum between two iterations.
// RUN: sed 's/tpc_buffer.accumulate \(%[0-9a-z_]*\) to \(%[0-9a-z_]*\) count .*/& tpc_buffer.copy \1 to \2 bytes "4*_4*_4"/' %t > %t.overwritten
// RUN: not tpc-opt %t.overwritten --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=OVERWRITTEN
// OVERWRITTEN: 'tpc_buffer.accumulate' op needs {{.*}} which is not in the memory that it reads

// A value is not added.
// RUN: sed '/tpc_buffer.accumulate/d' %t > %t.lost
// RUN: not tpc-opt %t.lost --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=LOST
// LOST: 'tpc.accumulate' op has no call on buffers: tpc_buffer.accumulate is missing

// A value is added to itself.
// RUN: sed 's/tpc_buffer.accumulate \(%[0-9a-z_]*\) to %[0-9a-z_]*/tpc_buffer.accumulate \1 to \1/' %t > %t.itself
// RUN: not tpc-opt %t.itself --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=ITSELF
// ITSELF: 'tpc_buffer.accumulate' op writes {{.*}} to memory that it may still read

!part = tensor<4x?xf32, #tpc.dist<[4, b{dp, mb}], local>>
!partt = tensor<?x4xf32, #tpc.dist<[b{dp, mb}, 4], local>>
!gradient = tensor<4x4xf32, #tpc.dist<[4, 4], sum{dp, mb}, local>>
!dp = tensor<4x4xf32, #tpc.dist<[4, 4], sum{dp}, local>>
!whole = tensor<4x?xf32, #tpc.dist<[4, b]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, cp = 1, ep = 1, dp = 2, pp = 1, mb = 4, gpus_per_node = 8>, tpc.batch = #tpc.dim<b{dp, mb}>} {
  func.func private @stage_0(%x: !whole) -> !gradient {
    %part = tpc.local_slice %x over ["dp", "mb"] dim 1 : !whole -> !part
    %t = tpc.transpose %part [1, 0] : !part -> !partt
    %g = tpc.matmul %part, %t : !part, !partt -> !gradient
    return %g : !gradient
  }
  func.func private @update(%s: !dp, %rate: tensor<f32>) -> tensor<4x4xf32> {
    %r = tpc.all_reduce %s over ["dp"] : !dp -> tensor<4x4xf32> loc("sum")
    %w = tpc.mul %r, %rate : tensor<4x4xf32>, tensor<f32> -> tensor<4x4xf32>
    return %w : tensor<4x4xf32>
  }
  tpc.pipeline @main(%x: !whole, %rate: tensor<f32>) inputs [{tpc.name = "x"}, {tpc.name = "rate"}] outputs [{name = "w", type = tensor<4x4xf32>}] {
    tpc.stage 0 {
      tpc.micro_batches of <4{mb}> {
        %g = func.call @stage_0(%x) : (!whole) -> !gradient
        tpc.accumulate 0, %g : !gradient
      }
      tpc.micro_batches {
        %s = tpc.accumulated 0 : !dp
        %w = func.call @update(%s, %rate) : (!dp, tensor<f32>) -> tensor<4x4xf32>
        tpc.output 0, %w : tensor<4x4xf32>
      }
    }
  }
}
