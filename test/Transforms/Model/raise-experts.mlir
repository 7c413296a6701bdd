// Experts with gathered weights become tpc.moe, unless ids may be out of bounds: lookups report
// these.
// RUN: tpc-opt %s --split-input-file --tpc-raise-experts | FileCheck %s

// The ids of two experts of each of 6 tokens: the largest and the smallest score.
// CHECK-LABEL: @gated
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<6x8xf32>, %[[S:[a-z0-9]+]]: tensor<6x4xf32>, %[[G:[a-z0-9]+]]: tensor<6x2xf32>
// CHECK-DAG: %[[IDS:.*]] = tpc.concat
// CHECK-DAG: tpc.select {{.*}} -> tensor<6x2x4xf32>
// CHECK: %[[R:.*]] = tpc.reduce sum {{.*}} [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
// CHECK: %[[GATE:.*]] = tpc.slice %{{.*}} dim 1 from 0 : tensor<4x24x8xf32> -> tensor<4x12x8xf32>
// CHECK: %[[M:.*]] = tpc.moe silu %[[X]], %[[R]], {{.*}} gate %{{.*}} top_k 2
// CHECK-NOT: gather_nd
// CHECK: return %[[M]]
func.func @gated(%x: tensor<6x8xf32>, %scores: tensor<6x4xf32>, %gates: tensor<6x2xf32>,
                 %up: tensor<4x24x8xf32>, %down: tensor<4x8x12xf32>) -> tensor<6x8xf32> {
  %i = tpc.iota dim 1 : tensor<1x4xi64>
  %n = tpc.constant dense<4> : tensor<i64> : tensor<i64>
  %max = tpc.reduce max %scores [1] keep : tensor<6x4xf32> -> tensor<6x1xf32>
  %is = tpc.cmp eq %scores, %max : tensor<6x4xf32>, tensor<6x1xf32> -> tensor<6x4xi1>
  %c = tpc.select %is, %i, %n : tensor<6x4xi1>, tensor<1x4xi64>, tensor<i64> -> tensor<6x4xi64>
  %first = tpc.reduce min %c [1] keep : tensor<6x4xi64> -> tensor<6x1xi64>
  %d = tpc.select %is, %n, %i : tensor<6x4xi1>, tensor<i64>, tensor<1x4xi64> -> tensor<6x4xi64>
  %second = tpc.reduce min %d [1] keep : tensor<6x4xi64> -> tensor<6x1xi64>
  %both = tpc.concat %first, %second dim 1 : tensor<6x1xi64>, tensor<6x1xi64> -> tensor<6x2xi64>
  %ids = tpc.reshape %both : tensor<6x2xi64> -> tensor<12x1xi64>
  %x1 = tpc.reshape %x : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %x2 = tpc.expand %x1 : tensor<6x1x8xf32> -> tensor<6x2x8xf32>
  %rows = tpc.reshape %x2 : tensor<6x2x8xf32> -> tensor<12x8x1xf32>
  %w = tpc.gather_nd %up, %ids : tensor<4x24x8xf32>, tensor<12x1xi64> -> tensor<12x24x8xf32>
  %p = tpc.matmul %w, %rows : tensor<12x24x8xf32>, tensor<12x8x1xf32> -> tensor<12x24x1xf32>
  %q = tpc.reshape %p : tensor<12x24x1xf32> -> tensor<12x24xf32>
  %g = tpc.slice %q dim 1 from 0 : tensor<12x24xf32> -> tensor<12x12xf32>
  %a = tpc.silu %g : tensor<12x12xf32> -> tensor<12x12xf32>
  %u = tpc.slice %q dim 1 from 12 : tensor<12x24xf32> -> tensor<12x12xf32>
  %h = tpc.mul %a, %u : tensor<12x12xf32>, tensor<12x12xf32> -> tensor<12x12xf32>
  %h1 = tpc.reshape %h : tensor<12x12xf32> -> tensor<12x12x1xf32>
  %v = tpc.gather_nd %down, %ids : tensor<4x8x12xf32>, tensor<12x1xi64> -> tensor<12x8x12xf32>
  %y = tpc.matmul %v, %h1 : tensor<12x8x12xf32>, tensor<12x12x1xf32> -> tensor<12x8x1xf32>
  %y1 = tpc.reshape %y : tensor<12x8x1xf32> -> tensor<12x8xf32>
  %k = tpc.reshape %gates : tensor<6x2xf32> -> tensor<12x1xf32>
  %z = tpc.mul %y1, %k : tensor<12x8xf32>, tensor<12x1xf32> -> tensor<12x8xf32>
  %z1 = tpc.reshape %z : tensor<12x8xf32> -> tensor<6x2x8xf32>
  %r = tpc.reduce sum %z1 [1] : tensor<6x2x8xf32> -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

// One projection and a bias after the second matmul, which is added for each expert.
// CHECK-LABEL: @plain
// CHECK: %[[T:.*]] = tpc.transpose %{{.*}} [0, 2, 1] : tensor<4x8x12xf32> -> tensor<4x12x8xf32>
// CHECK: %[[M:.*]] = tpc.moe relu %{{.*}}, %[[R:.*]], %[[T]], %{{.*}} top_k 1 :
// CHECK: %[[B:.*]] = tpc.matmul %[[R]], %{{.*}} : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
// CHECK: tpc.add %[[M]], %[[B]]
func.func @plain(%x: tensor<6x8xf32>, %scores: tensor<6x4xf32>, %gates: tensor<6x1xf32>,
                 %up: tensor<4x8x12xf32>, %down: tensor<4x8x12xf32>, %bias: tensor<4x8xf32>) -> tensor<6x8xf32> {
  %i = tpc.iota dim 1 : tensor<1x4xi64>
  %n = tpc.constant dense<4> : tensor<i64> : tensor<i64>
  %max = tpc.reduce max %scores [1] keep : tensor<6x4xf32> -> tensor<6x1xf32>
  %is = tpc.cmp eq %scores, %max : tensor<6x4xf32>, tensor<6x1xf32> -> tensor<6x4xi1>
  %c = tpc.select %is, %i, %n : tensor<6x4xi1>, tensor<1x4xi64>, tensor<i64> -> tensor<6x4xi64>
  %ids = tpc.reduce min %c [1] keep : tensor<6x4xi64> -> tensor<6x1xi64>
  %x1 = tpc.reshape %x : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %x2 = tpc.expand %x1 : tensor<6x1x8xf32> -> tensor<6x1x8xf32>
  %w = tpc.gather_nd %up, %ids : tensor<4x8x12xf32>, tensor<6x1xi64> -> tensor<6x8x12xf32>
  %p = tpc.matmul %x2, %w : tensor<6x1x8xf32>, tensor<6x8x12xf32> -> tensor<6x1x12xf32>
  %q = tpc.reshape %p : tensor<6x1x12xf32> -> tensor<6x12xf32>
  %a = tpc.relu %q : tensor<6x12xf32> -> tensor<6x12xf32>
  %h1 = tpc.reshape %a : tensor<6x12xf32> -> tensor<6x12x1xf32>
  %v = tpc.gather_nd %down, %ids : tensor<4x8x12xf32>, tensor<6x1xi64> -> tensor<6x8x12xf32>
  %y = tpc.matmul %v, %h1 : tensor<6x8x12xf32>, tensor<6x12x1xf32> -> tensor<6x8x1xf32>
  %y1 = tpc.reshape %y : tensor<6x8x1xf32> -> tensor<6x8xf32>
  %b = tpc.gather_nd %bias, %ids : tensor<4x8xf32>, tensor<6x1xi64> -> tensor<6x8xf32>
  %s = tpc.add %y1, %b : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %z = tpc.mul %s, %gates : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  %z1 = tpc.reshape %z : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %r = tpc.reduce sum %z1 [1] : tensor<6x1x8xf32> -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

// Ids that are an input may be out of bounds, which a lookup reports.
// CHECK-LABEL: @ids
// CHECK-NOT: tpc.moe
// CHECK: tpc.gather_nd
func.func @ids(%x: tensor<6x8xf32>, %ids: tensor<6x1xi64>, %gates: tensor<6x1xf32>,
               %up: tensor<4x8x12xf32>, %down: tensor<4x8x12xf32>) -> tensor<6x8xf32> {
  %x1 = tpc.reshape %x : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %x2 = tpc.expand %x1 : tensor<6x1x8xf32> -> tensor<6x1x8xf32>
  %w = tpc.gather_nd %up, %ids : tensor<4x8x12xf32>, tensor<6x1xi64> -> tensor<6x8x12xf32>
  %p = tpc.matmul %x2, %w : tensor<6x1x8xf32>, tensor<6x8x12xf32> -> tensor<6x1x12xf32>
  %q = tpc.reshape %p : tensor<6x1x12xf32> -> tensor<6x12xf32>
  %a = tpc.relu %q : tensor<6x12xf32> -> tensor<6x12xf32>
  %h1 = tpc.reshape %a : tensor<6x12xf32> -> tensor<6x12x1xf32>
  %v = tpc.gather_nd %down, %ids : tensor<4x8x12xf32>, tensor<6x1xi64> -> tensor<6x8x12xf32>
  %y = tpc.matmul %v, %h1 : tensor<6x8x12xf32>, tensor<6x12x1xf32> -> tensor<6x8x1xf32>
  %y1 = tpc.reshape %y : tensor<6x8x1xf32> -> tensor<6x8xf32>
  %z = tpc.mul %y1, %gates : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  %z1 = tpc.reshape %z : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %r = tpc.reduce sum %z1 [1] : tensor<6x1x8xf32> -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

// Matrices of 16 bits are sliced and transposed before they are cast, so that experts can read
// parts of a parameter in 16 bits.
// CHECK-LABEL: @cast_last
// CHECK-DAG: %[[U:.*]] = tpc.slice %arg2 dim 1 from 12 : tensor<4x24x8xf16> -> tensor<4x12x8xf16>
// CHECK-DAG: %[[U1:.*]] = tpc.cast %[[U]] : tensor<4x12x8xf16> -> tensor<4x12x8xf32>
// CHECK-DAG: %[[G:.*]] = tpc.slice %arg2 dim 1 from 0 : tensor<4x24x8xf16> -> tensor<4x12x8xf16>
// CHECK-DAG: %[[G1:.*]] = tpc.cast %[[G]] : tensor<4x12x8xf16> -> tensor<4x12x8xf32>
// CHECK-DAG: %[[D:.*]] = tpc.transpose %arg3 [0, 2, 1] : tensor<4x12x8xf16> -> tensor<4x8x12xf16>
// CHECK-DAG: %[[D1:.*]] = tpc.cast %[[D]] : tensor<4x8x12xf16> -> tensor<4x8x12xf32>
// CHECK: tpc.moe silu %arg0, %arg1, %[[U1]], %[[D1]] gate %[[G1]] top_k 2
func.func @cast_last(%x: tensor<6x8xf32>, %routing: tensor<6x4xf32>, %up: tensor<4x24x8xf16>,
                     %down: tensor<4x12x8xf16>) -> tensor<6x8xf32> {
  %w = tpc.cast %up : tensor<4x24x8xf16> -> tensor<4x24x8xf32>
  %g = tpc.slice %w dim 1 from 0 : tensor<4x24x8xf32> -> tensor<4x12x8xf32>
  %u = tpc.slice %w dim 1 from 12 : tensor<4x24x8xf32> -> tensor<4x12x8xf32>
  %v = tpc.cast %down : tensor<4x12x8xf16> -> tensor<4x12x8xf32>
  %d = tpc.transpose %v [0, 2, 1] : tensor<4x12x8xf32> -> tensor<4x8x12xf32>
  %r = tpc.moe silu %x, %routing, %u, %d gate %g top_k 2 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> gate tensor<4x12x8xf32> -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

// Casts that are last already, and those that round.
// CHECK-LABEL: @other_casts
// CHECK: %[[U:.*]] = tpc.cast %arg2 : tensor<4x12x8xbf16> -> tensor<4x12x8xf32>
// CHECK: %[[D:.*]] = tpc.cast %arg3 : tensor<4x16x12xf64> -> tensor<4x16x12xf32>
// CHECK: %[[D1:.*]] = tpc.slice %[[D]] dim 1 from 8
// CHECK: tpc.moe relu %arg0, %arg1, %[[U]], %[[D1]] top_k 2
func.func @other_casts(%x: tensor<6x8xf32>, %routing: tensor<6x4xf32>, %up: tensor<4x12x8xbf16>,
                       %down: tensor<4x16x12xf64>) -> tensor<6x8xf32> {
  %u = tpc.cast %up : tensor<4x12x8xbf16> -> tensor<4x12x8xf32>
  %v = tpc.cast %down : tensor<4x16x12xf64> -> tensor<4x16x12xf32>
  %d = tpc.slice %v dim 1 from 8 : tensor<4x16x12xf32> -> tensor<4x8x12xf32>
  %r = tpc.moe relu %x, %routing, %u, %d top_k 2 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}
