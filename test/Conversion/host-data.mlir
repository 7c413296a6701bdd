// RUN: tpc-opt %s --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program --canonicalize --cse | FileCheck %s

// Constants, transfers between stages, and lists that the runtime reads: see tpc/runtime.h.
!a = tensor<6x12xf32, #tpc.dist<[12{tp}, 12], local>>
!b = tensor<12x4xf32, #tpc.dist<[12, 12{dp}], local>>
!k = tensor<4x3xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 2, mb = 1>} {

// An exchange of two dimensions passes, for each dimension, the number of its factors minus one and
// four lists of axis indices, each ended by -1: of the factor and of the product, before and after.
// CHECK-LABEL: llvm.func internal @exchange(
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[END:.*]] = llvm.mlir.constant(-1 : i32)
// CHECK-DAG: %[[N:.*]] = llvm.mlir.constant(12 : i64)
// CHECK: %[[LIST:.*]] = llvm.alloca %{{.*}} x i32
// CHECK: llvm.store %[[C2]], %[[LIST]]
// CHECK: llvm.store %[[C1]],
// CHECK: llvm.store %[[C0]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[C1]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[C1]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[END]],
// CHECK: llvm.store %[[N]], %[[SIZES:.*]] : i64
// CHECK: llvm.store %[[N]],
// CHECK: llvm.call @tpc_exchange(%arg0, %[[LIST]], %[[C0]], %arg2, %arg3, %[[SIZES]])
func.func private @exchange(%x: !a) -> !b {
  %0 = tpc.exchange %x over ["tp", "dp"] : !a -> !b
  return %0 : !b
}

// Constants that kernels read. Booleans and unsigned numbers are bytes; duplicates are merged.
func.func private @constants(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<2xui8>, tensor<2xui8>) {
  %b = tpc.constant dense<[true, false, true]> : tensor<3xi1> : tensor<3xi1>
  %u = tpc.constant dense<[1, 255]> : tensor<2xui8> : tensor<2xui8>
  %v = tpc.constant dense<[1, 255]> : tensor<2xui8> : tensor<2xui8>
  %z = tpc.constant dense<[0.5, 1.5, 2.5]> : tensor<3xf32> : tensor<3xf32>
  %0 = tpc.select %b, %x, %z : tensor<3xi1>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return %0, %u, %v : tensor<3xf32>, tensor<2xui8>, tensor<2xui8>
}

// A transfer passes the index of axis pp (2) and the other stage. A value is received into the
// frame of the iteration.
// CHECK-LABEL: llvm.func internal @tpc_stage_0(
// CHECK-DAG: %[[TWO:.*]] = llvm.mlir.constant(2 : i32)
// CHECK-DAG: %[[F32:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[COUNT:.*]] = llvm.mlir.constant(12 : i64)
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1 : i64)
// CHECK: %[[X:.*]] = llvm.call @tpc_input(%arg0, %[[F32]])
// CHECK: llvm.call @tpc_send(%arg0, %[[TWO]], %[[F32]], %[[X]], %[[COUNT]], %[[ONE]])
// CHECK-LABEL: llvm.func internal @tpc_stage_1(
// CHECK-DAG: %[[ZERO:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[FOUR:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[STEP:.*]] = llvm.mlir.constant(2 : i64)
// CHECK-DAG: %[[TWO:.*]] = llvm.mlir.constant(2 : i32)
// CHECK-DAG: %[[F32:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: %[[FRAME:.*]] = llvm.call @tpc_frame_push(
// CHECK: llvm.call @tpc_recv(%arg0, %[[TWO]], %[[F32]], %[[FRAME]], %{{.*}}, %[[ZERO]])
// Only the first of two copies is written to the output: every second of four rows in dimension 0,
// beginning at the first.
// CHECK: llvm.icmp "eq"
// CHECK: llvm.and
// CHECK: llvm.cond_br
// CHECK: %[[OFFSET:.*]] = llvm.getelementptr %[[BOX:.*]][16]
// CHECK: %[[SIZE:.*]] = llvm.getelementptr %[[BOX]][32]
// CHECK: llvm.call @tpc_output_every(%arg0, %[[F32]], %[[FRAME]], %[[TWO]], %[[BOX]], %[[OFFSET]], %[[SIZE]], %[[F32]], %[[FOUR]], %[[ZERO]], %[[STEP]])

// CHECK: llvm.mlir.global internal constant @tpc_constant_0(dense<[1, 0, 1]> : tensor<3xi8>) {{.*}}alignment = 64
// CHECK: llvm.mlir.global internal constant @tpc_constant_1(dense<[5.000000e-01, 1.500000e+00, 2.500000e+00]> : tensor<3xf32>)
// CHECK: llvm.mlir.global internal constant @tpc_constant_2(dense<[1, -1]> : tensor<2xi8>)
// CHECK-NOT: @tpc_constant_3
tpc.pipeline @main(%x: !k, %a: !a, %t: tensor<3xf32>) inputs [{}, {}, {}] outputs [{name = "y", type = tensor<2x3xf32>, tpc.copies = array<i64: 0, 2>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      tpc.send %x to 1 : !k
      func.call @exchange(%a) : (!a) -> !b
      func.call @constants(%t) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<2xui8>, tensor<2xui8>)
    }
  }
  tpc.stage 1 {
    tpc.micro_batches {
      %0 = tpc.recv from 0 : !k
      tpc.output 0, %0 : !k
    }
  }
}
}
