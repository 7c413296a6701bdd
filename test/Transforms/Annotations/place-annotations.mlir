// RUN: tpc-opt %s --tpc-hold-annotations --cse --tpc-place-annotations --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-hold-annotations --split-input-file | FileCheck %s --check-prefix=HELD

// HELD: tpc.held_annotations = [{entries = [#tpc.dim<batch{dp}>, #tpc.dim<16>], name = "act"}]
// HELD-NOT: tpc.sharding
// CHECK-NOT: tpc.held_annotations
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
  // CHECK: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch{dp}>, #tpc.dim<16>]}
  %y = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<batch{dp}>, #tpc.dim<16>]} : tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("act")
  return %y : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
}

// -----

// Dimensions may have been merged, or divided.
// CHECK-LABEL: @held
module @held attributes {tpc.held_annotations = [
    {entries = [#tpc.dim<batch{dp}>, #tpc.dim<sequence>, #tpc.dim<16{tp}>], name = "merged"},
    {entries = [#tpc.dim<batch>, "sequence", #tpc.dim<16{tp}>], name = "divided"}]} {
  func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>, %z: tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>)
      -> (tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>, tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>) {
    // CHECK: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch{dp}*sequence>, #tpc.dim<16{tp}>]}
    %y = tpc.gelu tanh %x : tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>> loc(fused<0 : i64>["merged"])
    // CHECK: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch>, unit, #tpc.dim<2{tp}>, #tpc.dim<8>]}
    %w = tpc.gelu tanh %z : tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>> -> tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>> loc(fused<1 : i64>["divided"])
    return %y, %w : tensor<?x16xf32, #tpc.dist<[batch * sequence, 16]>>, tensor<?x?x2x8xf32, #tpc.dist<[batch, sequence, 2, 8]>>
  }
}

// -----

// Factors of a dimension that is divided between them; and what an op says of its stage.
// HELD: tpc.held_annotations = [{entries = [#tpc.dim<batch>, #tpc.dim<2{tp}*8>], name = "act", stage = 1 : i64}]
// CHECK-LABEL: @factors
module @factors {
  func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>>) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
    // CHECK: tpc.gelu {{.*}} {tpc.pipeline_stage = 1 : i64, tpc.sharding = [#tpc.dim<batch>, #tpc.dim<2{tp}*8>]}
    %y = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<2{tp} * 8>], tpc.pipeline_stage = 1} : tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> loc("act")
    return %y : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
  }
}
