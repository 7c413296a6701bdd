// RUN: tpc-opt %s --tpc-raise-rolls --tpc-normalize-tokens --cse | FileCheck %s

!x = tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
!rows = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>

// torch.roll as it is exported, here by -2, which is to the left.
// CHECK-LABEL: @roll
// CHECK-NEXT: %[[R:.*]] = tpc.roll %arg0 dim 1 from 2 every s
// CHECK-NEXT: return %[[R]]
func.func @roll(%x: !x) -> !x {
  %a = tpc.slice %x dim 1 from 2 : !x -> tensor<?x?x8xf32, #tpc.dist<[b, "s - 2", 8]>>
  %b = tpc.slice %x dim 1 from 0 : !x -> tensor<?x2x8xf32, #tpc.dist<[b, 2, 8]>>
  %r = tpc.concat %a, %b dim 1 : tensor<?x?x8xf32, #tpc.dist<[b, "s - 2", 8]>>, tensor<?x2x8xf32, #tpc.dist<[b, 2, 8]>> -> !x
  return %r : !x
}

// A shift to the right that may exceed the size. In this case, a slice of ONNX has all elements.
// CHECK-LABEL: @right
// CHECK: tpc.roll %arg0 dim 1 from "max({{.*}})" every s
func.func @right(%x: !x) -> !x {
  %a = tpc.slice %x dim 1 from "max(s - 3, 0)" : !x -> tensor<?x?x8xf32, #tpc.dist<[b, "s - max(s - 3, 0)", 8]>>
  %b = tpc.slice %x dim 1 from 0 : !x -> tensor<?x?x8xf32, #tpc.dist<[b, "max(s - 3, 0)", 8]>>
  %r = tpc.concat %a, %b dim 1 : tensor<?x?x8xf32, #tpc.dist<[b, "s - max(s - 3, 0)", 8]>>, tensor<?x?x8xf32, #tpc.dist<[b, "max(s - 3, 0)", 8]>> -> !x
  return %r : !x
}

// In a shift by zero, one slice is empty.
// CHECK-LABEL: @nothing
// CHECK-NEXT: return %arg0
func.func @nothing(%x: !x) -> !x {
  %b = tpc.slice %x dim 1 from 0 : !x -> tensor<?x0x8xf32, #tpc.dist<[b, 0, 8]>>
  %r = tpc.concat %x, %b dim 1 : !x, tensor<?x0x8xf32, #tpc.dist<[b, 0, 8]>> -> !x
  return %r : !x
}

// Shifts along the sequence, the batch and the width, all on merged rows.
// CHECK-LABEL: @rows
// CHECK-NEXT: %[[A:.*]] = tpc.roll %arg0 dim 0 from 1 every s
// CHECK-NEXT: %[[B:.*]] = tpc.roll %[[A]] dim 0 from s every "b*s"
// CHECK-NEXT: %[[C:.*]] = tpc.roll %[[B]] dim 1 from 3 every 8
// CHECK-NEXT: return %[[C]]
func.func @rows(%x: !rows) -> !rows {
  %0 = tpc.reshape %x : !rows -> !x
  %1 = tpc.roll %0 dim 1 from 1 every s : !x -> !x
  %2 = tpc.roll %1 dim 0 from 1 every b : !x -> !x
  %3 = tpc.roll %2 dim 2 from 3 every 8 : !x -> !x
  %4 = tpc.reshape %3 : !x -> !rows
  return %4 : !rows
}

// Not rolls: elements are missing; the slices are of two values, in another order, or of another
// dimension.
// CHECK-LABEL: @others
// CHECK-NOT: tpc.roll
func.func @others(%x: tensor<6x6xf32>, %y: tensor<6x6xf32>) -> (tensor<5x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>) {
  %a = tpc.slice %x dim 0 from 2 : tensor<6x6xf32> -> tensor<4x6xf32>
  %b = tpc.slice %x dim 0 from 0 : tensor<6x6xf32> -> tensor<1x6xf32>
  %c = tpc.slice %y dim 0 from 0 : tensor<6x6xf32> -> tensor<2x6xf32>
  %d = tpc.slice %x dim 0 from 0 : tensor<6x6xf32> -> tensor<2x6xf32>
  %e = tpc.slice %x dim 1 from 2 : tensor<6x6xf32> -> tensor<6x4xf32>
  %f = tpc.slice %x dim 1 from 1 : tensor<6x6xf32> -> tensor<6x2xf32>
  %0 = tpc.concat %a, %b dim 0 : tensor<4x6xf32>, tensor<1x6xf32> -> tensor<5x6xf32>
  %1 = tpc.concat %a, %c dim 0 : tensor<4x6xf32>, tensor<2x6xf32> -> tensor<6x6xf32>
  %2 = tpc.concat %d, %a dim 0 : tensor<2x6xf32>, tensor<4x6xf32> -> tensor<6x6xf32>
  %3 = tpc.concat %e, %f dim 1 : tensor<6x4xf32>, tensor<6x2xf32> -> tensor<6x6xf32>
  return %0, %1, %2, %3 : tensor<5x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>
}
