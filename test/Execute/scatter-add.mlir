// A split of rows (tp) and of updates (dp) computes the same. Only the split of updates makes sums.
// DEFINE: %{evaluate} = --tpc-evaluate=shape=n=6
// RUN: tpc-opt %s %{evaluate} --tpc-assign-shardings=shard=tp3,dp2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize -o %t.mlir
// RUN: FileCheck %s --check-prefix=SPLIT < %t.mlir
// RUN: tpc-opt %t.mlir %{evaluate} -o /dev/null | FileCheck %s
// RUN: sed 's/tpc.all_reduce %\([0-9]\) over \["dp"\]/tpc.all_reduce %\1 over ["tp"]/; s/sum{dp}/sum{tp}/' %t.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER

// SPLIT: tpc.scatter_add {{.*}} -> tensor<?x4xf32, #tpc.dist<[8{tp}, 4], sum{dp}, local>>
// SPLIT-NEXT: tpc.all_reduce %{{.*}} over ["dp"]
// CHECK: output 0 is the same
// OTHER: error:
module {
  func.func @main(%d: tensor<?x4xf32, #tpc.dist<[n, 4]>> {tpc.name = "d"}, %ids: tensor<?xi64, #tpc.dist<[n]>> {tpc.name = "ids"}) -> (tensor<8x4xf32> {tpc.name = "y"}) {
    %0 = tpc.scatter_add %d, %ids {tpc.sharding = [#tpc.dim<8{tp}>, unit]} : tensor<?x4xf32, #tpc.dist<[n, 4]>>, tensor<?xi64, #tpc.dist<[n]>> -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
