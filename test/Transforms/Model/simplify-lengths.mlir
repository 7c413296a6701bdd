// If all sequences have a number of past tokens that follows from sizes, it becomes the offset of
// attention. Numbers that follow from data stay an operand.
// RUN: tpc-opt %s --tpc-simplify --split-input-file | FileCheck %s

#mask = #tpc.dist<[b, "p + s"]>
#x = #tpc.dist<[b, s, 2, 4]>
#keys = #tpc.dist<[b, "p + s", 2, 4]>
#n = #tpc.dist<[b]>

// The tokens of a mask of ones are counted.
// CHECK-LABEL: @same
// CHECK: tpc.attention causal %arg0, %arg1, %arg1 scale 1.000000e+00 offset p :
func.func @same(%q: tensor<?x?x2x4xf32, #x>, %k: tensor<?x?x2x4xf32, #keys>) -> tensor<?x?x2x4xf32, #x> {
  %one = tpc.constant dense<1> : tensor<i64> : tensor<i64>
  %zero = tpc.constant dense<0> : tensor<i64> : tensor<i64>
  %ones = tpc.expand %one : tensor<i64> -> tensor<?x?xi64, #mask>
  %count = tpc.reduce sum %ones [1] : tensor<?x?xi64, #mask> -> tensor<?xi64, #n>
  %s = tpc.size s : tensor<i64>
  %0 = tpc.sub %count, %s : tensor<?xi64, #n>, tensor<i64> -> tensor<?xi64, #n>
  %1 = tpc.max %0, %zero : tensor<?xi64, #n>, tensor<i64> -> tensor<?xi64, #n>
  %y = tpc.attention causal %q, %k, %k lengths %1 scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #n> -> tensor<?x?x2x4xf32, #x>
  return %y : tensor<?x?x2x4xf32, #x>
}

// -----

#mask = #tpc.dist<[b, "p + s"]>
#x = #tpc.dist<[b, s, 2, 4]>
#keys = #tpc.dist<[b, "p + s", 2, 4]>
#n = #tpc.dist<[b]>

// The mask is an input.
// CHECK-LABEL: @differ
// CHECK: %[[N:.*]] = tpc.max
// CHECK: tpc.attention causal %arg0, %arg1, %arg1 lengths %[[N]] scale
func.func @differ(%q: tensor<?x?x2x4xf32, #x>, %k: tensor<?x?x2x4xf32, #keys>, %mask: tensor<?x?xi64, #mask>) -> tensor<?x?x2x4xf32, #x> {
  %zero = tpc.constant dense<0> : tensor<i64> : tensor<i64>
  %count = tpc.reduce sum %mask [1] : tensor<?x?xi64, #mask> -> tensor<?xi64, #n>
  %s = tpc.size s : tensor<i64>
  %0 = tpc.sub %count, %s : tensor<?xi64, #n>, tensor<i64> -> tensor<?xi64, #n>
  %1 = tpc.max %0, %zero : tensor<?xi64, #n>, tensor<i64> -> tensor<?xi64, #n>
  %y = tpc.attention causal %q, %k, %k lengths %1 scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #keys>, tensor<?x?x2x4xf32, #keys> lengths tensor<?xi64, #n> -> tensor<?x?x2x4xf32, #x>
  return %y : tensor<?x?x2x4xf32, #x>
}

// -----

// The minimum depends on the position, so it does not follow from sizes.
// CHECK-LABEL: @positions
// CHECK: tpc.min
func.func @positions() -> tensor<?xi64, #tpc.dist<[s]>> {
  %three = tpc.constant dense<3> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[s]>>
  %0 = tpc.min %i, %three : tensor<?xi64, #tpc.dist<[s]>>, tensor<i64> -> tensor<?xi64, #tpc.dist<[s]>>
  return %0 : tensor<?xi64, #tpc.dist<[s]>>
}
