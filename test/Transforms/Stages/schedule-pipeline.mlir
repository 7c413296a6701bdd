// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=dp2,pp2,mb4 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages --tpc-schedule-pipeline | FileCheck %s --check-prefix=GPT2
// RUN: tpc-opt %s --tpc-schedule-pipeline --split-input-file --verify-diagnostics | FileCheck %s

// GPT2-LABEL: tpc.pipeline @main(%arg0: tensor<?x?xi64
// GPT2-SAME: inputs [{tpc.name = "input_ids"}] outputs [{name = "logits", type = tensor<?x?x1009xf32, #tpc.dist<[batch, sequence, 1009]>>}]
// GPT2: tpc.stage 0 attributes {tpc.layer_seconds = {{.*}}, tpc.recomputed_seconds = {{.*}}, tpc.seconds = {{.*}}, tpc.transfer_seconds = {{.*}}, tpc.weight_bytes = {{[0-9]+}} : i64}
// GPT2-NEXT: tpc.micro_batches of <batch{dp, mb}>
// GPT2-NEXT: %[[X:.*]] = func.call @stage_0(%arg0)
// GPT2-NEXT: tpc.send %[[X]] to 1
// GPT2: tpc.stage 1
// GPT2-NEXT: tpc.micro_batches of <batch{dp, mb}>
// GPT2-NEXT: %[[R:.*]] = tpc.recv from 0
// GPT2-NEXT: %[[Y:.*]] = func.call @stage_1(%[[R]])
// GPT2-NEXT: tpc.output 0, %[[Y]]

// A program of one stage has the same form. Missing names are generated.
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  func.func private @stage_0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = tpc.exp %x : tensor<4xf32> -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  // CHECK: tpc.pipeline @main(%arg0: tensor<4xf32>) inputs [{tpc.name = "input_0"}] outputs [{name = "output_0", type = tensor<4xf32>}]
  // CHECK-NEXT: tpc.stage 0
  // CHECK-NEXT: tpc.micro_batches {
  // CHECK-NEXT: %[[Y:.*]] = func.call @stage_0(%arg0)
  // CHECK-NEXT: tpc.output 0, %[[Y]]
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = call @stage_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// Replicas communicate in each micro-batch, for example to gather sharded weights. So no iteration
// is skipped, even if some replicas have no samples in it.
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 3>, tpc.batch = #tpc.dim<b{dp, mb}>} {
  func.func private @stage_0(%x: tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>) -> tensor<4xf32> {
    %y = tpc.all_reduce %x over ["dp"] : tensor<4xf32, #tpc.dist<[4], sum{dp}, local>> -> tensor<4xf32> loc("mean")
    return %y : tensor<4xf32>
  }
  // CHECK: tpc.micro_batches of <3{mb}>
  func.func @main(%x: tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>) -> tensor<4xf32> {
    %y = call @stage_0(%x) : (tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// The same holds for communication over another axis.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>, tpc.batch = #tpc.dim<b{tp, mb}>} {
  func.func private @stage_0(%x: tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>) -> tensor<4xf32> {
    %y = tpc.all_reduce %x over ["tp"] : tensor<4xf32, #tpc.dist<[4], sum{tp}, local>> -> tensor<4xf32> loc("sum")
    return %y : tensor<4xf32>
  }
  // CHECK: tpc.micro_batches of <2{mb}>
  func.func @main(%x: tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>) -> tensor<4xf32> {
    %y = call @stage_0(%x) : (tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// Replicas without samples take part in collectives.
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 1>, tpc.batch = #tpc.dim<b{dp}>} {
  func.func private @stage_0(%x: tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>) -> tensor<4xf32> {
    %y = tpc.all_reduce %x over ["dp"] : tensor<4xf32, #tpc.dist<[4], sum{dp}, local>> -> tensor<4xf32> 
    return %y : tensor<4xf32>
  }
  // CHECK: tpc.micro_batches {
  func.func @main(%x: tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>) -> tensor<4xf32> {
    %y = call @stage_0(%x) : (tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// expected-error @below {{needs a function @main that calls one stage for each coordinate of pp}}
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
}

// -----

// An output without a batch dimension is written in the first micro-batch, which runs even if it is
// empty.
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 3>, tpc.batch = #tpc.dim<b{dp, mb}>} {
  func.func private @stage_0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = tpc.exp %x : tensor<4xf32> -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
  // CHECK: tpc.micro_batches of <3{mb}>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = call @stage_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
