// RUN: tpc-opt %s --tpc-normalize-tokens --cse | FileCheck %s

!x = tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
!y = tensor<?x?x6xf32, #tpc.dist<[b, s, 6]>>
tpc.weight @w in "w.bin" at 0 : tensor<8x6xf32>
tpc.weight @v in "w.bin" at 192 : tensor<6x8xf32>
tpc.weight @g in "w.bin" at 384 : tensor<8xf32>
tpc.weight @table in "w.bin" at 416 : tensor<100x8xf32>
tpc.weight @positions in "w.bin" at 3616 : tensor<16x8xf32>

// A block on [b, s, h] becomes one on rows [b*s, h]. Reshapes stay at its ends.
// CHECK-LABEL: @block
// CHECK: %[[R:.*]] = tpc.reshape %arg0 {{.*}} -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
// CHECK-NEXT: %[[N:.*]] = tpc.rms_norm %[[R]]
// CHECK-NEXT: %[[U:.*]] = tpc.matmul %[[N]]
// CHECK-NEXT: %[[A:.*]] = tpc.silu %[[U]]
// CHECK-NEXT: %[[D:.*]] = tpc.matmul %[[A]]
// CHECK-NEXT: %[[S:.*]] = tpc.add %[[R]], %[[D]]
// CHECK-NEXT: %[[O:.*]] = tpc.reshape %[[S]]
// CHECK-NEXT: return %[[O]]
func.func @block(%x: !x) -> !x {
  %g = tpc.parameter @g : tensor<8xf32>
  %w = tpc.parameter @w : tensor<8x6xf32>
  %v = tpc.parameter @v : tensor<6x8xf32>
  %0 = tpc.rms_norm %x, %g epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %1 = tpc.matmul %0, %w : !x, tensor<8x6xf32> -> !y
  %2 = tpc.silu %1 : !y -> !y
  %3 = tpc.matmul %2, %v : !y, tensor<6x8xf32> -> !x
  %4 = tpc.add %x, %3 : !x, !x -> !x
  return %4 : !x
}

// Positions are equal in all sequences. Their ids are broadcast before the lookup, instead of the
// embedding after it.
// CHECK-LABEL: @embedding
// CHECK-DAG: %[[IDS:.*]] = tpc.reshape %arg0 {{.*}} -> tensor<?xi64, #tpc.dist<[b*s]>>
// CHECK-DAG: %[[I:.*]] = tpc.iota dim 1 : tensor<?x?xi64, #tpc.dist<[b, s]>>
// CHECK-DAG: %[[P:.*]] = tpc.reshape %[[I]] {{.*}} -> tensor<?xi64, #tpc.dist<[b*s]>>
// CHECK-DAG: %[[A:.*]] = tpc.embedding %{{.*}}, %[[IDS]]
// CHECK-DAG: %[[B:.*]] = tpc.embedding %{{.*}}, %[[P]]
// CHECK: %[[S:.*]] = tpc.add %[[A]], %[[B]] : {{.*}} -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
func.func @embedding(%ids: tensor<?x?xi64, #tpc.dist<[b, s]>>) -> !x {
  %t = tpc.parameter @table : tensor<100x8xf32>
  %p = tpc.parameter @positions : tensor<16x8xf32>
  %i = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[s]>>
  %i1 = tpc.reshape %i : tensor<?xi64, #tpc.dist<[s]>> -> tensor<1x?xi64, #tpc.dist<[1, s]>>
  %0 = tpc.gather %t, %ids dim 0 : tensor<100x8xf32>, tensor<?x?xi64, #tpc.dist<[b, s]>> -> !x
  %1 = tpc.embedding %p, %i1 : tensor<16x8xf32>, tensor<1x?xi64, #tpc.dist<[1, s]>> -> tensor<1x?x8xf32, #tpc.dist<[1, s, 8]>>
  %2 = tpc.add %0, %1 : !x, tensor<1x?x8xf32, #tpc.dist<[1, s, 8]>> -> !x
  return %2 : !x
}

// Norms of single heads are unchanged, and so are matmuls of two activations. A gather that does
// not select table rows is not an embedding.
// CHECK-LABEL: @stays
// CHECK: tpc.rms_norm %arg0, %{{.*}} : tensor<2x5x3x8xf32>
// CHECK: tpc.matmul %arg1, %arg2 : tensor<2x4x5xf32>
// CHECK: tpc.gather
// CHECK-NOT: tpc.reshape
func.func @stays(%h: tensor<2x5x3x8xf32>, %a: tensor<2x4x5xf32>, %b: tensor<2x5x6xf32>, %i: tensor<3xi64>) -> (tensor<2x5x3x8xf32>, tensor<2x4x6xf32>, tensor<2x3x5xf32>) {
  %g = tpc.parameter @g : tensor<8xf32>
  %0 = tpc.rms_norm %h, %g epsilon 1.0e-5 : tensor<2x5x3x8xf32>, tensor<8xf32> -> tensor<2x5x3x8xf32>
  %1 = tpc.matmul %a, %b : tensor<2x4x5xf32>, tensor<2x5x6xf32> -> tensor<2x4x6xf32>
  %2 = tpc.gather %a, %i dim 1 : tensor<2x4x5xf32>, tensor<3xi64> -> tensor<2x3x5xf32>
  return %0, %1, %2 : tensor<2x5x3x8xf32>, tensor<2x4x6xf32>, tensor<2x3x5xf32>
}

// A single token also becomes a row, although batch and sequence both have size 1.
// CHECK-LABEL: @single
// CHECK: %[[P:.*]] = tpc.matmul %{{.*}}, %{{.*}} : tensor<1x8xf32>, tensor<8x6xf32> -> tensor<1x6xf32>
// CHECK: %[[A:.*]] = tpc.add %[[P]], %{{.*}} : tensor<1x6xf32>, tensor<6xf32> -> tensor<1x6xf32>
// CHECK: %[[R:.*]] = tpc.relu %[[A]] : tensor<1x6xf32> -> tensor<1x6xf32>
// CHECK: tpc.reshape %[[R]] : tensor<1x6xf32> -> tensor<1x1x6xf32>
func.func @single(%x: tensor<1x1x8xf32>, %b: tensor<6xf32>) -> tensor<1x1x6xf32> {
  %w = tpc.parameter @w : tensor<8x6xf32>
  %0 = tpc.matmul %x, %w : tensor<1x1x8xf32>, tensor<8x6xf32> -> tensor<1x1x6xf32>
  %1 = tpc.add %0, %b : tensor<1x1x6xf32>, tensor<6xf32> -> tensor<1x1x6xf32>
  %2 = tpc.relu %1 : tensor<1x1x6xf32> -> tensor<1x1x6xf32>
  return %2 : tensor<1x1x6xf32>
}
