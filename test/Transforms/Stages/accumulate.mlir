// Sums over micro-batches: each micro-batch adds to them in the loop, and the update runs once.
// RUN: tpc-opt %s --tpc-split-stages --tpc-schedule-pipeline --split-input-file --verify-diagnostics | FileCheck %s
// RUN: tpc-opt %s --tpc-split-stages --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=SPLIT

!part = tensor<4x?xf32, #tpc.dist<[4, b{dp, mb}], local>>
!gradient = tensor<4x4xf32, #tpc.dist<[4, 4], sum{dp, mb}, local>>
!whole = tensor<4x?xf32, #tpc.dist<[4, b]>>

// SPLIT-LABEL: func.func @main(
// SPLIT: %[[G:.*]] = call @stage_0(%arg0)
// SPLIT: %[[S:.*]] = tpc.all_reduce %[[G]] over ["mb"] : {{.*}} sum{dp, mb}, local>> -> {{.*}} sum{dp}, local>>
// SPLIT: call @update(%[[S]], %arg1)
// SPLIT: func.func private @update(
// SPLIT: tpc.all_reduce %{{.*}} over ["dp"]
// SPLIT: tpc.mul

// CHECK-LABEL: tpc.pipeline @main
// CHECK: tpc.micro_batches of <4{mb}>
// CHECK-NEXT: %[[G:.*]] = func.call @stage_0(%arg0)
// CHECK-NEXT: tpc.accumulate 0, %[[G]] : {{.*}} sum{dp, mb}, local>>
// CHECK-NEXT: }
// CHECK-NEXT: tpc.micro_batches {
// CHECK-NEXT: %[[S:.*]] = tpc.accumulated 0 : {{.*}} sum{dp}, local>>
// CHECK-NEXT: %[[W:.*]] = func.call @update(%[[S]], %arg1)
// CHECK-NEXT: tpc.output 0, %[[W]]
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 4>, tpc.batch = #tpc.dim<b{dp, mb}>} {
  func.func @main(%x: !whole, %rate: tensor<f32>) -> tensor<4x4xf32> {
    %part = tpc.local_slice %x over ["dp", "mb"] dim 1 : !whole -> !part
    %t = tpc.transpose %part [1, 0] : !part -> tensor<?x4xf32, #tpc.dist<[b{dp, mb}, 4], local>>
    %g = tpc.matmul %part, %t : !part, tensor<?x4xf32, #tpc.dist<[b{dp, mb}, 4], local>> -> !gradient
    %s = tpc.all_reduce %g over ["dp", "mb"] : !gradient -> tensor<4x4xf32> loc("sum")
    %w = tpc.mul %s, %rate : tensor<4x4xf32>, tensor<f32> -> tensor<4x4xf32>
    return %w : tensor<4x4xf32>
  }
}

// -----

// A value of a micro-batch cannot depend on the sum of all.
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 4>, tpc.batch = #tpc.dim<8{mb}>} {
  func.func @main(%x: tensor<8xf32>) -> tensor<2xf32, #tpc.dist<[8{mb}], local>> {
    %part = tpc.local_slice %x over ["mb"] dim 0 : tensor<8xf32> -> tensor<2xf32, #tpc.dist<[8{mb}], local>>
    %g = tpc.reduce sum %part [0] : tensor<2xf32, #tpc.dist<[8{mb}], local>> -> tensor<f32, #tpc.dist<[], sum{mb}, local>>
    // expected-note @unknown {{summed here}}
    %s = tpc.all_reduce %g over ["mb"] : tensor<f32, #tpc.dist<[], sum{mb}, local>> -> tensor<f32> loc("sum")
    // expected-error @unknown {{'center' (tpc.sub) combines the sum of all micro-batches with a value of one; remove mb from --megatron-shard}}
    %y = tpc.sub %part, %s : tensor<2xf32, #tpc.dist<[8{mb}], local>>, tensor<f32> -> tensor<2xf32, #tpc.dist<[8{mb}], local>> loc("center")
    return %y : tensor<2xf32, #tpc.dist<[8{mb}], local>>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 4>, tpc.batch = #tpc.dim<8{mb}>} {
  func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
    %part = tpc.local_slice %x over ["mb"] dim 0 : tensor<8xf32> -> tensor<2xf32, #tpc.dist<[8{mb}], local>>
    %g = tpc.reduce sum %part [0] : tensor<2xf32, #tpc.dist<[8{mb}], local>> -> tensor<f32, #tpc.dist<[], sum{mb}, local>>
    // expected-error @unknown {{'sum' (tpc.all_reduce) combines micro-batches, which pipeline stages do not support; remove mb or pp from --megatron-shard}}
    %s = tpc.all_reduce %g over ["mb"] : tensor<f32, #tpc.dist<[], sum{mb}, local>> -> tensor<f32> loc("sum")
    return %s : tensor<f32>
  }
}
