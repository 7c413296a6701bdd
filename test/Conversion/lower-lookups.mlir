// RUN: tpc-opt %s --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=lookups | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @table in "/w.bin" at 64 : tensor<10x4xf32>

// Indices are compared with the number of rows of the whole table, not of this rank's shard. The
// first thread to set the error flag records the index.
// CHECK: llvm.mlir.global internal constant @tpc_node_0("/emb\00")
// CHECK-LABEL: llvm.func internal @kernel_embedding(
// CHECK-SAME: %arg0: !llvm.ptr, %[[STATUS:.*]]: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64
// A launch may cover more rows than exist.
// CHECK: %[[HI:.*]] = llvm.intr.smin(%arg4, %{{.*}})
// CHECK: %[[N:.*]] = llvm.mlir.constant(10 : i64)
// CHECK: llvm.icmp "slt" %arg3, %[[HI]]
// CHECK: %[[ID:.*]] = llvm.load {{.*}}access_groups{{.*}} -> i64
// CHECK: %[[NEGATIVE:.*]] = arith.cmpi slt, %[[ID]]
// CHECK: %[[BACK:.*]] = arith.addi %[[ID]], %[[N]]
// CHECK: %[[ROW:.*]] = arith.select %[[NEGATIVE]], %[[BACK]], %[[ID]]
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[ROW]], %[[N]]
// CHECK: llvm.cond_br %[[INSIDE]], ^[[AFTER:bb[0-9]+]], ^[[MISSING:bb[0-9]+]]
// CHECK: ^[[MISSING]]:
// CHECK: %[[FLAG:.*]] = llvm.getelementptr %[[STATUS]][0, 0]
// CHECK: %[[KNOWN:.*]] = llvm.atomicrmw xchg %[[FLAG]], %{{.*}} monotonic
// CHECK: %[[FIRST:.*]] = llvm.icmp "eq" %[[KNOWN]]
// CHECK: llvm.cond_br %[[FIRST]], ^[[NOTE:bb[0-9]+]], ^[[AFTER]]
// CHECK: ^[[NOTE]]:
// CHECK: %[[NODE:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[STATUS]][0, 1]
// CHECK: llvm.store %[[NODE]], %[[AT]]
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[STATUS]][0, 2]
// CHECK: llvm.store %[[ID]], %[[AT]]
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[STATUS]][0, 3]
// CHECK: llvm.store %[[N]], %[[AT]]
// CHECK: llvm.br ^[[AFTER]]
// CHECK: ^[[AFTER]]:
// CHECK: arith.subi %[[ROW]]
func.func private @stage_0(%ids: tensor<?xi64, #tpc.dist<[n], local>>) -> tensor<?x4xf32, #tpc.dist<[n, 4], sum{tp}, local>> {
  %table = tpc.parameter @table : tensor<5x4xf32, #tpc.dist<[10{tp}, 4], local>>
  %0 = tpc.embedding %table, %ids : tensor<5x4xf32, #tpc.dist<[10{tp}, 4], local>>, tensor<?xi64, #tpc.dist<[n], local>> -> tensor<?x4xf32, #tpc.dist<[n, 4], sum{tp}, local>> loc("/emb")
  return %0 : tensor<?x4xf32, #tpc.dist<[n, 4], sum{tp}, local>>
}
tpc.pipeline @main(%ids: tensor<?xi64, #tpc.dist<[n], local>>) inputs [{tpc.name = "ids"}] outputs [{name = "y", type = tensor<?x4xf32, #tpc.dist<[n, 4]>>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @stage_0(%ids) : (tensor<?xi64, #tpc.dist<[n], local>>) -> tensor<?x4xf32, #tpc.dist<[n, 4], sum{tp}, local>>
      %1 = tpc.all_reduce %0 over ["tp"] : tensor<?x4xf32, #tpc.dist<[n, 4], sum{tp}, local>> -> tensor<?x4xf32, #tpc.dist<[n, 4], local>>
      tpc.output 0, %1 : tensor<?x4xf32, #tpc.dist<[n, 4], local>>
    }
  }
}
}
