// Generation needs only the logits. Outputs that depend on past tokens are left to cache
// recognition.
// RUN: tpc-opt %s --split-input-file --tpc-keep-logits | FileCheck %s

// The logits are found by name, at any position. Ops that only other outputs use are removed.
!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!h = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!v = tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>>
!m = tensor<?x1x4xf32, #tpc.dist<[b, 1, 4]>>
!k = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>
// CHECK-LABEL: func @main
// CHECK-SAME: -> (tensor<{{.*}}[b, s, 9]>> {tpc.name = "logits"}, tensor<{{.*}}[b, 2, "p + s", 4]>> {tpc.name = "present"})
func.func @main(%ids: !ids {tpc.name = "ids"}, %x: !h, %y: !v, %k: !k)
    -> (!h {tpc.name = "hidden"}, !v {tpc.name = "logits"}, !m {tpc.name = "mean"}, !k {tpc.name = "present"}) {
  // CHECK-NOT: tpc.reduce
  %m = tpc.reduce mean %x [1] keep : !h -> !m
  // CHECK: return %{{.*}}, %{{.*}} :
  return %x, %y, %m, %k : !h, !v, !m, !k
}

// -----

// The logits are the only output with values for each token of each sequence, in any order of
// dimensions.
!ids = tensor<?x?xi32, #tpc.dist<[b, s]>>
!v = tensor<9x?x?xf32, #tpc.dist<[9, s, b]>>
!m = tensor<?x4xf32, #tpc.dist<[b, 4]>>
// CHECK-LABEL: func @main
// CHECK-SAME: -> (tensor<9x?x?xf32
func.func @main(%ids: !ids, %m: !m, %v: !v) -> (!m {tpc.name = "pooled"}, !v {tpc.name = "scores"}) {
  return %m, %v : !m, !v
}

// -----

// No output is the logits: the function is unchanged, and later passes report the error.
!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!m = tensor<?x4xf32, #tpc.dist<[b, 4]>>
// CHECK-LABEL: func @main
// CHECK: return %{{.*}}, %{{.*}} :
func.func @main(%ids: !ids, %m: !m) -> (!m, !m) {
  return %m, %m : !m, !m
}
