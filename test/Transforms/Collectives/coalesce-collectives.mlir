// RUN: tpc-opt %s --tpc-localize --tpc-coalesce-collectives --split-input-file | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 4, cp = 2, pp = 1, mb = 1>} {

// CHECK-LABEL: @sums
// CHECK-NEXT: %[[J:.*]] = tpc.concat %arg0, %arg1 dim 1 {{.*}} -> tensor<4x5xf32, #tpc.dist<[4, 5], sum{tp}, local>>
// CHECK-NEXT: %[[R:.*]] = tpc.all_reduce %[[J]] over ["tp"]
// CHECK-NEXT: %[[A:.*]] = tpc.slice %[[R]] dim 1 from 0 {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: %[[B:.*]] = tpc.slice %[[R]] dim 1 from 2 {{.*}} -> tensor<4x3xf32>
// CHECK-DAG: tpc.exp %[[A]]
// CHECK-DAG: tpc.exp %[[B]]
func.func @sums(%x: tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>>, %y: tensor<4x3xf32, #tpc.dist<[4, 3], sum{tp}>>) -> (tensor<4x2xf32>, tensor<4x3xf32>) {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>> -> tensor<4x2xf32>
  %1 = tpc.exp %0 : tensor<4x2xf32> -> tensor<4x2xf32>
  %2 = tpc.all_reduce %y over ["tp"] : tensor<4x3xf32, #tpc.dist<[4, 3], sum{tp}>> -> tensor<4x3xf32>
  %3 = tpc.exp %2 : tensor<4x3xf32> -> tensor<4x3xf32>
  return %1, %3 : tensor<4x2xf32>, tensor<4x3xf32>
}

// Tensors of different shapes are flattened and concatenated: three all-reduces become one.
// CHECK-LABEL: @flat
// CHECK-COUNT-1: tpc.all_reduce
// CHECK-NOT: tpc.all_reduce
// CHECK: return
func.func @flat(%x: tensor<4x2xf32, #tpc.dist<[4, 2], max{tp}>>, %y: tensor<?xf32, #tpc.dist<[s], max{tp}>>, %z: tensor<f32, #tpc.dist<[], max{tp}>>) -> (tensor<4x2xf32>, tensor<?xf32, #tpc.dist<[s]>>, tensor<f32>) {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4x2xf32, #tpc.dist<[4, 2], max{tp}>> -> tensor<4x2xf32>
  %1 = tpc.all_reduce %y over ["tp"] : tensor<?xf32, #tpc.dist<[s], max{tp}>> -> tensor<?xf32, #tpc.dist<[s]>>
  %2 = tpc.all_reduce %z over ["tp"] : tensor<f32, #tpc.dist<[], max{tp}>> -> tensor<f32>
  return %0, %1, %2 : tensor<4x2xf32>, tensor<?xf32, #tpc.dist<[s]>>, tensor<f32>
}

// Shards of 20 elements and of 4 heads of 5 have different layouts, whether their sizes are equal
// or not.
// CHECK-LABEL: @layouts
// CHECK-COUNT-2: tpc.reduce_scatter
// CHECK: return
func.func @layouts(%x: tensor<2x20xf32, #tpc.dist<[2, 20], sum{tp}>>, %y: tensor<2x20xf32, #tpc.dist<[2, 20], sum{tp}>>) -> (tensor<2x20xf32, #tpc.dist<[2, 20{tp}]>>, tensor<2x20xf32, #tpc.dist<[2, 4{tp}*5]>>) {
  %0 = tpc.reduce_scatter %x over ["tp"] dim 1 : tensor<2x20xf32, #tpc.dist<[2, 20], sum{tp}>> -> tensor<2x20xf32, #tpc.dist<[2, 20{tp}]>>
  %1 = tpc.reduce_scatter %y over ["tp"] dim 1 : tensor<2x20xf32, #tpc.dist<[2, 20], sum{tp}>> -> tensor<2x20xf32, #tpc.dist<[2, 4{tp}*5]>>
  return %0, %1 : tensor<2x20xf32, #tpc.dist<[2, 20{tp}]>>, tensor<2x20xf32, #tpc.dist<[2, 4{tp}*5]>>
}

// CHECK-LABEL: @gathers
// CHECK-NEXT: %[[J:.*]] = tpc.concat %arg0, %arg1 dim 1
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %[[J]] over ["tp"] dim 0
// CHECK-NEXT: tpc.slice %[[G]] dim 1 from 0
// CHECK-NEXT: tpc.slice %[[G]] dim 1 from 2
// CHECK-NEXT: return
func.func @gathers(%x: tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>, %y: tensor<4x3xf32, #tpc.dist<[4{tp}, 3]>>) -> (tensor<4x2xf32>, tensor<4x3xf32>) {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>> -> tensor<4x2xf32>
  %1 = tpc.all_gather %y over ["tp"] dim 0 : tensor<4x3xf32, #tpc.dist<[4{tp}, 3]>> -> tensor<4x3xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<4x3xf32>
}

// CHECK-LABEL: @scatters
// CHECK-COUNT-1: tpc.reduce_scatter
// CHECK-NOT: tpc.reduce_scatter
// CHECK: return
func.func @scatters(%x: tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>>, %y: tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>>) -> (tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>, tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>) {
  %0 = tpc.reduce_scatter %x over ["tp"] dim 0 : tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>> -> tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>
  %1 = tpc.reduce_scatter %y over ["tp"] dim 0 : tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>> -> tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>
  return %0, %1 : tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>, tensor<4x2xf32, #tpc.dist<[4{tp}, 2]>>
}

// Users of the first collective move directly after the joined one. Later ops stay after them.
// CHECK-LABEL: @order
// CHECK: tpc.neg
// CHECK: tpc.all_reduce
// CHECK: tpc.slice
// CHECK: tpc.slice
// CHECK: tpc.relu
// CHECK: tpc.abs
// CHECK: tpc.exp
// CHECK: tpc.tanh
// CHECK-NEXT: return
func.func @order(%x: tensor<4xf32, #tpc.dist<[4], sum{tp}>>, %y: tensor<4xf32, #tpc.dist<[4], sum{tp}>>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4xf32, #tpc.dist<[4], sum{tp}>> -> tensor<4xf32>
  %1 = tpc.relu %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = tpc.abs %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = tpc.neg %y : tensor<4xf32, #tpc.dist<[4], sum{tp}>> -> tensor<4xf32, #tpc.dist<[4], sum{tp}>>
  %4 = tpc.all_reduce %3 over ["tp"] : tensor<4xf32, #tpc.dist<[4], sum{tp}>> -> tensor<4xf32>
  %5 = tpc.exp %4 : tensor<4xf32> -> tensor<4xf32>
  %6 = tpc.tanh %5 : tensor<4xf32> -> tensor<4xf32>
  return %2, %6 : tensor<4xf32>, tensor<4xf32>
}

// Collectives that cannot all be joined stay in place, with their users. Pairs of them are tried
// next.
// CHECK-LABEL: @apart
// CHECK-NEXT: tpc.all_reduce %arg0
// CHECK: tpc.reduce sum
// CHECK-NEXT: tpc.all_reduce
// CHECK-NEXT: tpc.all_reduce %arg1
// CHECK-NEXT: return
func.func @apart(%x: tensor<4xf32, #tpc.dist<[4], sum{tp}>>, %y: tensor<8x2xf32, #tpc.dist<[8{cp}, 2], sum{tp}>>) -> (tensor<f32>, tensor<8x2xf32, #tpc.dist<[8{cp}, 2]>>) {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4xf32, #tpc.dist<[4], sum{tp}>> -> tensor<4xf32>
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<4xf32, #tpc.dist<[4{tp}]>>
  %2 = tpc.reduce sum %1 [0] : tensor<4xf32, #tpc.dist<[4{tp}]>> -> tensor<f32, #tpc.dist<[], sum{tp}>>
  %3 = tpc.all_reduce %2 over ["tp"] : tensor<f32, #tpc.dist<[], sum{tp}>> -> tensor<f32>
  %4 = tpc.all_reduce %y over ["tp"] : tensor<8x2xf32, #tpc.dist<[8{cp}, 2], sum{tp}>> -> tensor<8x2xf32, #tpc.dist<[8{cp}, 2]>>
  return %3, %4 : tensor<f32>, tensor<8x2xf32, #tpc.dist<[8{cp}, 2]>>
}

// Two collectives are not joined if one depends on the other, or if their axes, kinds of reduction,
// dimensions or element types differ.
// CHECK-LABEL: @dependent
// CHECK: tpc.all_reduce %arg0
// CHECK: tpc.all_reduce %
// CHECK: return
func.func @dependent(%x: tensor<4xf32, #tpc.dist<[4], sum{tp}>>, %y: tensor<4xf32, #tpc.dist<[4{tp}]>>) -> tensor<f32> {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4xf32, #tpc.dist<[4], sum{tp}>> -> tensor<4xf32>
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : tensor<4xf32> -> tensor<4xf32, #tpc.dist<[4{tp}]>>
  %2 = tpc.mul %1, %y : tensor<4xf32, #tpc.dist<[4{tp}]>>, tensor<4xf32, #tpc.dist<[4{tp}]>> -> tensor<4xf32, #tpc.dist<[4{tp}]>>
  %3 = tpc.reduce sum %2 [0] : tensor<4xf32, #tpc.dist<[4{tp}]>> -> tensor<f32, #tpc.dist<[], sum{tp}>>
  %4 = tpc.all_reduce %3 over ["tp"] : tensor<f32, #tpc.dist<[], sum{tp}>> -> tensor<f32>
  return %4 : tensor<f32>
}
// CHECK-LABEL: @different
// CHECK-NOT: tpc.concat
// CHECK: return
func.func @different(%a: tensor<4xf32, #tpc.dist<[4], sum{tp}>>, %b: tensor<4xf32, #tpc.dist<[4], sum{cp}>>, %c: tensor<4xf32, #tpc.dist<[4], max{tp}>>,
    %d: tensor<4xf16, #tpc.dist<[4], sum{tp}>>, %e: tensor<4x4xf32, #tpc.dist<[4{tp}, 4]>>, %f: tensor<4x4xf32, #tpc.dist<[4, 4{tp}]>>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = tpc.all_reduce %a over ["tp"] : tensor<4xf32, #tpc.dist<[4], sum{tp}>> -> tensor<4xf32>
  %1 = tpc.all_reduce %b over ["cp"] : tensor<4xf32, #tpc.dist<[4], sum{cp}>> -> tensor<4xf32>
  %2 = tpc.all_reduce %c over ["tp"] : tensor<4xf32, #tpc.dist<[4], max{tp}>> -> tensor<4xf32>
  %3 = tpc.all_reduce %d over ["tp"] : tensor<4xf16, #tpc.dist<[4], sum{tp}>> -> tensor<4xf16>
  %4 = tpc.all_gather %e over ["tp"] dim 0 : tensor<4x4xf32, #tpc.dist<[4{tp}, 4]>> -> tensor<4x4xf32>
  %5 = tpc.all_gather %f over ["tp"] dim 1 : tensor<4x4xf32, #tpc.dist<[4, 4{tp}]>> -> tensor<4x4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// With zero latency, joining would save nothing and cost a copy.
module attributes {tpc.mesh = #tpc.mesh<tp = 4, pp = 1, mb = 1>, tpc.links = {intra_node = [0.0, 1.0e-9]}} {
// CHECK-LABEL: @large
// CHECK-COUNT-2: tpc.all_reduce
func.func @large(%x: tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>>, %y: tensor<4x3xf32, #tpc.dist<[4, 3], sum{tp}>>) -> (tensor<4x2xf32>, tensor<4x3xf32>) {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>> -> tensor<4x2xf32>
  %1 = tpc.all_reduce %y over ["tp"] : tensor<4x3xf32, #tpc.dist<[4, 3], sum{tp}>> -> tensor<4x3xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<4x3xf32>
}
}
