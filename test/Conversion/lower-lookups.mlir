// RUN: tpc-opt %s --tpc-outline-kernels --tpc-lower-program=name=lookups | FileCheck %s

module attributes {tpc.grid = #tpc.grid<tp = 2, pp = 1, mb = 1>} {
tpc.weight @table in "/w.bin" at 64 : tensor<10x4xf32>

// The whole table's rows count, not this rank's. (The text is the node's name.)
// CHECK: llvm.func @tpc_missing_index(!llvm.ptr, !llvm.ptr, i64, i64)
// CHECK: llvm.mlir.global internal constant @[[NODE:.*]](dense<[47, 101, 109, 98, 0]> : tensor<5xi8>)
// CHECK-LABEL: llvm.func internal @kernel_embedding(
// CHECK: %[[N:.*]] = llvm.mlir.constant(10 : i64)
// CHECK: %[[ID:.*]] = llvm.load {{.*}}access_groups{{.*}} -> i64
// CHECK: %[[NEGATIVE:.*]] = llvm.icmp "slt" %[[ID]]
// CHECK: %[[BACK:.*]] = llvm.add %[[ID]], %[[N]]
// CHECK: %[[ROW:.*]] = llvm.select %[[NEGATIVE]], %[[BACK]], %[[ID]]
// CHECK: %[[INSIDE:.*]] = llvm.icmp "ult" %[[ROW]], %[[N]]
// CHECK: llvm.cond_br %[[INSIDE]], ^[[AFTER:bb[0-9]+]], ^[[MISSING:bb[0-9]+]]
// CHECK: ^[[MISSING]]:
// CHECK: %[[NAME:.*]] = llvm.mlir.addressof @[[NODE]]
// CHECK: llvm.call @tpc_missing_index(%{{.*}}, %[[NAME]], %[[ID]], %[[N]])
// CHECK: llvm.br ^[[AFTER]]
// CHECK: ^[[AFTER]]:
// CHECK: llvm.sub %[[ROW]]
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
