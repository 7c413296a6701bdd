// RUN: tpc-opt %S/../Inputs/gpt2.mlir --tpc-assign-shardings=shard=tp2,pp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --tpc-split-stages | FileCheck %s --check-prefix=GPT2
// RUN: tpc-opt %s --tpc-split-stages=cuts=1 --split-input-file --verify-diagnostics | FileCheck %s

// The tied embedding is in both stages, and only the residual is sent.
// GPT2-LABEL: func.func private @stage_0
// GPT2-SAME: -> tensor<?x40xf32, #tpc.dist<[batch*sequence, 40], local>> attributes {{.*}}tpc.seconds
// GPT2: tpc.parameter @wte : tensor<?x40xf32, #tpc.dist<[1009{tp}, 40], local>>
// GPT2: call @layer
// GPT2-LABEL: func.func private @stage_1(%arg0: tensor<?x40xf32, #tpc.dist<[batch*sequence, 40], local>>)
// GPT2: call @layer
// GPT2: tpc.parameter @wte view
// GPT2-LABEL: func.func @main
// GPT2-NEXT: %[[X:.*]] = call @stage_0(%arg0)
// GPT2-NEXT: %[[Y:.*]] = call @stage_1(%[[X]])
// GPT2-NEXT: return %[[Y]]

// Values that depend only on inputs are computed in each stage that needs them. The stage that
// computes an output writes it. The cut is at the second of three positions.
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<8x8xf32>
  // CHECK-LABEL: func.func private @stage_0(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  // CHECK: %[[P:.*]] = tpc.matmul
  // CHECK: %[[M:.*]] = tpc.exp %arg0
  // CHECK: %[[R:.*]] = tpc.mul %[[P]], %[[M]]
  // CHECK: return %[[R]], %[[P]]
  // CHECK-LABEL: func.func private @stage_1(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[S:.*]] = tpc.matmul %arg0
  // CHECK: %[[M:.*]] = tpc.exp %arg1
  // CHECK: tpc.mul %[[S]], %[[M]]
  // CHECK-LABEL: func.func @main
  // CHECK-NEXT: %[[S:.*]]:2 = call @stage_0(%arg0)
  // CHECK-NEXT: %[[T:.*]] = call @stage_1(%[[S]]#0, %arg0)
  // CHECK-NEXT: return %[[S]]#1, %[[T]]
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %mask = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
    %a = tpc.parameter @a : tensor<8x8xf32>
    %p = tpc.matmul %x, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %r = tpc.mul %p, %mask : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    %s = tpc.matmul %r, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %t = tpc.mul %s, %mask : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    return %p, %t : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 3, mb = 1>} {
  // expected-error @below {{cuts: pp3 takes 2 cuts, not 1}}
  func.func @main(%x: tensor<4x8xf32>, %a: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %p = tpc.matmul %x, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %q = tpc.matmul %p, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %r = tpc.matmul %q, %a : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %r : tensor<4x8xf32>
  }
}
