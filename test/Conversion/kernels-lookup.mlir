// RUN: tpc-opt %s --tpc-lower-program --canonicalize --cse | FileCheck %s

// Lookups in kernels: negative indices count from the end, one that is in no rank's part is reported, and what lies in another
// rank's part reads as zero. (lower-lookups.mlir has an embedding.)
module attributes {tpc.grid = #tpc.grid<tp = 2, pp = 1, mb = 1>} {

// In the middle: what is before and behind the dimension stays.
// CHECK-LABEL: llvm.func internal @gather(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[I1_true:.*]] = llvm.mlir.constant(true)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[V4:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V5:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64):
// CHECK: %[[V7:.*]] = llvm.getelementptr %[[V6]][%[[I]]]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> i32
// CHECK: %[[V9:.*]] = arith.extsi %[[V8]] : i32 to i64
// CHECK: %[[V10:.*]] = llvm.icmp "slt" %[[V9]], %[[C0]]
// CHECK: %[[V11:.*]] = llvm.add %[[V9]], %[[C6]]
// CHECK: %[[V12:.*]] = llvm.select %[[V10]], %[[V11]], %[[V9]]
// CHECK: %[[V13:.*]] = llvm.icmp "ult" %[[V12]], %[[C6]]
// CHECK: llvm.cond_br %[[V13]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} monotonic
// CHECK: llvm.store %[[V9]], %{{.*}} : i64
// CHECK: llvm.store %[[C6]], %{{.*}} : i64
// CHECK: llvm.br ^bb{{[0-9]+}}
// CHECK: %[[V14:.*]] = llvm.and %[[V13]], %[[I1_true]] : i1
// CHECK: llvm.cond_br %[[V14]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V15:.*]] = llvm.mul %[[ROW]], %[[C6]]
// CHECK: %[[V16:.*]] = llvm.add %[[V15]], %[[V12]]
// CHECK: %[[V17:.*]] = llvm.mul %[[V16]], %[[C3]]
// CHECK: %[[V18:.*]] = llvm.add %[[V17]], %[[J]]
// CHECK: %[[V19:.*]] = llvm.getelementptr %[[V4]][%[[V18]]]
// CHECK: %[[V20:.*]] = llvm.load %[[V19]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V20]] : f32)
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[K0]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[X21:.*]]: f32):
// CHECK: llvm.store %[[X21]], %{{.*}} : f32
func.func private @gather(%x: tensor<2x6x3xf32>, %i: tensor<4xi32>) -> tensor<2x4x3xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 1 : tensor<2x6x3xf32>, tensor<4xi32> -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}

// Unsigned indices have no sign to extend.
// CHECK-LABEL: llvm.func internal @gather_unsigned(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[I1_true:.*]] = llvm.mlir.constant(true)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[V4:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V5:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V7:.*]] = llvm.getelementptr %[[V6]][%[[ROW]]]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> i8
// CHECK: %[[V9:.*]] = arith.extui %[[V8]] : i8 to i64
// CHECK: %[[V10:.*]] = llvm.icmp "slt" %[[V9]], %[[C0]]
// CHECK: %[[V11:.*]] = llvm.add %[[V9]], %[[C6]]
// CHECK: %[[V12:.*]] = llvm.select %[[V10]], %[[V11]], %[[V9]]
// CHECK: %[[V13:.*]] = llvm.icmp "ult" %[[V12]], %[[C6]]
// CHECK: llvm.cond_br %[[V13]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} monotonic
// CHECK: llvm.store %[[V9]], %{{.*}} : i64
// CHECK: llvm.store %[[C6]], %{{.*}} : i64
// CHECK: llvm.br ^bb{{[0-9]+}}
// CHECK: %[[V14:.*]] = llvm.and %[[V13]], %[[I1_true]] : i1
// CHECK: llvm.cond_br %[[V14]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V15:.*]] = llvm.getelementptr %[[V4]][%[[V12]]]
// CHECK: %[[V16:.*]] = llvm.load %[[V15]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V16]] : f32)
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[K0]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[X17:.*]]: f32):
// CHECK: llvm.store %[[X17]], %{{.*}} : f32
func.func private @gather_unsigned(%x: tensor<6xf32>, %i: tensor<4xui8>) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 0 : tensor<6xf32>, tensor<4xui8> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Half of the rows on each of two ranks.
// CHECK-LABEL: llvm.func internal @gather_split(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[V6:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V7:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V8:.*]] = llvm.load %[[V7]] {{.*}}-> !llvm.ptr
// CHECK: %[[V9:.*]] = llvm.load %arg0 {{.*}}-> i64
// CHECK: %[[V10:.*]] = llvm.mul %[[V9]], %[[C3]]
// CHECK: %[[V11:.*]] = llvm.intr.smin(%[[V9]], %[[C0]]) : (i64, i64) -> i64
// CHECK: %[[V12:.*]] = llvm.add %[[V10]], %[[V11]]
// CHECK: %[[V13:.*]] = llvm.sub %[[C7]], %[[V9]]
// CHECK: %[[V14:.*]] = llvm.srem %[[V13]], %[[C2]]
// CHECK: %[[V15:.*]] = llvm.icmp "slt" %[[V14]], %[[C0]]
// CHECK: %[[V16:.*]] = llvm.add %[[V14]], %[[C2]]
// CHECK: %[[V17:.*]] = llvm.select %[[V15]], %[[V16]], %[[V14]]
// CHECK: %[[V18:.*]] = llvm.sub %[[V13]], %[[V17]]
// CHECK: %[[V19:.*]] = llvm.sdiv %[[V18]], %[[C2]]
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V20:.*]] = llvm.getelementptr %[[V8]][%[[ROW]]]
// CHECK: %[[V21:.*]] = llvm.load %[[V20]] {{.*}}-> i64
// CHECK: %[[V22:.*]] = llvm.icmp "slt" %[[V21]], %[[C0]]
// CHECK: %[[V23:.*]] = llvm.add %[[V21]], %[[C6]]
// CHECK: %[[V24:.*]] = llvm.select %[[V22]], %[[V23]], %[[V21]]
// CHECK: %[[V25:.*]] = llvm.icmp "ult" %[[V24]], %[[C6]]
// CHECK: llvm.cond_br %[[V25]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} monotonic
// CHECK: llvm.store %[[V21]], %{{.*}} : i64
// CHECK: llvm.store %[[C6]], %{{.*}} : i64
// CHECK: llvm.br ^bb{{[0-9]+}}
// CHECK: %[[V26:.*]] = llvm.sub %[[V24]], %[[V12]]
// CHECK: %[[V27:.*]] = llvm.icmp "ult" %[[V26]], %[[V19]]
// CHECK: %[[V28:.*]] = llvm.and %[[V25]], %[[V27]] : i1
// CHECK: llvm.cond_br %[[V28]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V29:.*]] = llvm.getelementptr %[[V6]][%[[V26]]]
// CHECK: %[[V30:.*]] = llvm.load %[[V29]] {{.*}}-> f32
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V30]] : f32)
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[K0]] : f32)
// CHECK: ^bb{{[0-9]+}}(%[[X31:.*]]: f32):
// CHECK: llvm.store %[[X31]], %{{.*}} : f32
func.func private @gather_split(%x: tensor<3xf32, #tpc.dist<[6{tp}], local>>, %i: tensor<4xi64>) -> tensor<4xf32, #tpc.dist<[4], sum{tp}, local>> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 0 : tensor<3xf32, #tpc.dist<[6{tp}], local>>, tensor<4xi64> -> tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>
  return %0 : tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>
}

// Two indices for each element; both must be there.
// CHECK-LABEL: llvm.func internal @gather_nd(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[I1_true:.*]] = llvm.mlir.constant(true)
// CHECK-DAG: %[[K0:.*]] = arith.constant 0
// CHECK: %[[V4:.*]] = llvm.load %arg2 {{.*}}-> !llvm.ptr
// CHECK: %[[V5:.*]] = llvm.getelementptr %arg2[1]
// CHECK: %[[V6:.*]] = llvm.load %[[V5]] {{.*}}-> !llvm.ptr
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V7:.*]] = llvm.mul %[[ROW]], %[[C2]]
// CHECK: %[[V8:.*]] = llvm.getelementptr %[[V6]][%[[V7]]]
// CHECK: %[[V9:.*]] = llvm.load %[[V8]] {{.*}}-> i64
// CHECK: %[[V10:.*]] = llvm.icmp "slt" %[[V9]], %[[C0]]
// CHECK: %[[V11:.*]] = llvm.add %[[V9]], %[[C5]]
// CHECK: %[[V12:.*]] = llvm.select %[[V10]], %[[V11]], %[[V9]]
// CHECK: %[[V13:.*]] = llvm.icmp "ult" %[[V12]], %[[C5]]
// CHECK: llvm.cond_br %[[V13]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} monotonic
// CHECK: llvm.store %[[V9]], %{{.*}} : i64
// CHECK: llvm.store %[[C5]], %{{.*}} : i64
// CHECK: llvm.br ^bb{{[0-9]+}}
// CHECK: %[[V14:.*]] = llvm.and %[[V13]], %[[I1_true]] : i1
// CHECK: %[[V15:.*]] = llvm.add %[[V7]], %[[C1]]
// CHECK: %[[V16:.*]] = llvm.getelementptr %[[V6]][%[[V15]]]
// CHECK: %[[V17:.*]] = llvm.load %[[V16]] {{.*}}-> i64
// CHECK: %[[V18:.*]] = llvm.icmp "slt" %[[V17]], %[[C0]]
// CHECK: %[[V19:.*]] = llvm.add %[[V17]], %[[C6]]
// CHECK: %[[V20:.*]] = llvm.select %[[V18]], %[[V19]], %[[V17]]
// CHECK: %[[V21:.*]] = llvm.icmp "ult" %[[V20]], %[[C6]]
// CHECK: llvm.cond_br %[[V21]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} monotonic
// CHECK: llvm.store %[[V17]], %{{.*}} : i64
// CHECK: llvm.store %[[C6]], %{{.*}} : i64
// CHECK: llvm.br ^bb{{[0-9]+}}
// CHECK: %[[V22:.*]] = llvm.and %[[V21]], %[[I1_true]] : i1
// CHECK: %[[V23:.*]] = arith.andi %[[V14]], %[[V22]] : i1
// CHECK: llvm.cond_br %[[V23]], ^bb{{[0-9]+}}, ^bb{{[0-9]+}}
// CHECK: %[[V24:.*]] = llvm.mul %[[V12]], %[[C6]]
// CHECK: %[[V25:.*]] = llvm.add %[[V24]], %[[V20]]
// CHECK: %[[V26:.*]] = llvm.getelementptr %[[V4]][%[[V25]]]
// CHECK: %[[V27:.*]] = llvm.load %[[V26]] {{.*}}-> i64
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[V27]] : i64)
// CHECK: llvm.br ^bb{{[0-9]+}}(%[[K0]] : i64)
// CHECK: ^bb{{[0-9]+}}(%[[I:.*]]: i64):
// CHECK: llvm.store %[[I]], %{{.*}}
func.func private @gather_nd(%x: tensor<5x6xi64>, %i: tensor<4x2xi64>) -> tensor<4xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.gather_nd %x, %i : tensor<5x6xi64>, tensor<4x2xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
}
