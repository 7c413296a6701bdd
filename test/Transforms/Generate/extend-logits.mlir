// Models may return the logits of the last token only, or ids instead of logits. The pass makes
// both return the logits of all tokens.
// RUN: tpc-opt %s --split-input-file --tpc-extend-logits | FileCheck %s

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!h = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!l = tensor<?x1x4xf32, #tpc.dist<[b, 1, 4]>>
!f = tensor<?x4xf32, #tpc.dist<[b, 4]>>
!v = tensor<?x9xf32, #tpc.dist<[b, 9]>>

// The last token is sliced before the norm, and the head has no dimension of tokens.
// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>> {tpc.name = "logits"})
// CHECK: %[[H:.*]] = tpc.embedding
// CHECK-NOT: tpc.slice
// CHECK: %[[R:.*]] = tpc.reshape %[[H]] : {{.*}} -> tensor<?x1x4xf32, #tpc.dist<[b*s, 1, 4]>>
// CHECK: %[[N:.*]] = tpc.rms_norm %[[R]], {{.*}}
// CHECK: %[[F:.*]] = tpc.reshape %[[N]] : {{.*}} -> tensor<?x4xf32, #tpc.dist<[b*s, 4]>>
// CHECK: %[[L:.*]] = tpc.matmul %[[F]], {{.*}} -> tensor<?x9xf32, #tpc.dist<[b*s, 9]>>
// CHECK: %[[A:.*]] = tpc.reshape %[[L]] : {{.*}} -> tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>>
// CHECK: return %[[A]]
module {
  tpc.weight @e in "w" at 0 : tensor<9x4xf32>
  tpc.weight @n in "w" at 144 : tensor<4xf32>
  tpc.weight @w in "w" at 160 : tensor<4x9xf32>
  func.func @main(%ids: !ids {tpc.name = "input_ids"}) -> (!v {tpc.name = "logits"}) {
    %e = tpc.parameter @e : tensor<9x4xf32>
    %h = tpc.embedding %e, %ids : tensor<9x4xf32>, !ids -> !h
    %l = tpc.slice %h dim 1 from "s - 1" : !h -> !l
    %n = tpc.parameter @n : tensor<4xf32>
    %m = tpc.rms_norm %l, %n epsilon 1.0e-5 : !l, tensor<4xf32> -> !l
    %f = tpc.reshape %m : !l -> !f
    %w = tpc.parameter @w : tensor<4x9xf32>
    %y = tpc.matmul %f, %w : !f, tensor<4x9xf32> -> !v
    return %y : !v
  }
}

// -----

// Unchanged: sequences that depend on each other, and a slice of a token other than the last.
!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!h = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!l = tensor<?x1x4xf32, #tpc.dist<[b, 1, 4]>>
!m = tensor<1x1x4xf32>
// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<?x1x4xf32, #tpc.dist<[b, 1, 4]>> {tpc.name = "logits"})
// CHECK: tpc.slice
// CHECK: tpc.reduce mean
module {
  tpc.weight @e in "w" at 0 : tensor<9x4xf32>
  func.func @main(%ids: !ids {tpc.name = "input_ids"}) -> (!l {tpc.name = "logits"}) {
    %e = tpc.parameter @e : tensor<9x4xf32>
    %h = tpc.embedding %e, %ids : tensor<9x4xf32>, !ids -> !h
    %l = tpc.slice %h dim 1 from "s - 1" : !h -> !l
    %m = tpc.reduce mean %l [0] keep : !l -> !m
    %y = tpc.sub %l, %m : !l, !m -> !l
    return %y : !l
  }
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!h = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!l = tensor<?x1x4xf32, #tpc.dist<[b, 1, 4]>>
// CHECK-LABEL: func.func @main
// CHECK-SAME: -> tensor<?x1x4xf32, #tpc.dist<[b, 1, 4]>> {
module {
  tpc.weight @e in "w" at 0 : tensor<9x4xf32>
  func.func @main(%ids: !ids {tpc.name = "input_ids"}) -> !l {
    %e = tpc.parameter @e : tensor<9x4xf32>
    %h = tpc.embedding %e, %ids : tensor<9x4xf32>, !ids -> !h
    %l = tpc.slice %h dim 1 from 0 : !h -> !l
    return %l : !l
  }
}

// -----

// The output is the index of the largest logit, in the form in which ArgMax is imported.
!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!v = tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>>
!c = tensor<?x?x9xi64, #tpc.dist<[b, s, 9]>>
!b = tensor<?x?x9xi1, #tpc.dist<[b, s, 9]>>
!k = tensor<?x?x1xf32, #tpc.dist<[b, s, 1]>>
// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>> {tpc.name = "next"})
// CHECK: %[[V:.*]] = tpc.embedding
// CHECK-NEXT: return %[[V]]
module {
  tpc.weight @e in "w" at 0 : tensor<9x9xf32>
  func.func @main(%ids: !ids {tpc.name = "input_ids"}) -> (!ids {tpc.name = "next"}) {
    %e = tpc.parameter @e : tensor<9x9xf32>
    %v = tpc.embedding %e, %ids : tensor<9x9xf32>, !ids -> !v
    %best = tpc.reduce max %v [2] keep : !v -> !k
    %i = tpc.iota dim 0 : tensor<9xi64>
    %none = tpc.constant dense<9> : tensor<i64> : tensor<i64>
    %found = tpc.cmp eq %v, %best : !v, !k -> !b
    %nan = tpc.is_nan %v : !v -> !b
    %any = tpc.or %found, %nan : !b, !b -> !b
    %c = tpc.select %any, %i, %none : !b, tensor<9xi64>, tensor<i64> -> !c
    %y = tpc.reduce min %c [2] : !c -> !ids
    return %y : !ids
  }
}
