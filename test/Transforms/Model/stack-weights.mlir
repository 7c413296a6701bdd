// Concatenated weights become views of one weight, or a weight with parts. No elements are copied.
// RUN: tpc-opt %s --split-input-file --tpc-stack-weights | FileCheck %s

// CHECK: tpc.weight @a.stacked in "m.onnx" at 64 {tpc.parts = array<i64: 64, 300, 8>} : tensor<3x2x3xf32>
// CHECK-NOT: tpc.weight @b
// CHECK: tpc.weight @c
// CHECK: %[[P:.*]] = tpc.parameter @a.stacked view <1 {{\[}}[3 x 6], [2 x 1], [2 x 3]]> : tensor<3x2x2xf32>
// CHECK: %[[C:.*]] = tpc.parameter @c
// CHECK: return %[[P]], %[[C]]
tpc.weight @a in "m.onnx" at 64 : tensor<2x3xf32>
tpc.weight @b in "m.onnx" at 300 : tensor<2x3xf32>
tpc.weight @c in "m.onnx" at 8 : tensor<2x3xf32>
func.func @parts() -> (tensor<3x2x2xf32>, tensor<2x3xf32>) {
  %a = tpc.parameter @a view <1 [[1 x 1], [2 x 1], [2 x 3]]> : tensor<1x2x2xf32>
  %b = tpc.parameter @b view <1 [[1 x 1], [2 x 1], [2 x 3]]> : tensor<1x2x2xf32>
  %c = tpc.parameter @c view <1 [[1 x 1], [2 x 1], [2 x 3]]> : tensor<1x2x2xf32>
  %r = tpc.concat %a, %b, %c dim 0 : tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32> -> tensor<3x2x2xf32>
  %d = tpc.parameter @c : tensor<2x3xf32>
  return %r, %d : tensor<3x2x2xf32>, tensor<2x3xf32>
}

// -----

// Views of one weight need no new weight. Casts of the parts become one cast of the whole.
// CHECK: tpc.weight @a in "m.onnx" at 64 : tensor<2x3xf16>
// CHECK: %[[P:.*]] = tpc.parameter @a view <0 {{\[}}[2 x 3], [3 x 1]]> : tensor<2x3xf16>
// CHECK: %[[C:.*]] = tpc.cast %[[P]] : tensor<2x3xf16> -> tensor<2x3xf32>
// CHECK: return %[[C]]
tpc.weight @a in "m.onnx" at 64 : tensor<2x3xf16>
func.func @views() -> tensor<2x3xf32> {
  %a = tpc.parameter @a view <0 [[1 x 1], [3 x 1]]> : tensor<1x3xf16>
  %b = tpc.parameter @a view <3 [[1 x 1], [3 x 1]]> : tensor<1x3xf16>
  %c = tpc.cast %a : tensor<1x3xf16> -> tensor<1x3xf32>
  %d = tpc.cast %b : tensor<1x3xf16> -> tensor<1x3xf32>
  %r = tpc.concat %c, %d dim 0 : tensor<1x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// Weights in several files, or of different types, remain.
// CHECK: tpc.concat
tpc.weight @a in "m.onnx" at 64 : tensor<2x3xf32>
tpc.weight @b in "n.onnx" at 64 : tensor<2x3xf32>
func.func @files() -> tensor<2x2x3xf32> {
  %a = tpc.parameter @a view <0 [[1 x 1], [2 x 3], [3 x 1]]> : tensor<1x2x3xf32>
  %b = tpc.parameter @b view <0 [[1 x 1], [2 x 3], [3 x 1]]> : tensor<1x2x3xf32>
  %r = tpc.concat %a, %b dim 0 : tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<2x2x3xf32>
  return %r : tensor<2x2x3xf32>
}
