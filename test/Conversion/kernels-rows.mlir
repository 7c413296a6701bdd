// RUN: tpc-opt %s --tpc-lower-program --canonicalize --cse | FileCheck %s

// Kernels of what needs a whole row, or a whole column: sums, extremes, norms, softmax, products that no library computes.

// Along the last dimension: four vectors of eight lanes at a time, and in the end what is left; docs/lowering.md has the order.
// CHECK-LABEL: llvm.func internal @maximum(
// CHECK: arith.constant dense<0xFF800000> : vector<8xf32>
// A row of ten stands in a buffer of 32, which holds the identity of max elsewhere.
// CHECK-COUNT-4: llvm.store %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: llvm.store %{{.*}}, %{{.*}} : f32
// CHECK-COUNT-4: arith.maximumf %{{.*}}, %{{.*}} : vector<8xf32>
// Then pairwise: 32 to 8 lanes, to 4, 2, 1.
// CHECK-COUNT-3: arith.maximumf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: %[[V4:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: %[[V2:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<2xf32>
// CHECK: %[[V1:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<1xf32>
// CHECK: %[[MAX:.*]] = llvm.extractelement %[[V1]]
// CHECK: llvm.store %[[MAX]], %{{.*}} : f32
func.func private @maximum(%x: tensor<4x10xf32>) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce max %x [1] : tensor<4x10xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: llvm.func internal @minimum_of_integers(
// CHECK-DAG: %[[C10:.*]] = llvm.mlir.constant(10 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64, %[[X1:.*]]: i32):
// CHECK: %[[V2:.*]] = llvm.mul %[[ROW]], %[[C10]]
// CHECK: %[[V3:.*]] = llvm.add %[[V2]], %[[K]]
// CHECK: %[[V4:.*]] = llvm.getelementptr %{{.*}}[%[[V3]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> i32
// CHECK: %[[V6:.*]] = arith.minsi %[[X1]], %[[V5]] : i32
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V6]] :
// CHECK: ^bb{{[0-9]+}}(%[[X7:.*]]: i32):
// CHECK: llvm.store %[[X7]], %{{.*}} : i32
func.func private @minimum_of_integers(%x: tensor<4x10xi32>) -> tensor<4x1xi32> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce min %x [1] keep : tensor<4x10xi32> -> tensor<4x1xi32>
  return %0 : tensor<4x1xi32>
}

// Unsigned: the least is 0, not -128.
// CHECK-LABEL: llvm.func internal @maximum_of_unsigned(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C10:.*]] = llvm.mlir.constant(10 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0 : i8
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.icmp "slt" %[[C0]], %[[C10]]
// CHECK: llvm.cond_br %[[V1]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, i8), ^bb{{[0-9]+}}(%[[K0]] : i8)
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64, %[[X2:.*]]: i8):
// CHECK: %[[V3:.*]] = llvm.mul %[[ROW]], %[[C10]]
// CHECK: %[[V4:.*]] = llvm.add %[[V3]], %[[I]]
// CHECK: %[[V5:.*]] = llvm.getelementptr %{{.*}}[%[[V4]]]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> i8
// CHECK: %[[V7:.*]] = arith.maxui %[[X2]], %[[V6]] : i8
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V7]] :
// CHECK: ^bb{{[0-9]+}}(%[[X8:.*]]: i8):
// CHECK: llvm.store %[[X8]], %{{.*}} : i8
func.func private @maximum_of_unsigned(%x: tensor<4x10xui8>) -> tensor<4xui8> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce max %x [1] : tensor<4x10xui8> -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// An empty mean of integers is undefined, but must not trap.
// CHECK-LABEL: llvm.func internal @mean_of_integers(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 3
// CHECK-DAG: %[[K1:.*]] = arith.constant 0
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V2:.*]] = llvm.icmp "slt" %[[C0]], %[[C3]]
// CHECK: llvm.cond_br %[[V2]], ^bb{{[0-9]+}}(%[[C0]], %[[K1]] : i64, i64), ^bb{{[0-9]+}}(%[[K1]] : i64)
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64, %[[J:.*]]: i64):
// CHECK: %[[V3:.*]] = llvm.mul %[[I]], %[[C4]]
// CHECK: %[[V4:.*]] = llvm.add %[[V3]], %[[ROW]]
// CHECK: %[[V5:.*]] = llvm.getelementptr %{{.*}}[%[[V4]]]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> i64
// CHECK: %[[V7:.*]] = arith.addi %[[J]], %[[V6]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V7]] :
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64):
// CHECK: %[[V8:.*]] = arith.divsi %[[K]], %[[K0]]
// CHECK: llvm.store %[[V8]], %{{.*}}
func.func private @mean_of_integers(%x: tensor<3x4xi64>) -> tensor<4xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce mean %x [0] : tensor<3x4xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// Two dimensions, of which one is not the last.
// CHECK-LABEL: llvm.func internal @sum_of_two(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.icmp "slt" %[[C0]], %[[C3]]
// CHECK: llvm.cond_br %[[V1]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, i64), ^bb{{[0-9]+}}(%[[K0]] : i64)
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64, %[[J:.*]]: i64):
// CHECK: %[[V2:.*]] = llvm.icmp "slt" %[[C0]], %[[C5]]
// CHECK: llvm.cond_br %[[V2]], ^bb{{[0-9]+}}(%[[C0]], %[[J]] : i64, i64), ^bb{{[0-9]+}}(%[[J]] : i64)
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64, %[[L0:.*]]: i64):
// CHECK: %[[V3:.*]] = llvm.mul %[[I]], %[[C4]]
// CHECK: %[[V4:.*]] = llvm.add %[[V3]], %[[ROW]]
// CHECK: %[[V5:.*]] = llvm.mul %[[V4]], %[[C5]]
// CHECK: %[[V6:.*]] = llvm.add %[[V5]], %[[K]]
// CHECK: %[[V7:.*]] = llvm.getelementptr %{{.*}}[%[[V6]]]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> i64
// CHECK: %[[V9:.*]] = arith.addi %[[L0]], %[[V8]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V9]] :
// CHECK: ^bb{{[0-9]+}}(%[[L1:.*]]: i64):
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[L1]] :
// CHECK: ^bb{{[0-9]+}}(%[[L2:.*]]: i64):
// CHECK: llvm.store %[[L2]], %{{.*}}
func.func private @sum_of_two(%x: tensor<3x4x5xi64>) -> tensor<4xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce sum %x [0, 2] : tensor<3x4x5xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// From the first element to this one.
// CHECK-LABEL: llvm.func internal @cumsum(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.icmp "slt" %[[C0]], %{{.*}}
// CHECK: llvm.cond_br %[[V1]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, i64), ^bb{{[0-9]+}}(%[[K0]] : i64)
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64, %[[K:.*]]: i64):
// CHECK: %[[V2:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V3:.*]] = llvm.add %[[V2]], %[[J]]
// CHECK: %[[V4:.*]] = llvm.getelementptr %{{.*}}[%[[V3]]]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> i64
// CHECK: %[[V6:.*]] = arith.addi %[[K]], %[[V5]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V6]] :
// CHECK: ^bb{{[0-9]+}}(%[[L0:.*]]: i64):
// CHECK: llvm.store %[[L0]], %{{.*}}
func.func private @cumsum(%x: tensor<4x6xi64>) -> tensor<4x6xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.cumsum %x dim 1 : tensor<4x6xi64> -> tensor<4x6xi64>
  return %0 : tensor<4x6xi64>
}

// From the one behind this to the last.
// CHECK-LABEL: llvm.func internal @cumsum_backwards(
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: %[[NEXT:.*]] = llvm.add %[[I]], %
// CHECK: %[[SOME:.*]] = llvm.icmp "slt" %[[NEXT]], %[[C6]]
// CHECK: llvm.cond_br %[[SOME]], ^bb{{[0-9]+}}(%[[NEXT]], %
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64, %[[K:.*]]: i64):
// CHECK: %[[V1:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V2:.*]] = llvm.add %[[V1]], %[[J]]
// CHECK: %[[V3:.*]] = llvm.getelementptr %{{.*}}[%[[V2]]]
// CHECK: %[[V4:.*]] = llvm.load %[[V3]] {{.*}}-> i64
// CHECK: %[[V5:.*]] = arith.addi %[[K]], %[[V4]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V5]] :
// CHECK: ^bb{{[0-9]+}}(%[[L0:.*]]: i64):
// CHECK: llvm.store %[[L0]], %{{.*}}
func.func private @cumsum_backwards(%x: tensor<4x6xi64>) -> tensor<4x6xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.cumsum %x dim 1 exclusive reverse : tensor<4x6xi64> -> tensor<4x6xi64>
  return %0 : tensor<4x6xi64>
}

// Along a dimension that is not the last: in order, without vectors.
// CHECK-LABEL: llvm.func internal @softmax(
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64, %[[X3:.*]]: f32):
// CHECK: %[[V4:.*]] = llvm.mul %[[J]], %[[C6]]
// CHECK: %[[V5:.*]] = llvm.add %[[V4]], %[[I]]
// CHECK: %[[V6:.*]] = llvm.getelementptr %{{.*}}[%[[V5]]]
// CHECK: %[[V7:.*]] = llvm.load %[[V6]] {{.*}}-> f32
// CHECK: %[[V8:.*]] = arith.cmpf ogt, %[[V7]], %[[X3]] : f32
// CHECK: %[[V9:.*]] = arith.select %[[V8]], %[[V7]], %[[X3]] : f32
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V9]] :
// CHECK: ^bb{{[0-9]+}}(%[[X10:.*]]: f32):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64, %[[X11:.*]]: f32):
// CHECK: %[[V12:.*]] = llvm.mul %[[K]], %[[C6]]
// CHECK: %[[V13:.*]] = llvm.add %[[V12]], %[[I]]
// CHECK: %[[V14:.*]] = llvm.getelementptr %{{.*}}[%[[V13]]]
// CHECK: %[[V15:.*]] = llvm.load %[[V14]] {{.*}}-> f32
// CHECK: %[[V16:.*]] = arith.subf %[[V15]], %[[X10]] : f32
// CHECK: %[[V17:.*]] = math.exp %[[V16]] : f32
// CHECK: %[[V18:.*]] = arith.addf %[[X11]], %[[V17]] : f32
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V18]] :
// CHECK: ^bb{{[0-9]+}}(%[[X19:.*]]: f32):
// CHECK: %[[V20:.*]] = arith.divf %[[K0]], %[[X19]] : f32
// CHECK: %[[V21:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V22:.*]] = llvm.add %[[V21]], %[[I]]
// CHECK: %[[V23:.*]] = llvm.getelementptr %{{.*}}[%[[V22]]]
// CHECK: %[[V24:.*]] = llvm.load %[[V23]] {{.*}}-> f32
// CHECK: %[[V25:.*]] = arith.subf %[[V24]], %[[X10]] : f32
// CHECK: %[[V26:.*]] = math.exp %[[V25]] : f32
// CHECK: %[[V27:.*]] = arith.mulf %[[V26]], %[[V20]] : f32
// CHECK: llvm.store %[[V27]], %{{.*}} : f32
func.func private @softmax(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {tpc.kernel = 0} {
  %0 = tpc.softmax %x dim 0 : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Halves: x[i] and x[i + 3], the sine of the first negated. Elements behind both stay.
// CHECK-LABEL: llvm.func internal @rotary(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK: %[[V1:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V2:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> !llvm.ptr
// CHECK: %[[V4:.*]] = llvm.getelementptr %arg2[2]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> !llvm.ptr
// CHECK: %[[V6:.*]] = llvm.urem %arg3, %[[C2]]
// CHECK: %[[V7:.*]] = llvm.udiv %arg3, %[[C2]]
// CHECK: %[[V8:.*]] = llvm.icmp "slt" %arg3, %{{.*}}
// CHECK: llvm.cond_br %[[V8]], ^bb{{[0-9]+}}(%arg3, %[[V7]], %[[V6]] : i64, i64, i64), ^bb{{[0-9]+}}
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64, %[[I:.*]]: i64, %[[J:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[L0:.*]]: i64):
// CHECK: %[[V9:.*]] = llvm.icmp "slt" %[[L0]], %[[C6]]
// CHECK: llvm.cond_br %[[V9]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V10:.*]] = llvm.icmp "slt" %[[L0]], %[[C3]]
// CHECK: %[[V11:.*]] = llvm.sub %[[L0]], %[[C3]]
// CHECK: %[[V12:.*]] = llvm.select %[[V10]], %[[L0]], %[[V11]]
// CHECK: %[[V13:.*]] = llvm.add %[[L0]], %[[C3]]
// CHECK: %[[V14:.*]] = llvm.select %[[V10]], %[[V13]], %[[V11]]
// CHECK: %[[V15:.*]] = llvm.mul %[[I]], %[[C2]]
// CHECK: %[[V16:.*]] = llvm.add %[[V15]], %[[J]]
// CHECK: %[[V17:.*]] = llvm.add %[[V16]], %[[K]]
// CHECK: %[[V18:.*]] = llvm.mul %[[V17]], %[[C8]]
// CHECK: %[[V19:.*]] = llvm.add %[[V18]], %[[L0]]
// CHECK: %[[V20:.*]] = llvm.getelementptr %[[V1]][%[[V19]]]
// CHECK: %[[V21:.*]] = llvm.load %[[V20]] {{.*}}-> f32
// CHECK: %[[V22:.*]] = llvm.add %[[V18]], %[[V14]]
// CHECK: %[[V23:.*]] = llvm.getelementptr %[[V1]][%[[V22]]]
// CHECK: %[[V24:.*]] = llvm.load %[[V23]] {{.*}}-> f32
// CHECK: %[[V25:.*]] = llvm.mul %[[J]], %[[C3]]
// CHECK: %[[V26:.*]] = llvm.add %[[V25]], %[[V12]]
// CHECK: %[[V27:.*]] = llvm.getelementptr %[[V5]][%[[V26]]]
// CHECK: %[[V28:.*]] = llvm.load %[[V27]] {{.*}}-> f32
// CHECK: %[[V29:.*]] = arith.negf %[[V28]] : f32
// CHECK: %[[V30:.*]] = arith.select %[[V10]], %[[V29]], %[[V28]] : f32
// CHECK: %[[V31:.*]] = llvm.getelementptr %[[V3]][%[[V26]]]
// CHECK: %[[V32:.*]] = llvm.load %[[V31]] {{.*}}-> f32
// CHECK: %[[V33:.*]] = arith.mulf %[[V21]], %[[V32]] : f32
// CHECK: %[[V34:.*]] = arith.mulf %[[V24]], %[[V30]] : f32
// CHECK: %[[V35:.*]] = arith.addf %[[V33]], %[[V34]] : f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V35]] : f32)
// CHECK: %[[V36:.*]] = llvm.mul %[[I]], %[[C2]]
// CHECK: %[[V37:.*]] = llvm.add %[[V36]], %[[J]]
// CHECK: %[[V38:.*]] = llvm.add %[[V37]], %[[K]]
// CHECK: %[[V39:.*]] = llvm.mul %[[V38]], %[[C8]]
// CHECK: %[[V40:.*]] = llvm.add %[[V39]], %[[L0]]
// CHECK: %[[V41:.*]] = llvm.getelementptr %[[V1]][%[[V40]]]
// CHECK: %[[V42:.*]] = llvm.load %[[V41]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V42]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[X43:.*]]: f32):
// CHECK: llvm.store %[[X43]], %{{.*}} : f32
// CHECK: %[[V44:.*]] = llvm.add %[[J]], %[[C1]]
// CHECK: %[[V45:.*]] = llvm.icmp "eq" %[[V44]], %[[C2]]
// CHECK: %[[V46:.*]] = llvm.select %[[V45]], %[[C0]], %[[V44]]
// CHECK: %[[V47:.*]] = llvm.zext %[[V45]] : i1 to i64
// CHECK: %[[V48:.*]] = llvm.add %[[I]], %[[V47]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V48]], %[[V46]] :
func.func private @rotary(%x: tensor<1x2x1x8xf32>, %cos: tensor<1x2x3xf32>, %sin: tensor<1x2x3xf32>) -> tensor<1x2x1x8xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.rotary %x, %cos, %sin : tensor<1x2x1x8xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<1x2x1x8xf32>
  return %0 : tensor<1x2x1x8xf32>
}

// Neighbors: x[2 i] and x[2 i + 1].
// CHECK-LABEL: llvm.func internal @rotary_interleaved(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: %[[V1:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V2:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V3:.*]] = llvm.load %[[V2]] {{.*}}-> !llvm.ptr
// CHECK: %[[V4:.*]] = llvm.getelementptr %arg2[2]
// CHECK: %[[V5:.*]] = llvm.load %[[V4]] {{.*}}-> !llvm.ptr
// CHECK: %[[V6:.*]] = llvm.urem %arg3, %[[C2]]
// CHECK: %[[V7:.*]] = llvm.udiv %arg3, %[[C2]]
// CHECK: %[[V8:.*]] = llvm.icmp "slt" %arg3, %{{.*}}
// CHECK: llvm.cond_br %[[V8]], ^bb{{[0-9]+}}(%arg3, %[[V7]], %[[V6]] : i64, i64, i64), ^bb{{[0-9]+}}
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64, %[[I:.*]]: i64, %[[J:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[L0:.*]]: i64):
// CHECK: %[[V9:.*]] = llvm.icmp "slt" %[[L0]], %[[C6]]
// CHECK: llvm.cond_br %[[V9]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V10:.*]] = llvm.urem %[[L0]], %[[C2]]
// CHECK: %[[V11:.*]] = llvm.icmp "eq" %[[V10]], %[[C0]]
// CHECK: %[[V12:.*]] = llvm.udiv %[[L0]], %[[C2]]
// CHECK: %[[V13:.*]] = llvm.add %[[L0]], %[[C1]]
// CHECK: %[[V14:.*]] = llvm.sub %[[L0]], %[[C1]]
// CHECK: %[[V15:.*]] = llvm.select %[[V11]], %[[V13]], %[[V14]]
// CHECK: %[[V16:.*]] = llvm.mul %[[I]], %[[C2]]
// CHECK: %[[V17:.*]] = llvm.add %[[V16]], %[[J]]
// CHECK: %[[V18:.*]] = llvm.add %[[V17]], %[[K]]
// CHECK: %[[V19:.*]] = llvm.mul %[[V18]], %[[C6]]
// CHECK: %[[V20:.*]] = llvm.add %[[V19]], %[[L0]]
// CHECK: %[[V21:.*]] = llvm.getelementptr %[[V1]][%[[V20]]]
// CHECK: %[[V22:.*]] = llvm.load %[[V21]] {{.*}}-> f32
// CHECK: %[[V23:.*]] = llvm.add %[[V19]], %[[V15]]
// CHECK: %[[V24:.*]] = llvm.getelementptr %[[V1]][%[[V23]]]
// CHECK: %[[V25:.*]] = llvm.load %[[V24]] {{.*}}-> f32
// CHECK: %[[V26:.*]] = llvm.mul %[[J]], %[[C3]]
// CHECK: %[[V27:.*]] = llvm.add %[[V26]], %[[V12]]
// CHECK: %[[V28:.*]] = llvm.getelementptr %[[V5]][%[[V27]]]
// CHECK: %[[V29:.*]] = llvm.load %[[V28]] {{.*}}-> f32
// CHECK: %[[V30:.*]] = arith.negf %[[V29]] : f32
// CHECK: %[[V31:.*]] = arith.select %[[V11]], %[[V30]], %[[V29]] : f32
// CHECK: %[[V32:.*]] = llvm.getelementptr %[[V3]][%[[V27]]]
// CHECK: %[[V33:.*]] = llvm.load %[[V32]] {{.*}}-> f32
// CHECK: %[[V34:.*]] = arith.mulf %[[V22]], %[[V33]] : f32
// CHECK: %[[V35:.*]] = arith.mulf %[[V25]], %[[V31]] : f32
// CHECK: %[[V36:.*]] = arith.addf %[[V34]], %[[V35]] : f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V36]] : f32)
// CHECK: %[[V37:.*]] = llvm.mul %[[I]], %[[C2]]
// CHECK: %[[V38:.*]] = llvm.add %[[V37]], %[[J]]
// CHECK: %[[V39:.*]] = llvm.add %[[V38]], %[[K]]
// CHECK: %[[V40:.*]] = llvm.mul %[[V39]], %[[C6]]
// CHECK: %[[V41:.*]] = llvm.add %[[V40]], %[[L0]]
// CHECK: %[[V42:.*]] = llvm.getelementptr %[[V1]][%[[V41]]]
// CHECK: %[[V43:.*]] = llvm.load %[[V42]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V43]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[X44:.*]]: f32):
// CHECK: llvm.store %[[X44]], %{{.*}} : f32
// CHECK: %[[V45:.*]] = llvm.add %[[J]], %[[C1]]
// CHECK: %[[V46:.*]] = llvm.icmp "eq" %[[V45]], %[[C2]]
// CHECK: %[[V47:.*]] = llvm.select %[[V46]], %[[C0]], %[[V45]]
// CHECK: %[[V48:.*]] = llvm.zext %[[V46]] : i1 to i64
// CHECK: %[[V49:.*]] = llvm.add %[[I]], %[[V48]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V49]], %[[V47]] :
func.func private @rotary_interleaved(%x: tensor<1x2x1x6xf32>, %cos: tensor<1x2x3xf32>, %sin: tensor<1x2x3xf32>) -> tensor<1x2x1x6xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.rotary interleaved %x, %cos, %sin : tensor<1x2x1x6xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<1x2x1x6xf32>
  return %0 : tensor<1x2x1x6xf32>
}

// What is not f32 is multiplied here, and the batch of the right side broadcasts.
// CHECK-LABEL: llvm.func internal @matmul(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0
// CHECK: %[[V2:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V3:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V4:.*]] = llvm.load %[[V3]] {{.*}}-> !llvm.ptr
// CHECK: %[[V5:.*]] = llvm.urem %arg3, %[[C3]]
// CHECK: %[[V6:.*]] = llvm.udiv %arg3, %[[C3]]
// CHECK: %[[V7:.*]] = llvm.icmp "slt" %arg3, %{{.*}}
// CHECK: llvm.cond_br %[[V7]], ^bb{{[0-9]+}}(%arg3, %[[V6]], %[[V5]] : i64, i64, i64), ^bb{{[0-9]+}}
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64, %[[I:.*]]: i64, %[[J:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64):
// CHECK: %[[V8:.*]] = llvm.icmp "slt" %[[C0]], %[[C4]]
// CHECK: llvm.cond_br %[[V8]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, i64), ^bb{{[0-9]+}}(%[[K0]] : i64)
// CHECK: ^bb{{[0-9]+}}(%[[L0:.*]]: i64, %[[L1:.*]]: i64):
// CHECK: %[[V9:.*]] = llvm.mul %[[I]], %[[C3]]
// CHECK: %[[V10:.*]] = llvm.add %[[V9]], %[[J]]
// CHECK: %[[V11:.*]] = llvm.mul %[[V10]], %[[C4]]
// CHECK: %[[V12:.*]] = llvm.add %[[V11]], %[[L0]]
// CHECK: %[[V13:.*]] = llvm.getelementptr %[[V2]][%[[V12]]]
// CHECK: %[[V14:.*]] = llvm.load %[[V13]] {{.*}}-> i64
// CHECK: %[[V15:.*]] = llvm.mul %[[L0]], %[[C5]]
// CHECK: %[[V16:.*]] = llvm.add %[[V15]], %[[K]]
// CHECK: %[[V17:.*]] = llvm.getelementptr %[[V4]][%[[V16]]]
// CHECK: %[[V18:.*]] = llvm.load %[[V17]] {{.*}}-> i64
// CHECK: %[[V19:.*]] = arith.muli %[[V14]], %[[V18]]
// CHECK: %[[V20:.*]] = arith.addi %[[L1]], %[[V19]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V20]] :
// CHECK: ^bb{{[0-9]+}}(%[[L2:.*]]: i64):
// CHECK: llvm.store %[[L2]], %{{.*}}
// CHECK: %[[V21:.*]] = llvm.add %[[J]], %[[C1]]
// CHECK: %[[V22:.*]] = llvm.icmp "eq" %[[V21]], %[[C3]]
// CHECK: %[[V23:.*]] = llvm.select %[[V22]], %[[C0]], %[[V21]]
// CHECK: %[[V24:.*]] = llvm.zext %[[V22]] : i1 to i64
// CHECK: %[[V25:.*]] = llvm.add %[[I]], %[[V24]]
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V25]], %[[V23]] :
func.func private @matmul(%x: tensor<2x3x4xi64>, %y: tensor<1x4x5xi64>) -> tensor<2x3x5xi64> attributes {tpc.kernel = 2} {
  %0 = tpc.matmul %x, %y : tensor<2x3x4xi64>, tensor<1x4x5xi64> -> tensor<2x3x5xi64>
  return %0 : tensor<2x3x5xi64>
}

// CHECK-LABEL: llvm.func internal @matmul_vector(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f64
// CHECK: %[[V2:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V3:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V4:.*]] = llvm.load %[[V3]] {{.*}}-> !llvm.ptr
// CHECK: %[[V5:.*]] = llvm.getelementptr %arg2[2]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V7:.*]] = llvm.icmp "slt" %[[C0]], %[[C4]]
// CHECK: llvm.cond_br %[[V7]], ^bb{{[0-9]+}}(%[[C0]], %[[K0]] : i64, f64), ^bb{{[0-9]+}}(%[[K0]] : f64)
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64, %[[X8:.*]]: f64):
// CHECK: %[[V9:.*]] = llvm.getelementptr %[[V2]][%[[I]]]
// CHECK: %[[V10:.*]] = llvm.load %[[V9]] {{.*}}-> f64
// CHECK: %[[V11:.*]] = llvm.mul %[[I]], %[[C5]]
// CHECK: %[[V12:.*]] = llvm.add %[[V11]], %[[ROW]]
// CHECK: %[[V13:.*]] = llvm.getelementptr %[[V4]][%[[V12]]]
// CHECK: %[[V14:.*]] = llvm.load %[[V13]] {{.*}}-> f64
// CHECK: %[[V15:.*]] = arith.mulf %[[V10]], %[[V14]] : f64
// CHECK: %[[V16:.*]] = arith.addf %[[X8]], %[[V15]] : f64
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[V16]] :
// CHECK: ^bb{{[0-9]+}}(%[[X17:.*]]: f64):
// CHECK: %[[V18:.*]] = llvm.getelementptr %[[V6]][%[[ROW]]]
// CHECK: %[[V19:.*]] = llvm.load %[[V18]] {{.*}}-> f64
// CHECK: %[[V20:.*]] = arith.addf %[[X17]], %[[V19]] : f64
// CHECK: llvm.store %[[V20]], %{{.*}} : f64
func.func private @matmul_vector(%x: tensor<4xf64>, %y: tensor<4x5xf64>, %b: tensor<5xf64>) -> tensor<5xf64> attributes {tpc.kernel = 0} {
  %0 = tpc.matmul %x, %y bias %b : tensor<4xf64>, tensor<4x5xf64> bias tensor<5xf64> -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
