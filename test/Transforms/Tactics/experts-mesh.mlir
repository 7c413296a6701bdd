// Experts over some of the ranks of tp, and over replicas. The axes of the grid are the atoms of
// the dense grid and the grid of experts; the inner width of experts is split over the rest of tp.
// RUN: tpc-opt %s "--tpc-assign-shardings=shard=tp4,ep2,etp2" | FileCheck %s --check-prefixes=CHECK,TP
// RUN: tpc-opt %s "--tpc-assign-shardings=shard=tp4,ep4,etp2,dp4" | FileCheck %s --check-prefixes=CHECK,DP
// RUN: tpc-opt %s "--tpc-assign-shardings=shard=tp2,ep2,etp1" | FileCheck %s --check-prefix=ALL
// RUN: tpc-opt %s "--tpc-assign-shardings=shard=tp4,ep4,etp2,dp4" --tpc-insert-reshards --tpc-lower-reshards | FileCheck %s --check-prefix=MOVES
// RUN: not tpc-opt %s "--tpc-assign-shardings=shard=tp6,ep2,etp4" 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: etp4 does not divide tp6, and the ranks that split an expert are ranks of tp; the nearest that fits is tp6,ep2,etp3

tpc.weight @first in "w" at 0 : tensor<8x8xf32>
tpc.weight @second in "w" at 256 : tensor<8x8xf32>
tpc.weight @up in "w" at 512 : tensor<4x12x8xf32>
tpc.weight @down in "w" at 2048 : tensor<4x8x12xf32>

// TP: tpc.mesh = #tpc.mesh<atoms = [tp_etp = 2, tp_ep = 2, cp = 1, dp = 1, pp = 1], views = {ep = [tp_ep], etp = [tp_etp], tp = [tp_etp, tp_ep]}, mb = 1>
// TP-SAME: name = "ep"
// TP-SAME: splits = ["experts 4 over ep 2 (at most 2 on a rank): {{[^"]*}} (experts)"]
// TP-SAME: "12 over etp 2: {{[^"]*}} (inner width of experts)"
// DP: tpc.mesh = #tpc.mesh<atoms = [tp_etp = 2, tp_ep = 2, cp = 1, dp_ep = 2, dp_edp = 2, pp = 1], views = {dp = [dp_ep, dp_edp], edp = [cp, dp_edp], ep = [tp_ep, dp_ep], etp = [tp_etp], tp = [tp_etp, tp_ep]}, mb = 1>
// ALL: tpc.mesh = #tpc.mesh<atoms = [tp_ep = 2, cp = 1, dp = 1, pp = 1], views = {ep = [tp_ep], etp = [], tp = [tp_ep]}, mb = 1>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[tokens, 8]>>, %r: tensor<?x4xf32, #tpc.dist<[tokens, 4]>>) -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>> {
  // CHECK: tpc.parameter @first {tpc.split = [#tpc.dim<8>, #tpc.dim<8{tp_ep, tp_etp}>]}
  // ALL: tpc.parameter @first {tpc.split = [#tpc.dim<8>, #tpc.dim<8{tp_ep}>]}
  %first = tpc.parameter @first : tensor<8x8xf32>
  %second = tpc.parameter @second : tensor<8x8xf32>
  // TP: tpc.parameter @up {tpc.split = [#tpc.dim<4{tp_ep}>, #tpc.dim<12{tp_etp}>, #tpc.dim<8>]}
  // DP: tpc.parameter @up {tpc.split = [#tpc.dim<4{dp_ep, tp_ep}>, #tpc.dim<12{tp_etp}>, #tpc.dim<8>]}
  // ALL: tpc.parameter @up {tpc.split = [#tpc.dim<4{tp_ep}>, #tpc.dim<12>, #tpc.dim<8>]}
  %up = tpc.parameter @up : tensor<4x12x8xf32>
  %down = tpc.parameter @down : tensor<4x8x12xf32>
  // DP: tpc.matmul {{.*}}#tpc.dim<tokens{dp_edp, dp_ep}>
  // MOVES: tpc.all_reduce {{.*}} over ["tp_ep", "tp_etp"]
  // MOVES: tpc.all_gather {{.*}} over ["dp_ep"] dim 0
  // MOVES: tpc.moe
  // MOVES: tpc.all_reduce {{.*}} over ["dp_ep", "tp_ep", "tp_etp"]
  %h = tpc.matmul %x, %first : tensor<?x8xf32, #tpc.dist<[tokens, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>> loc("first")
  %g = tpc.gelu tanh %h : tensor<?x8xf32, #tpc.dist<[tokens, 8]>> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
  %y = tpc.matmul %g, %second : tensor<?x8xf32, #tpc.dist<[tokens, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>> loc("second")
  // DP: tpc.moe {{.*}} {tpc.split = [#tpc.dim<tokens{dp_edp}>, {{.*}}#tpc.dim<4{dp_ep, tp_ep}>, #tpc.dim<12{tp_etp}>]}
  %z = tpc.moe silu %y, %r, %up, %down top_k 2 : tensor<?x8xf32, #tpc.dist<[tokens, 8]>>, tensor<?x4xf32, #tpc.dist<[tokens, 4]>>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<?x8xf32, #tpc.dist<[tokens, 8]>> loc("moe")
  return %z : tensor<?x8xf32, #tpc.dist<[tokens, 8]>>
}
