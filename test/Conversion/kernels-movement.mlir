// RUN: tpc-opt %s --tpc-lower-program --canonicalize --cse | FileCheck %s

// Kernels of ops that move elements: where the element at an index comes from. A kernel runs rows [lo, hi); what is left of an
// index are loops.

// A dimension that is rotated: index + 4, less 6 where it passes the end.
// CHECK-LABEL: llvm.func internal @roll(
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.add %[[I]], %[[C4]]
// CHECK: %[[V1:.*]] = llvm.icmp "slt" %[[V0]], %[[C6]]
// CHECK: %[[V2:.*]] = llvm.sub %[[V0]], %[[C6]]
// CHECK: %[[V3:.*]] = llvm.select %[[V1]], %[[V0]], %[[V2]]
// CHECK: %[[V4:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V5:.*]] = llvm.add %[[V4]], %[[V3]]
// CHECK: %[[V6:.*]] = llvm.getelementptr %{{.*}}[%[[V5]]]
// CHECK: %[[V7:.*]] = llvm.load %[[V6]] {{.*}}-> f32
// CHECK: llvm.store %[[V7]], %{{.*}} : f32
func.func private @roll(%x: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.roll %x dim 1 from "4" every "6" : tensor<2x6xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// Backwards is forwards by what is left of a run. Runs of three in a dimension of six: the run stays.
// CHECK-LABEL: llvm.func internal @roll_runs(
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.urem %[[I]], %[[C3]]
// CHECK: %[[V1:.*]] = llvm.udiv %[[I]], %[[C3]]
// CHECK: %[[V2:.*]] = llvm.add %[[V0]], %[[C2]]
// CHECK: %[[V3:.*]] = llvm.icmp "slt" %[[V2]], %[[C3]]
// CHECK: %[[V4:.*]] = llvm.sub %[[V2]], %[[C3]]
// CHECK: %[[V5:.*]] = llvm.select %[[V3]], %[[V2]], %[[V4]]
// CHECK: %[[V6:.*]] = llvm.mul %[[V1]], %[[C3]]
// CHECK: %[[V7:.*]] = llvm.add %[[V6]], %[[V5]]
// CHECK: %[[V8:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V9:.*]] = llvm.add %[[V8]], %[[V7]]
// CHECK: %[[V10:.*]] = llvm.getelementptr %{{.*}}[%[[V9]]]
// CHECK: %[[V11:.*]] = llvm.load %[[V10]] {{.*}}-> f32
// CHECK: llvm.store %[[V11]], %{{.*}} : f32
func.func private @roll_runs(%x: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.roll %x dim 1 from "-1" every "3" : tensor<2x6xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// The first operand while the index is below its size, then the second from its beginning.
// CHECK-LABEL: llvm.func internal @concat(
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: %[[V1:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V2:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V4:.*]] = llvm.icmp "slt" %[[I]], %[[C6]]
// CHECK: llvm.cond_br %[[V4]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V5:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V6:.*]] = llvm.add %[[V5]], %[[I]]
// CHECK: %[[V7:.*]] = llvm.getelementptr %[[V1]][%[[V6]]]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V8]] : f32)
// CHECK: %[[V9:.*]] = llvm.sub %[[I]], %[[C6]]
// CHECK: %[[V10:.*]] = llvm.mul %[[ROW]], %[[C3]]
// CHECK: %[[V11:.*]] = llvm.add %[[V10]], %[[V9]]
// CHECK: %[[V12:.*]] = llvm.getelementptr %[[V3]][%[[V11]]]
// CHECK: %[[V13:.*]] = llvm.load %[[V12]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V13]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[X14:.*]]: f32):
// CHECK: llvm.store %[[X14]], %{{.*}} : f32
func.func private @concat(%x: tensor<2x6xf32>, %y: tensor<2x3xf32>) -> tensor<2x9xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.concat %x, %y dim 1 : tensor<2x6xf32>, tensor<2x3xf32> -> tensor<2x9xf32>
  return %0 : tensor<2x9xf32>
}

// from + step * index
// CHECK-LABEL: llvm.func internal @slice(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C9:.*]] = llvm.mlir.constant(9 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.mul %[[I]], %[[C2]]
// CHECK: %[[V1:.*]] = llvm.add %[[V0]], %[[C1]]
// CHECK: %[[V2:.*]] = llvm.mul %[[ROW]], %[[C9]]
// CHECK: %[[V3:.*]] = llvm.add %[[V2]], %[[V1]]
// CHECK: %[[V4:.*]] = llvm.getelementptr %{{.*}}[%[[V3]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> f32
// CHECK: llvm.store %[[V5]], %{{.*}} : f32
func.func private @slice(%x: tensor<2x9xf32>) -> tensor<2x4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.slice %x dim 1 from "1" step 2 : tensor<2x9xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: llvm.func internal @slice_backwards(
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[C9:.*]] = llvm.mlir.constant(9 : i64)
// CHECK-DAG: %[[CM1:.*]] = llvm.mlir.constant(-1 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.mul %[[I]], %[[CM1]]
// CHECK: %[[V1:.*]] = llvm.add %[[V0]], %[[C8]]
// CHECK: %[[V2:.*]] = llvm.mul %[[ROW]], %[[C9]]
// CHECK: %[[V3:.*]] = llvm.add %[[V2]], %[[V1]]
// CHECK: %[[V4:.*]] = llvm.getelementptr %{{.*}}[%[[V3]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> f32
// CHECK: llvm.store %[[V5]], %{{.*}} : f32
func.func private @slice_backwards(%x: tensor<2x9xf32>) -> tensor<2x9xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.slice %x dim 1 from "8" step -1 : tensor<2x9xf32> -> tensor<2x9xf32>
  return %0 : tensor<2x9xf32>
}

// CHECK-LABEL: llvm.func internal @transpose(
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.mul %[[I]], %[[C3]]
// CHECK: %[[V1:.*]] = llvm.add %[[V0]], %[[J]]
// CHECK: %[[V2:.*]] = llvm.mul %[[V1]], %[[C5]]
// CHECK: %[[V3:.*]] = llvm.add %[[V2]], %[[ROW]]
// CHECK: %[[V4:.*]] = llvm.getelementptr %{{.*}}[%[[V3]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> f32
// CHECK: llvm.store %[[V5]], %{{.*}} : f32
func.func private @transpose(%x: tensor<2x3x5xf32>) -> tensor<5x2x3xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.transpose %x [2, 0, 1] : tensor<2x3x5xf32> -> tensor<5x2x3xf32>
  return %0 : tensor<5x2x3xf32>
}

// A dimension of size 1 is read at 0.
// CHECK-LABEL: llvm.func internal @expand(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK: %[[V0:.*]] = llvm.urem %arg3, %[[C4]]
// CHECK: %[[V1:.*]] = llvm.udiv %arg3, %[[C4]]
// CHECK: %[[V2:.*]] = llvm.icmp "slt" %arg3, %{{.*}}
// CHECK: llvm.cond_br %[[V2]], ^bb{{[0-9]+}}(%arg3, %[[V1]], %[[V0]] : i64, i64, i64), ^bb{{[0-9]+}}
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64, %[[I:.*]]: i64, %[[J:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64):
// CHECK: %[[V3:.*]] = llvm.mul %[[I]], %[[C5]]
// CHECK: %[[V4:.*]] = llvm.add %[[V3]], %[[K]]
// CHECK: %[[V5:.*]] = llvm.getelementptr %{{.*}}[%[[V4]]]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> f32
// CHECK: llvm.store %[[V6]], %{{.*}} : f32
// CHECK: %[[V7:.*]] = llvm.add %[[J]], %[[C1]]
// CHECK: %[[V8:.*]] = llvm.icmp "eq" %[[V7]], %[[C4]]
// CHECK: %[[V9:.*]] = llvm.select %[[V8]], %[[C0]], %[[V7]]
// CHECK: %[[V10:.*]] = llvm.zext %[[V8]] : i1 to i64
// CHECK: %[[V11:.*]] = llvm.add %[[I]], %[[V10]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V11]], %[[V9]] :
func.func private @expand(%x: tensor<2x1x5xf32>) -> tensor<2x4x5xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.expand %x : tensor<2x1x5xf32> -> tensor<2x4x5xf32>
  return %0 : tensor<2x4x5xf32>
}

// Inside of a kernel a reshape is arithmetic …
// CHECK-LABEL: llvm.func internal @reshape(
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.mul %[[ROW]], %[[C8]]
// CHECK: %[[V1:.*]] = llvm.add %[[V0]], %[[I]]
// CHECK: %[[V2:.*]] = llvm.urem %[[V1]], %[[C6]]
// CHECK: %[[V3:.*]] = llvm.udiv %[[V1]], %[[C6]]
// CHECK: %[[V4:.*]] = llvm.mul %[[V3]], %[[C6]]
// CHECK: %[[V5:.*]] = llvm.add %[[V4]], %[[V2]]
// CHECK: %[[V6:.*]] = llvm.getelementptr %{{.*}}[%[[V5]]]
// CHECK: %[[V7:.*]] = llvm.load %[[V6]] {{.*}}-> f32
// CHECK: %[[V8:.*]] = arith.negf %[[V7]] : f32
// CHECK: llvm.store %[[V8]], %{{.*}} : f32
func.func private @reshape(%x: tensor<4x6xf32>) -> tensor<3x8xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.reshape %x : tensor<4x6xf32> -> tensor<3x8xf32>
  %1 = tpc.neg %0 : tensor<3x8xf32> -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// … but not where only dimensions of size 1 come and go.
// CHECK-LABEL: llvm.func internal @reshape_ones(
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V1:.*]] = llvm.add %[[V0]], %[[J]]
// CHECK: %[[V2:.*]] = llvm.getelementptr %{{.*}}[%[[V1]]]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> f32
// CHECK: %[[V4:.*]] = arith.negf %[[V3]] : f32
// CHECK: llvm.store %[[V4]], %{{.*}} : f32
func.func private @reshape_ones(%x: tensor<4x6xf32>) -> tensor<4x1x6x1xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.reshape %x : tensor<4x6xf32> -> tensor<4x1x6x1xf32>
  %1 = tpc.neg %0 : tensor<4x1x6x1xf32> -> tensor<4x1x6x1xf32>
  return %1 : tensor<4x1x6x1xf32>
}

// Below the diagonal and on it; zeros above.
// CHECK-LABEL: llvm.func internal @trilu(
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.icmp "sle" %[[I]], %[[ROW]]
// CHECK: %[[V2:.*]] = llvm.mul %[[ROW]], %[[C5]]
// CHECK: %[[V3:.*]] = llvm.add %[[V2]], %[[I]]
// CHECK: %[[V4:.*]] = llvm.getelementptr %{{.*}}[%[[V3]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> f32
// CHECK: %[[V6:.*]] = arith.select %[[V1]], %[[V5]], %[[K0]] : f32
// CHECK: llvm.store %[[V6]], %{{.*}} : f32
func.func private @trilu(%x: tensor<5x5xf32>) -> tensor<5x5xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.trilu %x k "0" : tensor<5x5xf32> -> tensor<5x5xf32>
  return %0 : tensor<5x5xf32>
}

// CHECK-LABEL: llvm.func internal @trilu_upper(
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.add %[[ROW]], %[[C2]]
// CHECK: %[[V2:.*]] = llvm.icmp "sge" %[[I]], %[[V1]]
// CHECK: %[[V3:.*]] = llvm.mul %[[ROW]], %[[C5]]
// CHECK: %[[V4:.*]] = llvm.add %[[V3]], %[[I]]
// CHECK: %[[V5:.*]] = llvm.getelementptr %{{.*}}[%[[V4]]]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> f32
// CHECK: %[[V7:.*]] = arith.select %[[V2]], %[[V6]], %[[K0]] : f32
// CHECK: llvm.store %[[V7]], %{{.*}} : f32
func.func private @trilu_upper(%x: tensor<5x5xf32>) -> tensor<5x5xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.trilu upper %x k "2" : tensor<5x5xf32> -> tensor<5x5xf32>
  return %0 : tensor<5x5xf32>
}

// A number of a size, in any type.
// CHECK-LABEL: llvm.func internal @sizes(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 7 : i32
// CHECK-DAG: %[[K1:.*]] = arith.constant 7.000000e+00 : f32
// CHECK: llvm.store %[[K1]], %{{.*}} : f32
// CHECK: llvm.store %[[K0]], %{{.*}} : i32
// CHECK: %[[V2:.*]] = llvm.icmp "ne" %[[C7]], %[[C0]]
// CHECK: %[[V3:.*]] = llvm.zext %[[V2]] : i1 to i8
// CHECK: llvm.store %[[V3]], %{{.*}} : i8
func.func private @sizes() -> (tensor<f32>, tensor<i32>, tensor<i1>) attributes {tpc.kernel = 0} {
  %0 = tpc.size "7" : tensor<f32>
  %1 = tpc.size "7" : tensor<i32>
  %2 = tpc.size "7" : tensor<i1>
  return %0, %1, %2 : tensor<f32>, tensor<i32>, tensor<i1>
}
