// Folding of the dialect's ops.
// RUN: tpc-opt %s --canonicalize | FileCheck %s

!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!y = tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>

// CHECK-LABEL: @there_and_back
// CHECK-NEXT: return %arg0
func.func @there_and_back(%x: !x) -> !x {
  %0 = tpc.reshape %x : !x -> !y
  %1 = tpc.reshape %0 : !y -> !x
  return %1 : !x
}

// Split tokens cannot always be divided into batch and sequence.
// CHECK-LABEL: @split_intermediate
// CHECK: tpc.reshape
// CHECK: tpc.reshape
func.func @split_intermediate(%x: tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>>) -> tensor<?x?xf32, #tpc.dist<[b{dp}, 8*s]>> {
  %0 = tpc.reshape %x : tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>> -> tensor<?x?x8xf32, #tpc.dist<[b{dp}, s, 8]>>
  %1 = tpc.reshape %0 : tensor<?x?x8xf32, #tpc.dist<[b{dp}, s, 8]>> -> tensor<?x?xf32, #tpc.dist<[b{dp}, 8*s]>>
  return %1 : tensor<?x?xf32, #tpc.dist<[b{dp}, 8*s]>>
}

// CHECK-LABEL: @transposes
// CHECK-NEXT: return %arg0
func.func @transposes(%y: !y) -> !y {
  %0 = tpc.transpose %y [1, 2, 0] : !y -> tensor<?x8x?xf32, #tpc.dist<[s, 8, b]>>
  %1 = tpc.transpose %0 [2, 0, 1] : tensor<?x8x?xf32, #tpc.dist<[s, 8, b]>> -> !y
  return %1 : !y
}

// CHECK-LABEL: @nothing_to_do
// CHECK-NEXT: return %arg0, %arg0, %arg0
func.func @nothing_to_do(%x: !x) -> (!x, !x, !x) {
  %0 = tpc.expand %x : !x -> !x
  %1 = tpc.slice %x dim 0 from 0 : !x -> !x
  %2 = tpc.concat %x dim 1 : !x -> !x
  return %0, %1, %2 : !x, !x, !x
}

// Shifts are combined; a shift by zero or by the whole size is removed.
// CHECK-LABEL: @rolls
// CHECK-NEXT: %[[R:.*]] = tpc.roll %arg0 dim 0 from "s - 1" every s
// CHECK-NEXT: return %[[R]], %arg0, %arg0
func.func @rolls(%x: !x) -> (!x, !x, !x) {
  %0 = tpc.roll %x dim 0 from 1 every s : !x -> !x
  %1 = tpc.roll %0 dim 0 from "s - 2" every s : !x -> !x
  %2 = tpc.roll %x dim 0 from s every s : !x -> !x
  %3 = tpc.roll %x dim 1 from -4 every 4 : !x -> !x
  return %1, %2, %3 : !x, !x, !x
}
