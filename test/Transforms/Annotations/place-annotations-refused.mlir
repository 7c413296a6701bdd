// RUN: not tpc-opt %s --tpc-hold-annotations --cse --tpc-place-annotations --split-input-file 2>&1 | FileCheck %s

// The second is the first.
// CHECK: error: annotation of value 'again' (a.txt:1:1): it is not in the program that is partitioned, it has become part of a larger op; annotate a weight, or the result of that op
func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %y = tpc.gelu tanh %x : tensor<4x16xf32> -> tensor<4x16xf32>
  %z = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:1:1"} : tensor<4x16xf32> -> tensor<4x16xf32> loc("again")
  return %y, %z : tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

// CHECK: error: loc("other"): annotation of value 'other': the value has dimensions [3, 5], which are [5, 3] in the program that is partitioned: in another order, or not divided where a factor is to be split; annotate a weight, or another value
module attributes {tpc.held_annotations = [{entries = [#tpc.dim<3{tp}>, #tpc.dim<5>], name = "other"}]} {
  func.func @main(%x: tensor<5x3xf32>) -> tensor<5x3xf32> {
    %y = tpc.gelu tanh %x : tensor<5x3xf32> -> tensor<5x3xf32> loc(fused<0 : i64>["other"])
    return %y : tensor<5x3xf32>
  }
}

// -----

// Half of each of two eighths is no factor of 4 and none of 4.
// CHECK: error: loc("strided"): annotation of value 'strided': the value has dimensions [2, 8], which are [4, 4] in the program that is partitioned: in another order, or not divided where a factor is to be split; annotate a weight, or another value
module attributes {tpc.held_annotations = [{entries = [#tpc.dim<2 * 8{tp}>], name = "strided"}]} {
  func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = tpc.gelu tanh %x : tensor<4x4xf32> -> tensor<4x4xf32> loc(fused<0 : i64>["strided"])
    return %y : tensor<4x4xf32>
  }
}

// -----

// CHECK: error: {{.*}}pipeline stage of 'again': it is not in the program that is partitioned, it has become part of a larger op; annotate that op
func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %y = tpc.gelu tanh %x : tensor<4x16xf32> -> tensor<4x16xf32>
  %z = tpc.gelu tanh %x {tpc.pipeline_stage = 1} : tensor<4x16xf32> -> tensor<4x16xf32> loc("again")
  return %y, %z : tensor<4x16xf32>, tensor<4x16xf32>
}
