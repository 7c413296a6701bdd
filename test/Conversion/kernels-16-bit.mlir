// RUN: tpc-opt %s --tpc-lower-program --canonicalize --cse | FileCheck %s

// 16-bit elements are computed in f32, and each op rounds once: between two ops as well, so that bits do not depend on what was
// fused into one kernel.
// CHECK-LABEL: llvm.func internal @each_op_rounds(
// CHECK: %[[V1:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V2:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V4:.*]] = llvm.getelementptr %[[V1]][%[[ROW]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> f16
// CHECK: %[[V6:.*]] = arith.extf %[[V5]] : f16 to f32
// CHECK: %[[V7:.*]] = llvm.getelementptr %[[V3]][%[[ROW]]]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> f16
// CHECK: %[[V9:.*]] = arith.extf %[[V8]] : f16 to f32
// CHECK: %[[V10:.*]] = arith.addf %[[V6]], %[[V9]] : f32
// CHECK: %[[V11:.*]] = arith.truncf %[[V10]] : f32 to f16
// CHECK: %[[V12:.*]] = arith.extf %[[V11]] : f16 to f32
// CHECK: %[[V13:.*]] = arith.mulf %[[V12]], %[[V9]] : f32
// CHECK: %[[V14:.*]] = arith.truncf %[[V13]] : f32 to f16
// CHECK: llvm.store %[[V14]], %{{.*}} : f16
func.func private @each_op_rounds(%x: tensor<4xf16>, %y: tensor<4xf16>) -> tensor<4xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.add %x, %y : tensor<4xf16>, tensor<4xf16> -> tensor<4xf16>
  %1 = tpc.mul %0, %y : tensor<4xf16>, tensor<4xf16> -> tensor<4xf16>
  return %1 : tensor<4xf16>
}

// CHECK-LABEL: llvm.func internal @bfloat(
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.getelementptr %{{.*}}[%[[ROW]]]
// CHECK: %[[V1:.*]] = llvm.load %[[V0]] {{.*}}-> bf16
// CHECK: %[[V2:.*]] = arith.extf %[[V1]] : bf16 to f32
// CHECK: %[[V3:.*]] = math.exp %[[V2]] : f32
// CHECK: %[[V4:.*]] = arith.truncf %[[V3]] : f32 to bf16
// CHECK: llvm.store %[[V4]], %{{.*}} : bf16
func.func private @bfloat(%x: tensor<4xbf16>) -> tensor<4xbf16> attributes {tpc.kernel = 1} {
  %0 = tpc.exp %x : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// A sum rounds in the end alone.
// CHECK-LABEL: llvm.func internal @sum(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.icmp "slt" %[[C0]], %[[C5]]
// CHECK: llvm.cond_br %[[V1]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, f32), ^bb{{[0-9]+}}(%[[K0]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64, %[[X2:.*]]: f32):
// CHECK: %[[V3:.*]] = llvm.mul %[[I]], %[[C4]]
// CHECK: %[[V4:.*]] = llvm.add %[[V3]], %[[ROW]]
// CHECK: %[[V5:.*]] = llvm.getelementptr %{{.*}}[%[[V4]]]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> f16
// CHECK: %[[V7:.*]] = arith.extf %[[V6]] : f16 to f32
// CHECK: %[[V8:.*]] = arith.addf %[[X2]], %[[V7]] : f32
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V8]] :
// CHECK: ^bb{{[0-9]+}}(%[[X9:.*]]: f32):
// CHECK: %[[V10:.*]] = arith.truncf %[[X9]] : f32 to f16
// CHECK: llvm.store %[[V10]], %{{.*}} : f16
func.func private @sum(%x: tensor<5x4xf16>) -> tensor<4xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce sum %x [0] : tensor<5x4xf16> -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// So does a product that no library computes.
// CHECK-LABEL: llvm.func internal @matmul(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[V2:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V3:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V4:.*]] = llvm.load %[[V3]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V5:.*]] = llvm.icmp "slt" %[[C0]], %[[C4]]
// CHECK: llvm.cond_br %[[V5]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, f32), ^bb{{[0-9]+}}(%[[K0]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64, %[[X6:.*]]: f32):
// CHECK: %[[V7:.*]] = llvm.mul %[[ROW]], %[[C4]]
// CHECK: %[[V8:.*]] = llvm.add %[[V7]], %[[J]]
// CHECK: %[[V9:.*]] = llvm.getelementptr %[[V2]][%[[V8]]]
// CHECK: %[[V10:.*]] = llvm.load %[[V9]] {{.*}}-> bf16
// CHECK: %[[V11:.*]] = arith.extf %[[V10]] : bf16 to f32
// CHECK: %[[V12:.*]] = llvm.mul %[[J]], %[[C5]]
// CHECK: %[[V13:.*]] = llvm.add %[[V12]], %[[I]]
// CHECK: %[[V14:.*]] = llvm.getelementptr %[[V4]][%[[V13]]]
// CHECK: %[[V15:.*]] = llvm.load %[[V14]] {{.*}}-> bf16
// CHECK: %[[V16:.*]] = arith.extf %[[V15]] : bf16 to f32
// CHECK: %[[V17:.*]] = arith.mulf %[[V11]], %[[V16]] : f32
// CHECK: %[[V18:.*]] = arith.addf %[[X6]], %[[V17]] : f32
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V18]] :
// CHECK: ^bb{{[0-9]+}}(%[[X19:.*]]: f32):
// CHECK: %[[V20:.*]] = arith.truncf %[[X19]] : f32 to bf16
// CHECK: llvm.store %[[V20]], %{{.*}} : bf16
func.func private @matmul(%x: tensor<3x4xbf16>, %y: tensor<4x5xbf16>) -> tensor<3x5xbf16> attributes {tpc.kernel = 1} {
  %0 = tpc.matmul %x, %y : tensor<3x4xbf16>, tensor<4x5xbf16> -> tensor<3x5xbf16>
  return %0 : tensor<3x5xbf16>
}

// What only moves is not widened.
// CHECK-LABEL: llvm.func internal @moves(
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V0:.*]] = llvm.mul %[[I]], %[[C4]]
// CHECK: %[[V1:.*]] = llvm.add %[[V0]], %[[ROW]]
// CHECK: %[[V2:.*]] = llvm.getelementptr %{{.*}}[%[[V1]]]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> f16
// CHECK: llvm.store %[[V3]], %{{.*}} : f16
func.func private @moves(%x: tensor<3x4xf16>) -> tensor<4x3xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.transpose %x [1, 0] : tensor<3x4xf16> -> tensor<4x3xf16>
  return %0 : tensor<4x3xf16>
}

// A boolean takes a byte, of which not 0 is true.
// CHECK-LABEL: llvm.func internal @booleans(
// CHECK-DAG: %[[I8_0:.*]] = llvm.mlir.constant(0 : i8)
// CHECK: %[[V1:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V2:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V4:.*]] = llvm.getelementptr %[[V1]][%[[ROW]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> i8
// CHECK: %[[V6:.*]] = llvm.icmp "ne" %[[V5]], %[[I8_0]] : i8
// CHECK: %[[V7:.*]] = llvm.getelementptr %[[V3]][%[[ROW]]]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> i8
// CHECK: %[[V9:.*]] = llvm.icmp "ne" %[[V8]], %[[I8_0]] : i8
// CHECK: %[[V10:.*]] = arith.andi %[[V6]], %[[V9]] : i1
// CHECK: %[[V11:.*]] = llvm.zext %[[V10]] : i1 to i8
// CHECK: llvm.store %[[V11]], %{{.*}} : i8
func.func private @booleans(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> attributes {tpc.kernel = 1} {
  %0 = tpc.and %x, %y : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
