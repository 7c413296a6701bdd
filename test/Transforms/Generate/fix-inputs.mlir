// RUN: tpc-opt %s --split-input-file --tpc-fix-inputs --verify-diagnostics | FileCheck %s

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!mask = tensor<?x?xi64, #tpc.dist<[b, "p + s"]>>
!past = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>

// Positions follow from the mask: the number of past tokens is the mask's length minus the
// sequence's.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%arg0: tensor<?x?xi64, #tpc.dist<[b, s]>> {tpc.name = "ids"}, %arg1: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>)
// CHECK-DAG: %[[ONE:.*]] = tpc.constant dense<1> : tensor<i64>
// CHECK-DAG: %[[MASK:.*]] = tpc.expand %[[ONE]] {{.*}}[b, "p + s"]
// CHECK-DAG: %[[I:.*]] = tpc.iota dim 1
// CHECK-DAG: %[[P:.*]] = tpc.size p : tensor<i64>
// CHECK: %[[POSITIONS:.*]] = tpc.add %[[I]], %[[P]]
// CHECK: return %arg0, %[[MASK]], %[[POSITIONS]], %arg1
func.func @main(%ids: !ids {tpc.name = "ids"}, %mask: !mask {tpc.default = #tpc.default<ones>, tpc.name = "mask"},
                %positions: !ids {tpc.default = #tpc.default<positions of "mask">, tpc.name = "positions"}, %past: !past)
    -> (!ids, !mask, !ids, !past) {
  return %ids, %mask, %positions, %past : !ids, !mask, !ids, !past
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!row = tensor<1x?xi32, #tpc.dist<[1, s]>>

// Positions of one sequence after a given past, and positions without a past.
// CHECK-LABEL: func.func @main()
// CHECK-DAG: %[[A:.*]] = tpc.iota dim 1 : tensor<1x?xi32
// CHECK-DAG: %[[P:.*]] = tpc.size p : tensor<i32>
// CHECK-DAG: %[[ROW:.*]] = tpc.add %[[A]], %[[P]]
// CHECK-DAG: %[[B:.*]] = tpc.iota dim 1 : tensor<?x?xi64
// CHECK: return %[[ROW]], %[[B]]
func.func @main(%row: !row {tpc.default = #tpc.default<positions after p>},
                %positions: !ids {tpc.default = #tpc.default<positions>}) -> (!row, !ids) {
  return %row, %positions : !row, !ids
}

// -----

// Inputs that must be given are unchanged, and so are other functions.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<4xi64> {tpc.required = "who knows"})
func.func @main(%positions: tensor<4xi64> {tpc.required = "who knows"}) -> tensor<4xi64> {
  return %positions : tensor<4xi64>
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>

// expected-error @below {{argument 0: there is no mask "mask" [batch, tokens] to derive the number of past tokens from}}
func.func @main(%positions: !ids {tpc.default = #tpc.default<positions of "mask">}) -> !ids {
  return %positions : !ids
}
