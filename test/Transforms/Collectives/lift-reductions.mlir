// All-reduces of a function's results move to its calls if results of several calls are added. One
// all-reduce of the sum remains.
// RUN: tpc-opt %s --tpc-localize --tpc-optimize-collectives | FileCheck %s

!x = tensor<32x8xf32>
!sum = tensor<32x8xf32, #tpc.dist<[32, 8], sum{dp}>>
!dp = tensor<4x32x8xf32, #tpc.dist<[4{dp}, 32, 8]>>

module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1>} {

// CHECK-LABEL: func.func @three(
// CHECK-NEXT: %[[A:.*]] = call @added
// CHECK-NEXT: %[[B:.*]] = call @added
// CHECK-NEXT: %[[AB:.*]] = tpc.add %[[A]], %[[B]]
// CHECK-NEXT: %[[C:.*]] = call @added
// CHECK-NEXT: %[[ABC:.*]] = tpc.add %[[AB]], %[[C]]
// CHECK-NEXT: %[[R:.*]] = tpc.all_reduce %[[ABC]] over ["dp"]
// CHECK-NEXT: return %[[R]]
func.func @three(%x: !dp, %y: !dp, %z: !dp) -> !x {
  %0 = call @added(%x) : (!dp) -> !x
  %1 = call @added(%y) : (!dp) -> !x
  %2 = tpc.add %0, %1 : !x, !x -> !x
  %3 = call @added(%z) : (!dp) -> !x
  %4 = tpc.add %2, %3 : !x, !x -> !x
  return %4 : !x
}
// CHECK-LABEL: func.func private @added(
// CHECK-NEXT: %[[S:.*]] = tpc.reduce
// CHECK-NEXT: return %[[S]]
func.func private @added(%x: !dp) -> !x {
  %0 = tpc.reduce sum %x [0] : !dp -> !sum
  %1 = tpc.all_reduce %0 over ["dp"] : !sum -> !x
  return %1 : !x
}

// One call's result is not added, so all calls need it reduced.
// CHECK-LABEL: func.func @not_all(
// CHECK-NOT: tpc.all_reduce
// CHECK: return
func.func @not_all(%x: !dp, %y: !dp) -> (!x, !x) {
  %0 = call @reduced(%x) : (!dp) -> !x
  %1 = call @reduced(%y) : (!dp) -> !x
  %2 = tpc.add %0, %1 : !x, !x -> !x
  %3 = call @reduced(%x) : (!dp) -> !x
  %4 = tpc.exp %3 : !x -> !x
  return %2, %4 : !x, !x
}
// CHECK-LABEL: func.func private @reduced(
// CHECK: tpc.all_reduce
func.func private @reduced(%x: !dp) -> !x {
  %0 = tpc.reduce sum %x [0] : !dp -> !sum
  %1 = tpc.all_reduce %0 over ["dp"] : !sum -> !x
  return %1 : !x
}

// Results that are added to other values only: an all-reduce of each would remain.
// CHECK-LABEL: func.func @apart(
// CHECK-NOT: tpc.all_reduce
// CHECK: return
func.func @apart(%x: !dp, %y: !dp, %z: !x) -> (!x, !x) {
  %0 = call @alone(%x) : (!dp) -> !x
  %1 = call @alone(%y) : (!dp) -> !x
  %2 = tpc.add %0, %z : !x, !x -> !x
  %3 = tpc.add %1, %z : !x, !x -> !x
  return %2, %3 : !x, !x
}
// CHECK-LABEL: func.func private @alone(
// CHECK: tpc.all_reduce
func.func private @alone(%x: !dp) -> !x {
  %0 = tpc.reduce sum %x [0] : !dp -> !sum
  %1 = tpc.all_reduce %0 over ["dp"] : !sum -> !x
  return %1 : !x
}
}
