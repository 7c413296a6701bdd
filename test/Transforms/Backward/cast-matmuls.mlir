// Matmuls in 16-bit types.
// RUN: tpc-opt %s --pass-pipeline="builtin.module(func.func(tpc-cast-matmuls{type=bf16}))" | FileCheck %s
// RUN: tpc-opt %s --pass-pipeline="builtin.module(func.func(tpc-cast-matmuls{type=f16}))" | FileCheck %s --check-prefix=F16
// RUN: not tpc-opt %s --pass-pipeline="builtin.module(func.func(tpc-cast-matmuls{type=f64}))" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: tpc-opt %s --pass-pipeline="builtin.module(func.func(tpc-cast-matmuls),tpc-derive-backward)" | FileCheck %s --check-prefix=BACK

// RUN: tpc-opt %s --pass-pipeline="builtin.module(func.func(tpc-cast-matmuls{type=f16}),tpc-derive-backward{scale-loss=true})" | FileCheck %s --check-prefix=SCALE

// The scale multiplies the cotangent of the loss, and divides each gradient.
// SCALE-LABEL: func @main
// SCALE-SAME: %[[SCALE:[^:]*]]: tensor<f32> {tpc.name = "loss_scale"}) -> (
// SCALE: tpc.mul %{{.*}}, %[[SCALE]] :
// SCALE-COUNT-2: tpc.div %{{.*}}, %[[SCALE]] :
// SCALE-NOT: %[[SCALE]]

// TYPE: error: type=f64: expected bf16 or f16

// Matmuls of gradients are 16-bit too, and gradients are f32.
// BACK-LABEL: func @main
// BACK-SAME: tensor<4x9xf32> {tpc.name = "grad.w"}, tensor<9xf32> {tpc.name = "grad.b"}
// BACK-COUNT-2: tpc.matmul {{.*}}xbf16>
// BACK-NOT: tpc.matmul

// CHECK-LABEL: func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
// CHECK-DAG: %[[W:.*]] = tpc.parameter @w : tensor<4x9xf32>
// CHECK-DAG: %[[LHS:.*]] = tpc.cast %[[X]] : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK-DAG: %[[RHS:.*]] = tpc.cast %[[W]] : tensor<4x9xf32> -> tensor<4x9xbf16>
// CHECK: %[[Y:.*]] = tpc.matmul %[[LHS]], %[[RHS]] : tensor<2x4xbf16>
// CHECK: %[[WIDE:.*]] = tpc.cast %[[Y]] : tensor<2x9xbf16> -> tensor<2x9xf32>
// CHECK: %[[SUM:.*]] = tpc.add %[[WIDE]], %{{.*}} : tensor<2x9xf32>, tensor<9xf32>
// CHECK: return %[[SUM]]
// F16: tpc.matmul {{.*}} -> tensor<2x9xf16>
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x9xf32>
  tpc.weight @b in "w.bin" at 144 : tensor<9xf32>
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x9xf32> {
    %w = tpc.parameter @w : tensor<4x9xf32>
    %b = tpc.parameter @b : tensor<9xf32>
    %y = tpc.matmul %x, %w bias %b : tensor<2x4xf32>, tensor<4x9xf32> bias tensor<9xf32> -> tensor<2x9xf32>
    return %y : tensor<2x9xf32>
  }
}
