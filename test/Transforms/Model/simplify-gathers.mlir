// A gather by tuples of indices may be a gather of rows, a reshape, or neither.
// RUN: tpc-opt %s --tpc-simplify --split-input-file | FileCheck %s

// Tuples of one coordinate.
// CHECK-LABEL: @rows
// CHECK: %[[I:.*]] = tpc.reshape %arg1
// CHECK: tpc.gather %arg0, %[[I]] dim 0
// CHECK-NOT: tpc.gather_nd
func.func @rows(%x: tensor<4x6xf32>, %i: tensor<1x?x1xi64, #tpc.dist<[1, s, 1]>>) -> tensor<1x?x6xf32, #tpc.dist<[1, s, 6]>> {
  %0 = tpc.gather_nd %x, %i : tensor<4x6xf32>, tensor<1x?x1xi64, #tpc.dist<[1, s, 1]>> -> tensor<1x?x6xf32, #tpc.dist<[1, s, 6]>>
  return %0 : tensor<1x?x6xf32, #tpc.dist<[1, s, 6]>>
}

// -----

// GPT-J: torch.gather from a table that is repeated for each sequence, by positions that are
// repeated for each column.
// CHECK-LABEL: @torch_gather
// CHECK: %[[G:.*]] = tpc.gather %arg0, %arg1 dim 0 : tensor<64x4xf32>, tensor<?x?xi64, #tpc.dist<[b, s]>> -> tensor<?x?x4xf32
// CHECK: %[[T:.*]] = tpc.transpose %[[G]] [0, 2, 1]
// CHECK: return %[[T]]
func.func @torch_gather(%table: tensor<64x4xf32>, %ids: tensor<?x?xi64, #tpc.dist<[b, s]>>) -> tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>> {
  %0 = tpc.expand %table : tensor<64x4xf32> -> tensor<?x64x4xf32, #tpc.dist<[b, 64, 4]>>
  %1 = tpc.transpose %0 [0, 2, 1] : tensor<?x64x4xf32, #tpc.dist<[b, 64, 4]>> -> tensor<?x4x64xf32, #tpc.dist<[b, 4, 64]>>
  %2 = tpc.reshape %ids : tensor<?x?xi64, #tpc.dist<[b, s]>> -> tensor<?x1x?x1xi64, #tpc.dist<[b, 1, s, 1]>>
  %3 = tpc.expand %2 : tensor<?x1x?x1xi64, #tpc.dist<[b, 1, s, 1]>> -> tensor<?x4x?x1xi64, #tpc.dist<[b, 4, s, 1]>>
  %4 = tpc.gather_nd %1, %3 batch 2 : tensor<?x4x64xf32, #tpc.dist<[b, 4, 64]>>, tensor<?x4x?x1xi64, #tpc.dist<[b, 4, s, 1]>> -> tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>>
  return %4 : tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>>
}

// -----

// Positions come after a past. The table is half of the columns and 32 of the 64 rows of another.
// CHECK-LABEL: @counted
// CHECK-DAG: %[[P:.*]] = tpc.size "p + 2"
// CHECK-DAG: %[[I:.*]] = tpc.iota dim 0
// CHECK-DAG: %[[R:.*]] = tpc.add %[[I]], %[[P]]
// CHECK-DAG: %[[A:.*]] = tpc.slice %arg0 dim 0 from 0 : tensor<64x8xf32> -> tensor<32x8xf32>
// CHECK-DAG: %[[B:.*]] = tpc.slice %[[A]] dim 1 from 0 : tensor<32x8xf32> -> tensor<32x4xf32>
// CHECK: tpc.gather %[[B]], %[[R]] dim 0
func.func @counted(%table: tensor<64x8xf32>) -> tensor<4x?xf32, #tpc.dist<[4, s]>> {
  %a = tpc.slice %table dim 0 from 0 : tensor<64x8xf32> -> tensor<32x8xf32>
  %b = tpc.slice %a dim 1 from 0 : tensor<32x8xf32> -> tensor<32x4xf32>
  %data = tpc.transpose %b [1, 0] : tensor<32x4xf32> -> tensor<4x32xf32>
  %past = tpc.size "p + 2" : tensor<i64>
  %i = tpc.iota dim 1 : tensor<4x?x1xi64, #tpc.dist<[4, s, 1]>>
  %ids = tpc.add %i, %past : tensor<4x?x1xi64, #tpc.dist<[4, s, 1]>>, tensor<i64> -> tensor<4x?x1xi64, #tpc.dist<[4, s, 1]>>
  %0 = tpc.gather_nd %data, %ids batch 1 : tensor<4x32xf32>, tensor<4x?x1xi64, #tpc.dist<[4, s, 1]>> -> tensor<4x?xf32, #tpc.dist<[4, s]>>
  return %0 : tensor<4x?xf32, #tpc.dist<[4, s]>>
}

// -----

// Unchanged: each batch element picks from its own row; the indices are a sum; every second row is
// picked.
// CHECK-LABEL: @stays
// CHECK-COUNT-3: tpc.gather_nd
func.func @stays(%x: tensor<4x6xf32>, %i: tensor<4x2x1xi64>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<2xf32>) {
  %0 = tpc.gather_nd %x, %i batch 1 : tensor<4x6xf32>, tensor<4x2x1xi64> -> tensor<4x2xf32>
  %a = tpc.iota dim 0 : tensor<4x2x1xi64>
  %b = tpc.add %i, %a : tensor<4x2x1xi64>, tensor<4x2x1xi64> -> tensor<4x2x1xi64>
  %1 = tpc.gather_nd %x, %b batch 1 : tensor<4x6xf32>, tensor<4x2x1xi64> -> tensor<4x2xf32>
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %c = tpc.iota dim 0 : tensor<2x1xi64>
  %d = tpc.mul %c, %two : tensor<2x1xi64>, tensor<i64> -> tensor<2x1xi64>
  %y = tpc.slice %x dim 1 from 0 : tensor<4x6xf32> -> tensor<4x1xf32>
  %z = tpc.reshape %y : tensor<4x1xf32> -> tensor<4xf32>
  %2 = tpc.gather_nd %z, %d : tensor<4xf32>, tensor<2x1xi64> -> tensor<2xf32>
  return %0, %1, %2 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<2xf32>
}

// -----

// repeat_interleave(2) of torch.onnx has tuples of all positions in order. Some indices count from
// the end.
// CHECK-LABEL: @all_in_order
// CHECK: %[[R:.*]] = tpc.reshape %arg0 : tensor<2x2x?xf32, #tpc.dist<[2, 2, s]>> -> tensor<4x?xf32
// CHECK-NEXT: return %[[R]]
func.func @all_in_order(%x: tensor<2x2x?xf32, #tpc.dist<[2, 2, s]>>) -> tensor<4x?xf32, #tpc.dist<[4, s]>> {
  %i = tpc.constant dense<[[0, 0], [0, -1], [-1, 0], [1, 1]]> : tensor<4x2xi64> : tensor<4x2xi64>
  %0 = tpc.gather_nd %x, %i : tensor<2x2x?xf32, #tpc.dist<[2, 2, s]>>, tensor<4x2xi64> -> tensor<4x?xf32, #tpc.dist<[4, s]>>
  return %0 : tensor<4x?xf32, #tpc.dist<[4, s]>>
}

// -----

// Unchanged: another order; a subset; a list with a duplicate, because (1, -1) is (1, 1).
// CHECK-LABEL: @not_all_in_order
// CHECK-COUNT-3: tpc.gather_nd
func.func @not_all_in_order(%x: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) {
  %i = tpc.constant dense<[[0, 0], [1, 0], [0, 1], [1, 1]]> : tensor<4x2xi64> : tensor<4x2xi64>
  %j = tpc.constant dense<[[0, 0], [0, 1], [1, 0]]> : tensor<3x2xi64> : tensor<3x2xi64>
  %k = tpc.constant dense<[[0, 0], [1, -1], [1, 0], [1, 1]]> : tensor<4x2xi64> : tensor<4x2xi64>
  %0 = tpc.gather_nd %x, %i : tensor<2x2xf32>, tensor<4x2xi64> -> tensor<4xf32>
  %1 = tpc.gather_nd %x, %j : tensor<2x2xf32>, tensor<3x2xi64> -> tensor<3xf32>
  %2 = tpc.gather_nd %x, %k : tensor<2x2xf32>, tensor<4x2xi64> -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<3xf32>, tensor<4xf32>
}
