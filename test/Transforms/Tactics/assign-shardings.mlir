// In an MLP, the inner width is split, not the width of the input or the output.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2 | FileCheck %s

tpc.weight @w1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @b1 in "w" at 25600 : tensor<160xf32>
tpc.weight @w2 in "w" at 26240 : tensor<160x40xf32>
tpc.weight @b2 in "w" at 51840 : tensor<40xf32>

// CHECK: tpc.mesh = #tpc.mesh<tp = 2, cp = 1, ep = 1, dp = 1, pp = 1, mb = 1>
// CHECK-SAME: name = "tp"
// CHECK-SAME: kind = "all_reduce"
// CHECK-SAME: splits = ["160 over tp 2: fc1 (columns), fc2 (rows)"]
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[batch, 40]>>) -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> {
  // CHECK: tpc.parameter @w1 {tpc.split = [#tpc.dim<40>, #tpc.dim<160{tp}>]}
  %w1 = tpc.parameter @w1 : tensor<40x160xf32>
  %b1 = tpc.parameter @b1 : tensor<160xf32>
  %w2 = tpc.parameter @w2 : tensor<160x40xf32>
  // CHECK: tpc.parameter @b2 : tensor<40xf32>
  %b2 = tpc.parameter @b2 : tensor<40xf32>
  // CHECK: tpc.matmul %{{.*}} bias %{{.*}} {tpc.split = [#tpc.dim<batch>, #tpc.dim<160{tp}>, #tpc.dim<40>]}
  %h = tpc.matmul %x, %w1 bias %b1 : tensor<?x40xf32, #tpc.dist<[batch, 40]>>, tensor<40x160xf32> bias tensor<160xf32> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> loc("fc1")
  %g = tpc.gelu tanh %h : tensor<?x160xf32, #tpc.dist<[batch, 160]>> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>>
  // The bias is added once, after the reduction.
  // CHECK: %[[P:.*]] = tpc.matmul
  // CHECK-NOT: bias
  // CHECK-SAME: {tpc.split = [#tpc.dim<batch>, #tpc.dim<40>, #tpc.dim<160{tp}>]}
  // CHECK-NEXT: tpc.add %[[P]], %{{.*}} : 
  %y = tpc.matmul %g, %w2 bias %b2 : tensor<?x160xf32, #tpc.dist<[batch, 160]>>, tensor<160x40xf32> bias tensor<40xf32> -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> loc("fc2")
  return %y : tensor<?x40xf32, #tpc.dist<[batch, 40]>>
}
