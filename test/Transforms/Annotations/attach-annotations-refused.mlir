// RUN: not tpc-opt %s --tpc-materialize-annotations --cse --tpc-attach-annotations --split-input-file 2>&1 | FileCheck %s

// No op uses the annotated value.
// CHECK: error: {{.*}}annotation of value 'part' (a.txt:1:1): it was fused into a larger op before partitioning; annotate a weight, or the result of that op
// CHECK: error: {{.*}}pipeline stage of 'other part': it was fused into a larger op before partitioning; annotate that op
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = tpc.gelu tanh %x : tensor<4x16xf32> -> tensor<4x16xf32>
  %z = tpc.exp %x {tpc.sharding = [unit, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:1:1"} : tensor<4x16xf32> -> tensor<4x16xf32> loc("part")
  %w = tpc.neg %z {tpc.pipeline_stage = 1} : tensor<4x16xf32> -> tensor<4x16xf32> loc("other part")
  return %y : tensor<4x16xf32>
}

// -----

// CHECK: error: {{.*}}annotation of value 'x again' (a.txt:1:1): it equals an input of the partitioned program; annotate the input
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  tpc.annotation %x "x again" {sharding = [unit, #tpc.dim<16{tp}>], source = "a.txt:1:1"} : tensor<4x16xf32>
  return %x : tensor<4x16xf32>
}

// -----

// CHECK: error: {{.*}}annotation of value 'b' (a.txt:2:1) is [tp, -], but it is the same value as 'a' (a.txt:1:1), which is annotated [-, tp]
func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %a = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<4>, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:1:1"} : tensor<4x16xf32> -> tensor<4x16xf32> loc("a")
  %b = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<4{tp}>, #tpc.dim<16>], tpc.sharding_source = "a.txt:2:1"} : tensor<4x16xf32> -> tensor<4x16xf32> loc("b")
  return %a, %b : tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

// CHECK: error: loc("y"): annotation of value 'other': the annotation is for dimensions [3, 8], but the value has [4, 6] in the partitioned program: in another order, or not divided where the annotation splits a factor; annotate a weight, or another value
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = tpc.gelu tanh %x : tensor<4x6xf32> -> tensor<4x6xf32> loc("y")
  %r = tpc.reshape %y : tensor<4x6xf32> -> tensor<3x8xf32>
  tpc.annotation %r "other" {sharding = [#tpc.dim<3{tp}>, #tpc.dim<8>]} : tensor<3x8xf32>
  return %y : tensor<4x6xf32>
}

// -----

// Half of each of two blocks of eight: this dimension has no such factors.
// CHECK: error: {{.*}}annotation of value 'strided': the annotation is for dimensions [2, 8], but the value has [4, 4] in the partitioned program: in another order, or not divided where the annotation splits a factor; annotate a weight, or another value
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = tpc.gelu tanh %x : tensor<4x4xf32> -> tensor<4x4xf32> loc("y")
  %r = tpc.reshape %y : tensor<4x4xf32> -> tensor<16xf32>
  tpc.annotation %r "strided" {sharding = [#tpc.dim<2 * 8{tp}>]} : tensor<16xf32>
  return %y : tensor<4x4xf32>
}
