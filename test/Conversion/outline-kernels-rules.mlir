// RUN: tpc-opt %s --tpc-outline-kernels | FileCheck %s

// Rules for ops that share a kernel, and for values that a kernel stores.
!tp = tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>
!dp = tensor<4xf32, #tpc.dist<[4], sum{dp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {

// A kernel may need rows of a producer other than its own. They are rematerialized, if that is
// cheap.
// CHECK-LABEL: func.func private @cheap_rows
// CHECK-NEXT: call @kernel_neg_transpose_mul(%arg0, %arg1)
func.func private @cheap_rows(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.transpose %0 [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %2 = tpc.mul %1, %y : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// They are not rematerialized if an op needs them in memory, or if that is expensive.
// CHECK-LABEL: func.func private @rows_that_are_needed
// CHECK-NEXT: %[[X:.*]] = call @kernel_neg(%arg0)
// CHECK-NEXT: call @kernel_transpose(%[[X]])
func.func private @rows_that_are_needed(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x4xf32>) {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.transpose %0 [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<8x4xf32>
}
// CHECK-LABEL: func.func private @expensive_rows
// CHECK-NEXT: %[[X:.*]] = call @kernel_exp(%arg0)
// CHECK-NEXT: call @kernel_transpose(%[[X]])
func.func private @expensive_rows(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.transpose %0 [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// A sum over columns has the rows of its operand, so both are one kernel. A sum over rows is a
// second kernel.
// CHECK-LABEL: func.func private @sum_of_columns
// CHECK-NEXT: call @kernel_neg_reduce(%arg0)
// CHECK-LABEL: func.func private @sum_of_rows
// CHECK-NEXT: %[[X:.*]] = call @kernel_neg(%arg0)
// CHECK-NEXT: call @kernel_reduce(%[[X]])
func.func private @sum_of_columns(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.reduce sum %0 [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4xf32>
}
func.func private @sum_of_rows(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.reduce sum %0 [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<8xf32>
}

// A slice of rows is only an address; a slice of columns needs a kernel.
// CHECK-LABEL: func.func private @part_of_rows
// CHECK: call @kernel_neg{{.*}}(%arg0)
// CHECK-NEXT: tpc.local_slice
// CHECK-LABEL: func.func private @part_of_columns
// CHECK-NEXT: call @kernel_neg_local_slice(%arg0)
func.func private @part_of_rows(%x: tensor<4x8xf32>) -> tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>> {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : tensor<4x8xf32> -> tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
  return %1 : tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
}
func.func private @part_of_columns(%x: tensor<4x8xf32>) -> tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>> {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.local_slice %0 over ["tp"] dim 1 : tensor<4x8xf32> -> tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
  return %1 : tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
}

// Two independent chains stay two calls, here of the same kernel.
// CHECK-LABEL: func.func private @apart
// CHECK-NEXT: call @[[K:kernel_neg.*]](%arg0)
// CHECK-NEXT: call @[[K]](%arg1)
func.func private @apart(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.neg %y : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// An expensive value with two users is stored, and so is the operand of a norm, which is read
// several times. Values that are cheap or read once are not stored.
// CHECK-LABEL: func.func private @expensive_twice
// CHECK-NEXT: call @kernel_exp_neg_mul(%arg0) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-LABEL: func.func private @expensive_in_loops
// CHECK-NEXT: call @kernel_exp_rms_norm(%arg0, %arg1) : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-LABEL: func.func private @expensive_once
// CHECK-NEXT: call @kernel_exp_neg(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-LABEL: func.func private @cheap_twice
// CHECK-NEXT: call @kernel_neg_abs_mul(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func private @expensive_twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.neg %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.mul %0, %1 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
func.func private @expensive_in_loops(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.rms_norm %0, %s epsilon 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func private @expensive_once(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.neg %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func private @cheap_twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.abs %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.mul %0, %1 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// Costs of cheap ops accumulate: each of these values is twice the previous one. The fourth would
// cost 15, so it is stored, and the cost restarts from 0.
// CHECK-LABEL: func.func private @powers
// CHECK-NEXT: call @kernel_{{.*}}(%arg0) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
func.func private @powers(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tpc.neg %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.add %0, %0 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.add %1, %1 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = tpc.add %2, %2 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = tpc.add %3, %3 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %5 = tpc.add %4, %4 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// A value without operands is stored for the matmul, which needs it in memory. The sum
// rematerializes it.
// CHECK-LABEL: func.func private @both_ways
// CHECK: %[[I:.*]] = call @kernel_iota() : () -> tensor<8x8xf32>
// CHECK: %[[SUM:.*]] = call @kernel_add(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: tpc.matmul %[[SUM]], %[[I]]
func.func private @both_ways(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %i = tpc.iota dim 0 : tensor<8x8xf32>
  %0 = tpc.add %x, %i : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tpc.matmul %0, %i : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// A constant that the matmul needs in memory is data of the program. So is a constant with several
// values, which kernels read as an operand.
// CHECK-LABEL: func.func private @data
// CHECK-DAG: %[[ONES:.*]] = tpc.constant dense<1.000000e+00>
// CHECK-DAG: %[[LIST:.*]] = tpc.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK: %[[SUM:.*]] = call @kernel_{{.*}}(%arg0, %[[LIST]]) :
// CHECK: tpc.matmul %[[SUM]], %[[ONES]]
func.func private @data(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = tpc.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %ones = tpc.constant dense<1.0> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = tpc.add %x, %c : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  %1 = tpc.matmul %0, %ones : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// Collectives keep their order, even if an op of the kernel before the first one comes after the
// second one in the program.
// CHECK-LABEL: func.func private @order
// CHECK-NEXT: %[[K:.*]]:2 = call @kernel_neg_add(%arg0)
// CHECK-NEXT: tpc.all_reduce %[[K]]#0 over ["tp"]
// CHECK-NEXT: tpc.all_reduce %arg1 over ["dp"]
// CHECK-NEXT: tpc.all_reduce %[[K]]#1 over ["tp"]
func.func private @order(%x: !tp, %y: !dp) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = tpc.neg %x : !tp -> !tp
  %1 = tpc.all_reduce %0 over ["tp"] : !tp -> tensor<4xf32>
  %2 = tpc.all_reduce %y over ["dp"] : !dp -> tensor<4xf32>
  %3 = tpc.add %0, %x : !tp, !tp -> !tp
  %4 = tpc.all_reduce %3 over ["tp"] : !tp -> tensor<4xf32>
  return %1, %2, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// An epilogue is not put into a kernel, and stays next to its matmul.
// CHECK-LABEL: func.func private @fused
// CHECK: tpc.matmul
// CHECK-NEXT: tpc.relu %{{.*}} {tpc.fused = 0 : i32}
// CHECK-NEXT: call @kernel_neg
func.func private @fused(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tpc.matmul %x, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tpc.relu %0 {tpc.fused = 0 : i32} : tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = tpc.neg %1 : tensor<8x8xf32> -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// A reduction reads a value once, so that its operand is not stored; a norm reads it several times.
// CHECK-LABEL: func.func private @reduced
// CHECK-NEXT: %{{.*}} = call @kernel_exp_reduce{{[^(]*}}(%arg0) : (tensor<4x8xf32>) -> tensor<4xf32>
// CHECK-NEXT: %{{.*}}:2 = call @kernel_exp_rms_norm{{.*}}(%arg0, %arg1) : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
func.func private @reduced(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.reduce sum %0 [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = tpc.rms_norm %2, %scale epsilon 1.0e-6 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %1, %3 : tensor<4xf32>, tensor<4x8xf32>
}

// Kernels are outlined in a stage too, before its micro-batch loop and inside it.
// CHECK-LABEL: tpc.stage 0
// CHECK: %[[X:.*]] = func.call @kernel_neg{{.*}}(%{{.*}})
// CHECK: tpc.micro_batches {
// CHECK: %[[Y:.*]] = func.call @kernel_exp{{.*}}(%[[X]])
// CHECK: tpc.output 0, %[[Y]]
tpc.pipeline @main(%x: tensor<6xf32>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<6xf32>}] {
  tpc.stage 0 {
    %0 = tpc.neg %x : tensor<6xf32> -> tensor<6xf32>
    tpc.micro_batches {
      %1 = tpc.exp %0 : tensor<6xf32> -> tensor<6xf32>
      tpc.output 0, %1 : tensor<6xf32>
    }
  }
}
}
