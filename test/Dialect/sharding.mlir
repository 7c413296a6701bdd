// RUN: tpc-opt %s | tpc-opt | FileCheck %s

// CHECK: tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<2*4{tp}>]} : tensor<16x8xf32>
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<2 * 4{tp}>]} : tensor<16x8xf32>
// CHECK: tpc.sharding = [#tpc.dim<batch{dp}>, unit]
func.func @main(%x: tensor<?x16xf32, #tpc.dist<[batch, 16]>> {tpc.sharding = [#tpc.dim<batch{dp}>, unit]}) -> tensor<?x16xf32, #tpc.dist<[batch, 16]>> {
  // CHECK: tpc.gelu {{.*}} {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<16{tp, dp}>]}
  %y = tpc.gelu tanh %x {tpc.sharding = [#tpc.dim<batch>, #tpc.dim<16{tp, dp}>]} : tensor<?x16xf32, #tpc.dist<[batch, 16]>> -> tensor<?x16xf32, #tpc.dist<[batch, 16]>>
  return %y : tensor<?x16xf32, #tpc.dist<[batch, 16]>>
}
