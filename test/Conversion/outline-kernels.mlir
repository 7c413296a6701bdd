// RUN: tpc-opt %s --tpc-outline-kernels | FileCheck %s

// The sum, the norm and the ops after them are one kernel. The sum is a result, because it has
// users outside of the kernel.
// CHECK-LABEL: @norm
// CHECK: call @kernel_add_layer_norm_neg(%{{.*}}) : ({{.*}}) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NEXT: return
func.func private @norm(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %s: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tpc.add %x, %y : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.layer_norm %0, %s epsilon 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %2 = tpc.neg %1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// An equal group of ops uses the same kernel.
// CHECK-LABEL: @again
// CHECK: call @kernel_add_layer_norm_neg(
func.func private @again(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %s: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tpc.add %x, %y : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.layer_norm %0, %s epsilon 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %2 = tpc.neg %1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// A row of the transposed value needs several rows of the norm, so there are two kernels.
// CHECK-LABEL: @transposed
// CHECK: call @kernel_layer_norm
// CHECK: call @kernel_transpose
func.func private @transposed(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<8x4xf32> {
  %0 = tpc.layer_norm %x, %s epsilon 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %1 = tpc.transpose %0 [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// The two ops cannot be one kernel, because a matmul depends on the first one and the second one on
// the matmul.
// CHECK-LABEL: @between
// CHECK: call @kernel_neg
// CHECK: tpc.matmul
// CHECK: call @kernel_add
func.func private @between(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tpc.neg %x : tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tpc.matmul %0, %0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = tpc.add %0, %1 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// Values without operands are computed in the kernels that use them.
// CHECK-LABEL: @mask
// CHECK-NEXT: call @kernel_select(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
func.func private @mask(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %i = tpc.iota dim 0 : tensor<8x8xi64>
  %j = tpc.iota dim 1 : tensor<8x8xi64>
  %c = tpc.cmp le %j, %i : tensor<8x8xi64>, tensor<8x8xi64> -> tensor<8x8xi1>
  %z = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %0 = tpc.select %c, %x, %z : tensor<8x8xi1>, tensor<8x8xf32>, tensor<f32> -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// Two such values are results, and one uses the other. Each is one kernel, and no other ops remain.
// CHECK-LABEL: @progression
// CHECK-NEXT: call @kernel_{{.*}}add{{.*}}() : () -> tensor<3xf64>
// CHECK-NEXT: call @kernel_{{.*}}select{{.*}}() : () -> tensor<3xf64>
// CHECK-NEXT: return
func.func private @progression() -> (tensor<3xf64>, tensor<3xf64>) {
  %i = tpc.iota dim 0 : tensor<3xf64>
  %c = tpc.constant dense<3.0> : tensor<f64> : tensor<f64>
  %0 = tpc.mul %i, %c : tensor<3xf64>, tensor<f64> -> tensor<3xf64>
  %1 = tpc.add %0, %c : tensor<3xf64>, tensor<f64> -> tensor<3xf64>
  %z = tpc.constant dense<0.0> : tensor<f64> : tensor<f64>
  %2 = tpc.cmp ge %1, %z : tensor<3xf64>, tensor<f64> -> tensor<3xi1>
  %s = tpc.constant dense<1.0e-2> : tensor<f64> : tensor<f64>
  %3 = tpc.mul %1, %s : tensor<3xf64>, tensor<f64> -> tensor<3xf64>
  %4 = tpc.select %2, %1, %3 : tensor<3xi1>, tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  return %1, %4 : tensor<3xf64>, tensor<3xf64>
}

// Reshapes need no kernel.
// CHECK-LABEL: @reshape
// CHECK-NEXT: tpc.reshape
// CHECK-NEXT: return
func.func private @reshape(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = tpc.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// Communication is not removed even if its result is unused, because other ranks participate. Its
// operand is computed.
// CHECK-LABEL: func.func private @unused
// CHECK: call @kernel_neg
// CHECK-NEXT: tpc.broadcast
// CHECK-NEXT: return
func.func private @unused(%x: tensor<4xf32>) {
  %0 = tpc.neg %x : tensor<4xf32> -> tensor<4xf32>
  %1 = tpc.broadcast %0 over ["pp"] root 0 : tensor<4xf32> -> tensor<4xf32>
  return
}

// CHECK: func.func private @kernel_add_layer_norm_neg({{.*}}) {{.*}} attributes {tpc.kernel = 1 : i64}
// CHECK: func.func private @kernel_select(
// CHECK: tpc.iota dim 0
// CHECK: tpc.select
