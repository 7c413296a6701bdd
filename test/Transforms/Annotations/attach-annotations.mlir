// RUN: tpc-opt %s --tpc-materialize-annotations --cse --tpc-attach-annotations --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-materialize-annotations --split-input-file | FileCheck %s --check-prefix=HELD

// HELD-NOT: tpc.sharding
// HELD: tpc.annotation %{{.*}} "act" {sharding = [#tpc.dim<batch{dp}>, #tpc.dim<16>], source = "a.txt:1:1"} : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
// HELD-NEXT: return
// CHECK-NOT: tpc.annotation
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
  // CHECK: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch{dp}>, #tpc.dim<16>], tpc.sharding_source = "a.txt:1:1"}
  %y = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<batch{dp}>, #tpc.dim<16>], tpc.sharding_source = "a.txt:1:1"} : tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("act")
  return %y : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
}

// -----

// Earlier passes may have merged, divided or permuted the annotated dimensions: the annotation
// moves to the value that an op computes. Ops that only the annotation uses are removed.
// CHECK-LABEL: @moved
func.func @moved(%x: tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>, %z: tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>, %u: tensor<4x6xf32>)
    -> (tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>, tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>, tensor<4x6xf32>) {
  // CHECK: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch{dp}*sequence>, #tpc.dim<16{tp}>]}
  %y = tpc.gelu tanh %x : tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>
  %merged = tpc.reshape %y : tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>> -> tensor<?x?x16xf32, #tpc.dist<[batch, sequence, 16]>>
  tpc.annotation %merged "merged" {sharding = [#tpc.dim<batch{dp}>, #tpc.dim<sequence>, #tpc.dim<16{tp}>]} : tensor<?x?x16xf32, #tpc.dist<[batch, sequence, 16]>>
  // CHECK-NEXT: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch>, unit, #tpc.dim<2{tp}>, #tpc.dim<8>]}
  %w = tpc.gelu tanh %z : tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>> -> tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>
  %divided = tpc.reshape %w : tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>> -> tensor<?x?x16xf32, #tpc.dist<[batch, sequence, 16]>>
  tpc.annotation %divided "divided" {sharding = [#tpc.dim<batch>, unit, #tpc.dim<16{tp}>]} : tensor<?x?x16xf32, #tpc.dist<[batch, sequence, 16]>>
  // CHECK-NEXT: tpc.gelu {{.*}} {tpc.sharding = [unit, #tpc.dim<3{tp}*2>]}
  %v = tpc.gelu tanh %u : tensor<4x6xf32> -> tensor<4x6xf32>
  %divide = tpc.reshape %v : tensor<4x6xf32> -> tensor<4x3x2xf32>
  %permuted = tpc.transpose %divide [1, 2, 0] : tensor<4x3x2xf32> -> tensor<3x2x4xf32>
  tpc.annotation %permuted "permuted" {sharding = [#tpc.dim<3{tp}>, unit, unit]} : tensor<3x2x4xf32>
  // CHECK-NEXT: return
  return %y, %w, %v : tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>, tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>, tensor<4x6xf32>
}

// -----

// The model needs the reshape, so the annotation stays on the reshaped value.
// CHECK-LABEL: @needed
func.func @needed(%x: tensor<4x6xf32>) -> tensor<4x3x2xf32> {
  // CHECK-NOT: tpc.gelu {{.*}}tpc.sharding
  %y = tpc.gelu tanh %x : tensor<4x6xf32> -> tensor<4x6xf32>
  // CHECK: tpc.reshape {{.*}} {tpc.sharding = [unit, #tpc.dim<3{tp}>, unit]}
  %z = tpc.reshape %y : tensor<4x6xf32> -> tensor<4x3x2xf32>
  tpc.annotation %z "z" {sharding = [unit, #tpc.dim<3{tp}>, unit]} : tensor<4x3x2xf32>
  return %z : tensor<4x3x2xf32>
}

// -----

// Equal values are merged, so the annotation of the second applies to the first. Equal annotations
// are merged too.
// CHECK-LABEL: @again
func.func @again(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {
  // CHECK: tpc.gelu {{.*}} {tpc.pipeline_stage = 1 : i64, tpc.sharding = [unit, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:1:1"}
  // CHECK-NEXT: return
  %y = tpc.gelu tanh %x : tensor<4x16xf32> -> tensor<4x16xf32>
  %z = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:1:1"} : tensor<4x16xf32> -> tensor<4x16xf32> loc("again")
  %w = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:2:1", tpc.pipeline_stage = 1} : tensor<4x16xf32> -> tensor<4x16xf32> loc("once more")
  return %y, %z, %w : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

// The annotated factors are separate dimensions of the op's value. An annotation also gives the
// op's stage. Calls are not replaced.
// HELD-LABEL: @factors
// HELD: call @f({{.*}}) {tpc.pipeline_stage = 2 : i64}
// HELD: tpc.annotation %{{.*}} "act" {sharding = [#tpc.dim<batch>, #tpc.dim<2{tp}*8>], stage = 1 : i64}
// CHECK-LABEL: @factors
module @factors {
  func.func private @f(tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>>
  func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
    // CHECK: tpc.gelu {{.*}} {tpc.pipeline_stage = 1 : i64, tpc.sharding = [#tpc.dim<batch>, #tpc.dim<2{tp}*8>]}
    %y = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<2{tp} * 8>], tpc.pipeline_stage = 1} : tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("act")
    %z = call @f(%y) {tpc.pipeline_stage = 2} : (tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>>
    return %z : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
  }
}

// -----

// The stage of a node applies to all ops created from it and its parts, but not to ops that other
// nodes also created.
// CHECK-LABEL: @nodes
module @nodes attributes {tpc.recorded_stages = [{node = "one", stage = 1}]} {
  func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
    // CHECK: tpc.neg %{{[^ ]*}} :
    %n = tpc.neg %x : tensor<4x16xf32> -> tensor<4x16xf32> loc("one")
    // CHECK: tpc.exp {{.*}} {tpc.pipeline_stage = 1 : i64, tpc.sharding = [unit, unit]}
    %e = tpc.exp %n : tensor<4x16xf32> -> tensor<4x16xf32> loc("one")
    // CHECK: tpc.gelu {{.*}} {tpc.pipeline_stage = 1 : i64}
    %y = tpc.gelu tanh %e : tensor<4x16xf32> -> tensor<4x16xf32> loc("one")
    // An annotation uses a value, but does not keep it alive.
    %r = tpc.reshape %e : tensor<4x16xf32> -> tensor<64xf32> loc("one")
    tpc.annotation %r "e" {sharding = [unit]} : tensor<64xf32>
    return %n, %y : tensor<4x16xf32>, tensor<4x16xf32>
  }
}
