// A split of batch, kv heads, query heads of a group and queries computes the same gradients. Only
// the cotangents of keys and values are sums over query heads and queries.
// DEFINE: %{evaluate} = --tpc-evaluate=shape=n=5
// DEFINE: %{split} = --tpc-insert-reshards --tpc-lower-reshards --tpc-localize
// RUN: tpc-opt %s %{evaluate} --tpc-assign-shardings=shard=tp2,dp2 %{split} -o %t.mlir
// RUN: FileCheck %s --check-prefix=SPLIT < %t.mlir
// RUN: tpc-opt %t.mlir %{evaluate} -o /dev/null | FileCheck %s
// RUN: sed 's/tpc.all_reduce %\([0-9]*\) over \["tp"\]/tpc.all_reduce %\1 over ["dp"]/; s/sum{tp}/sum{dp}/' %t.mlir | not tpc-opt %{evaluate} -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER

// SPLIT: tpc.attention_grad 0 causal {{.*}} -> tensor<1x?x2x3xf32, #tpc.dist<[2{dp}, n, 4{tp}, 3], local>>
// SPLIT: tpc.attention_grad 1 causal {{.*}} sum{tp}, local>>
// SPLIT-NEXT: tpc.all_reduce %{{.*}} over ["tp"]
// SPLIT: tpc.attention_grad 2 causal {{.*}} sum{tp}, local>>
// SPLIT-NEXT: tpc.all_reduce %{{.*}} over ["tp"]
// CHECK: output 0 is the same
// CHECK: output 1 is the same
// CHECK: output 2 is the same
// OTHER: error:
!q = tensor<2x?x4x3xf32, #tpc.dist<[2, n, 4, 3]>>
!k = tensor<2x?x1x3xf32, #tpc.dist<[2, n, 1, 3]>>
module {
  func.func @main(%q: !q {tpc.name = "q"}, %k: !k {tpc.name = "k"}, %v: !k {tpc.name = "v"}, %d: !q {tpc.name = "d"})
      -> (!q {tpc.name = "dq"}, !k {tpc.name = "dk"}, !k {tpc.name = "dv"}) {
    %dq = tpc.attention_grad 0 causal %q, %k, %v, %d scale 0.5 {tpc.sharding = [#tpc.dim<2{dp}>, unit, #tpc.dim<4{tp}>, unit]} : !q, !k, !k, !q -> !q
    %dk = tpc.attention_grad 1 causal %q, %k, %v, %d scale 0.5 : !q, !k, !k, !q -> !k
    %dv = tpc.attention_grad 2 causal %q, %k, %v, %d scale 0.5 : !q, !k, !k, !q -> !k
    return %dq, %dk, %dv : !q, !k, !k
  }
}
