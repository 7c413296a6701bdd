// A stage begins within a layer only if this makes the slowest stage more than 5% faster.
// RUN: tpc-opt %s --tpc-split-stages --split-input-file | FileCheck %s

// Three layers in two stages.
// CHECK-LABEL: module @three
// CHECK: func.func private @layer(
// Each stage has the constants and weight slices that it needs, and its own results.
// CHECK: func.func private @layer_part_0(%[[A:.*]]: tensor<64x32xf32>, %{{.*}}: tensor<32x32xf32>, %[[BIAS:.*]]: tensor<32xf32>) -> tensor<64x32xf32> attributes {tpc.layer_part}
// CHECK-NOT: gelu
// CHECK: tpc.softmax
// CHECK: %[[SUM:.*]] = tpc.add %[[A]],
// CHECK: return %[[SUM]]
// CHECK: func.func private @layer_part_1(%[[A:.*]]: tensor<64x32xf32>, %{{.*}}: tensor<32x32xf32>, %{{.*}}: tensor<32xf32>) -> tensor<64x32xf32> attributes {tpc.layer_part}
// CHECK: tpc.gelu
// CHECK: tpc.add %[[A]],
// CHECK-LABEL: func.func private @stage_0
// CHECK: call @layer(
// CHECK: %[[LIVE:.*]] = call @layer_part_0({{%[^,]*, %[^,]*, %[^,]*}}) :
// CHECK-NEXT: return %[[LIVE]] :
// CHECK: func.func private @stage_1(%[[X:.*]]: tensor<64x32xf32>)
// CHECK: call @layer_part_1(%[[X]], %{{[^,]*}}, %{{[^,]*}}) :
// CHECK: call @layer(
module @three attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<32x32xf32>
  tpc.weight @b in "w" at 4096 : tensor<32x32xf32>
  tpc.weight @c in "w" at 8192 : tensor<32xf32>
  func.func private @layer(%x: tensor<64x32xf32>, %a: tensor<32x32xf32>, %b: tensor<32x32xf32>, %c: tensor<32xf32>) -> tensor<64x32xf32> attributes {tpc.layer} {
    %bias = tpc.neg %c : tensor<32xf32> -> tensor<32xf32>
    %p = tpc.matmul %x, %a : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    %s = tpc.softmax %p dim 1 : tensor<64x32xf32> -> tensor<64x32xf32>
    %t = tpc.add %s, %bias : tensor<64x32xf32>, tensor<32xf32> -> tensor<64x32xf32>
    %y = tpc.add %x, %t : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
    %q = tpc.matmul %y, %b : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    %g = tpc.gelu tanh %q : tensor<64x32xf32> -> tensor<64x32xf32>
    %h = tpc.add %g, %bias : tensor<64x32xf32>, tensor<32xf32> -> tensor<64x32xf32>
    %z = tpc.add %y, %h : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
    return %z : tensor<64x32xf32>
  }
  func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
    %a = tpc.parameter @a : tensor<32x32xf32>
    %b = tpc.parameter @b : tensor<32x32xf32>
    %c = tpc.parameter @c : tensor<32xf32>
    %0 = call @layer(%x, %a, %b, %c) : (tensor<64x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    %1 = call @layer(%0, %a, %b, %c) : (tensor<64x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    %2 = call @layer(%1, %a, %b, %c) : (tensor<64x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
    return %2 : tensor<64x32xf32>
  }
}

// -----

// Two stages divide the layers evenly, so layers stay whole. Functions of parts of layers, which
// the pass makes to compare costs, are removed.
// CHECK-LABEL: module @two
// CHECK-NOT: part
module @two attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<32x32xf32>
  func.func private @layer(%x: tensor<64x32xf32>, %a: tensor<32x32xf32>) -> tensor<64x32xf32> attributes {tpc.layer} {
    %p = tpc.matmul %x, %a : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    %y = tpc.add %x, %p : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
    %q = tpc.matmul %y, %a : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    %z = tpc.add %y, %q : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
    return %z : tensor<64x32xf32>
  }
  func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
    %a = tpc.parameter @a : tensor<32x32xf32>
    %0 = call @layer(%x, %a) : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    %1 = call @layer(%0, %a) : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    return %1 : tensor<64x32xf32>
  }
}
