// RUN: tpc-opt %s --tpc-lower-program --canonicalize --cse | FileCheck %s

// Which elements of a dimension a rank has. Of 7 over three ranks the first has 3, beginning at 0, the others 2, at 3 and 5:
// (7 + 2 - c) floordiv 3 elements, beginning at 2 c + min(c, 1). The coordinate is the first word of the environment.
module attributes {tpc.grid = #tpc.grid<tp = 3, pp = 1, mb = 1>} {

// The only factor: elements are in a row.
// CHECK-LABEL: llvm.func internal @outer(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK: %[[V0:.*]] = llvm.load %{{.*}} {{.*}}-> i64
// CHECK: %[[V1:.*]] = llvm.mul %[[V0]], %[[C2]]
// CHECK: %[[V2:.*]] = llvm.intr.smin(%[[V0]], %[[C1]]) : (i64, i64) -> i64
// CHECK: %[[V3:.*]] = llvm.add %[[V1]], %[[V2]]
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V4:.*]] = llvm.add %[[ROW]], %[[V3]]
// CHECK: llvm.store %[[V4]], %{{.*}}
func.func private @outer() -> tensor<?xi64, #tpc.dist<[7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[7{tp}], local>>
  return %0 : tensor<?xi64, #tpc.dist<[7{tp}], local>>
}

// With a factor behind it: 5 elements for each of 7.
// CHECK-LABEL: llvm.func internal @outer_of_two(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK: %[[V0:.*]] = llvm.load %{{.*}} {{.*}}-> i64
// CHECK: %[[V1:.*]] = llvm.mul %[[V0]], %[[C2]]
// CHECK: %[[V2:.*]] = llvm.intr.smin(%[[V0]], %[[C1]]) : (i64, i64) -> i64
// CHECK: %[[V3:.*]] = llvm.add %[[V1]], %[[V2]]
// CHECK: %[[V4:.*]] = llvm.mul %[[V3]], %[[C5]]
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V5:.*]] = llvm.add %[[ROW]], %[[V4]]
// CHECK: llvm.store %[[V5]], %{{.*}}
func.func private @outer_of_two() -> tensor<?xi64, #tpc.dist<[7{tp} * 5], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[7{tp} * 5], local>>
  return %0 : tensor<?xi64, #tpc.dist<[7{tp} * 5], local>>
}

// Behind another factor: a part of each of two runs. A rank without elements must not divide by 0.
// CHECK-LABEL: llvm.func internal @inner_of_two(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK-DAG: %[[C9:.*]] = llvm.mlir.constant(9 : i64)
// CHECK: %[[V0:.*]] = llvm.load %{{.*}} {{.*}}-> i64
// CHECK: %[[V1:.*]] = llvm.sub %[[C9]], %[[V0]]
// CHECK: %[[V2:.*]] = llvm.srem %[[V1]], %[[C3]]
// CHECK: %[[V3:.*]] = llvm.icmp "slt" %[[V2]], %[[C0]]
// CHECK: %[[V4:.*]] = llvm.add %[[V2]], %[[C3]]
// CHECK: %[[V5:.*]] = llvm.select %[[V3]], %[[V4]], %[[V2]]
// CHECK: %[[V6:.*]] = llvm.sub %[[V1]], %[[V5]]
// CHECK: %[[V7:.*]] = llvm.sdiv %[[V6]], %[[C3]]
// CHECK: %[[V8:.*]] = llvm.mul %[[V0]], %[[C2]]
// CHECK: %[[V9:.*]] = llvm.intr.smin(%[[V0]], %[[C1]]) : (i64, i64) -> i64
// CHECK: %[[V10:.*]] = llvm.add %[[V8]], %[[V9]]
// CHECK: %[[V11:.*]] = llvm.intr.smax(%[[V7]], %[[C1]]) : (i64, i64) -> i64
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V12:.*]] = llvm.urem %[[ROW]], %[[V11]]
// CHECK: %[[V13:.*]] = llvm.udiv %[[ROW]], %[[V11]]
// CHECK: %[[V14:.*]] = llvm.add %[[V12]], %[[V10]]
// CHECK: %[[V15:.*]] = llvm.mul %[[V13]], %[[C7]]
// CHECK: %[[V16:.*]] = llvm.add %[[V15]], %[[V14]]
// CHECK: llvm.store %[[V16]], %{{.*}}
func.func private @inner_of_two() -> tensor<?xi64, #tpc.dist<[2 * 7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[2 * 7{tp}], local>>
  return %0 : tensor<?xi64, #tpc.dist<[2 * 7{tp}], local>>
}

// What is left of a product: of 14 over three ranks, 5, 5 and 4.
// CHECK-LABEL: llvm.func internal @product(
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: %[[V0:.*]] = llvm.load %{{.*}} {{.*}}-> i64
// CHECK: %[[V1:.*]] = llvm.mul %[[V0]], %[[C4]]
// CHECK: %[[V2:.*]] = llvm.intr.smin(%[[V0]], %[[C2]]) : (i64, i64) -> i64
// CHECK: %[[V3:.*]] = llvm.add %[[V1]], %[[V2]]
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V4:.*]] = llvm.add %[[ROW]], %[[V3]]
// CHECK: llvm.store %[[V4]], %{{.*}}
func.func private @product() -> tensor<?xi64, #tpc.dist<[(2 * 7){tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[(2 * 7){tp}], local>>
  return %0 : tensor<?xi64, #tpc.dist<[(2 * 7){tp}], local>>
}

// Of 9 each of three ranks has 3: the size is static.
// CHECK-LABEL: llvm.func internal @even(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK: %[[V0:.*]] = llvm.load %{{.*}} {{.*}}-> i64
// CHECK: %[[V1:.*]] = llvm.mul %[[V0]], %[[C3]]
// CHECK: %[[V2:.*]] = llvm.intr.smin(%[[V0]], %[[C0]]) : (i64, i64) -> i64
// CHECK: %[[V3:.*]] = llvm.add %[[V1]], %[[V2]]
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V4:.*]] = llvm.add %[[ROW]], %[[V3]]
// CHECK: llvm.store %[[V4]], %{{.*}}
func.func private @even() -> tensor<3xi64, #tpc.dist<[9{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<3xi64, #tpc.dist<[9{tp}], local>>
  return %0 : tensor<3xi64, #tpc.dist<[9{tp}], local>>
}

// A rank's part of what is there as a whole: the same indices, for reading.
// CHECK-LABEL: llvm.func internal @part(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK-DAG: %[[C9:.*]] = llvm.mlir.constant(9 : i64)
// CHECK: %[[V0:.*]] = llvm.load %{{.*}} {{.*}}-> i64
// CHECK: %[[V1:.*]] = llvm.sub %[[C9]], %[[V0]]
// CHECK: %[[V2:.*]] = llvm.srem %[[V1]], %[[C3]]
// CHECK: %[[V3:.*]] = llvm.icmp "slt" %[[V2]], %[[C0]]
// CHECK: %[[V4:.*]] = llvm.add %[[V2]], %[[C3]]
// CHECK: %[[V5:.*]] = llvm.select %[[V3]], %[[V4]], %[[V2]]
// CHECK: %[[V6:.*]] = llvm.sub %[[V1]], %[[V5]]
// CHECK: %[[V7:.*]] = llvm.sdiv %[[V6]], %[[C3]]
// CHECK: %[[V8:.*]] = llvm.mul %[[V0]], %[[C2]]
// CHECK: %[[V9:.*]] = llvm.intr.smin(%[[V0]], %[[C1]]) : (i64, i64) -> i64
// CHECK: %[[V10:.*]] = llvm.add %[[V8]], %[[V9]]
// CHECK: %[[V11:.*]] = llvm.intr.smax(%[[V7]], %[[C1]]) : (i64, i64) -> i64
// CHECK: ^bb{{[0-9]+}}(%[[ROW:.*]]: i64):
// CHECK: %[[V12:.*]] = llvm.urem %[[ROW]], %[[V11]]
// CHECK: %[[V13:.*]] = llvm.udiv %[[ROW]], %[[V11]]
// CHECK: %[[V14:.*]] = llvm.add %[[V12]], %[[V10]]
// CHECK: %[[V15:.*]] = llvm.mul %[[V13]], %[[C7]]
// CHECK: %[[V16:.*]] = llvm.add %[[V15]], %[[V14]]
// CHECK: %[[V17:.*]] = llvm.getelementptr %{{.*}}[%[[V16]]]
// CHECK: %[[V18:.*]] = llvm.load %[[V17]] {{.*}}-> f32
// CHECK: llvm.store %[[V18]], %{{.*}} : f32
func.func private @part(%x: tensor<14xf32>) -> tensor<?xf32, #tpc.dist<[2 * 7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.local_slice %x over ["tp"] dim 0 : tensor<14xf32> -> tensor<?xf32, #tpc.dist<[2 * 7{tp}], local>>
  return %0 : tensor<?xf32, #tpc.dist<[2 * 7{tp}], local>>
}
}
