// RUN: tpc-opt %s --tpc-lower-reshards=allow-reshard --split-input-file | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 2, cp = 2, dp = 3, pp = 1, mb = 1>} {

// CHECK-LABEL: @reduce
// CHECK: tpc.all_reduce %arg0 over ["tp"]
func.func @reduce(%x: tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>>) -> tensor<5x8xf32> {
  %y = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>> -> tensor<5x8xf32>
  return %y : tensor<5x8xf32>
}

// CHECK-LABEL: @scatter
// CHECK-NEXT: tpc.reduce_scatter %arg0 over ["tp"] dim 0
// CHECK-NEXT: return
func.func @scatter(%x: tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8], sum{tp}>>) -> tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>> {
  %y = tpc.reshard %x : tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8], sum{tp}>> -> tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>>
}

// The slice comes first, so that only a third of the bytes is reduced.
// CHECK-LABEL: @slice_first
// CHECK-NEXT: %[[S:.*]] = tpc.local_slice %arg0 over ["dp"] dim 0
// CHECK-NEXT: tpc.all_reduce %[[S]] over ["tp"]
// CHECK-NEXT: return
func.func @slice_first(%x: tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>>) -> tensor<5x8xf32, #tpc.dist<[5{dp}, 8]>> {
  %y = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>> -> tensor<5x8xf32, #tpc.dist<[5{dp}, 8]>>
  return %y : tensor<5x8xf32, #tpc.dist<[5{dp}, 8]>>
}

// CHECK-LABEL: @move
// CHECK-NEXT: tpc.all_to_all %arg0 over ["tp"] from 0 to 1
// CHECK-NEXT: return
func.func @move(%x: tensor<5x8xf32, #tpc.dist<[5{tp}, 8]>>) -> tensor<5x8xf32, #tpc.dist<[5, 8{tp}]>> {
  %y = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5{tp}, 8]>> -> tensor<5x8xf32, #tpc.dist<[5, 8{tp}]>>
  return %y : tensor<5x8xf32, #tpc.dist<[5, 8{tp}]>>
}

// Only the innermost split is gathered; the batch stays split.
// CHECK-LABEL: @inner
// CHECK-NEXT: tpc.all_gather %arg0 over ["tp"] dim 0
// CHECK-NEXT: return
func.func @inner(%x: tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>>) -> tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>> {
  %y = tpc.reshard %x : tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>> -> tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>>
}

// Four rows move from one rank to the other: 20 and 20 rows become 24 and 16.
// CHECK-LABEL: @restack
// CHECK-NEXT: tpc.collective_permute %arg0 over ["tp"] dim 0
// CHECK-NEXT: return
func.func @restack(%x: tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>>) -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>> {
  %y = tpc.reshard %x : tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>> -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
  return %y : tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
}

// The outer of two axes is removed. It becomes the inner one first, so that only a quarter of the
// value moves.
// CHECK-LABEL: @outer
// CHECK-NEXT: %[[P:.*]] = tpc.collective_permute %arg0 over ["tp", "cp"] dim 0
// CHECK-NEXT: tpc.all_gather %[[P]] over ["tp"] dim 0
// CHECK-NEXT: return
func.func @outer(%x: tensor<8xf32, #tpc.dist<[8{tp, cp}]>>) -> tensor<8xf32, #tpc.dist<[8{cp}]>> {
  %y = tpc.reshard %x : tensor<8xf32, #tpc.dist<[8{tp, cp}]>> -> tensor<8xf32, #tpc.dist<[8{cp}]>>
  return %y : tensor<8xf32, #tpc.dist<[8{cp}]>>
}

// The sum is reduced over one of its two axes.
// CHECK-LABEL: @one_of_two
// CHECK-NEXT: tpc.all_reduce %arg0 over ["cp"] {{.*}} -> tensor<8xf32, #tpc.dist<[8], max{tp}>>
// CHECK-NEXT: return
func.func @one_of_two(%x: tensor<8xf32, #tpc.dist<[8], max{tp, cp}>>) -> tensor<8xf32, #tpc.dist<[8], max{tp}>> {
  %y = tpc.reshard %x : tensor<8xf32, #tpc.dist<[8], max{tp, cp}>> -> tensor<8xf32, #tpc.dist<[8], max{tp}>>
  return %y : tensor<8xf32, #tpc.dist<[8], max{tp}>>
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 4, cp = 4, pp = 1, mb = 1>} {

// Some of each rank's 10 rows move to a neighbor.
// CHECK-LABEL: @around
// CHECK-NEXT: tpc.collective_permute %arg0 over ["tp"] dim 0
// CHECK-NEXT: return
func.func @around(%x: tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>>) -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>> {
  %y = tpc.reshard %x : tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>> -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
  return %y : tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
}

// One axis replaces another. It is added as the inner axis first, so that only a quarter is
// gathered.
// CHECK-LABEL: @park
// CHECK-NEXT: %[[S:.*]] = tpc.local_slice %arg0 over ["cp"] dim 0
// CHECK-NEXT: %[[P:.*]] = tpc.collective_permute %[[S]] over ["tp", "cp"] dim 0
// CHECK-NEXT: tpc.all_gather %[[P]] over ["tp"] dim 0
// CHECK-NEXT: return
func.func @park(%x: tensor<32x32xf32, #tpc.dist<[32{tp}, 32]>>) -> tensor<32x32xf32, #tpc.dist<[32{cp}, 32]>> {
  %y = tpc.reshard %x : tensor<32x32xf32, #tpc.dist<[32{tp}, 32]>> -> tensor<32x32xf32, #tpc.dist<[32{cp}, 32]>>
  return %y : tensor<32x32xf32, #tpc.dist<[32{cp}, 32]>>
}

// Two axes are swapped, or one moves and another is added. A rank keeps the elements that it
// already has.
// CHECK-LABEL: @swap
// CHECK-NEXT: tpc.exchange %arg0 over ["tp", "cp"] : {{.*}}[32{tp}, 32{cp}]{{.*}} -> {{.*}}[32{cp}, 32{tp}]
// CHECK-NEXT: tpc.exchange %arg1 over ["tp", "cp"] : {{.*}}[32{tp}, 32]{{.*}} -> {{.*}}[32{cp}, 32{tp}]
// CHECK-NEXT: return
func.func @swap(%x: tensor<32x32xf32, #tpc.dist<[32{tp}, 32{cp}]>>, %y: tensor<32x32xf32, #tpc.dist<[32{tp}, 32]>>) -> (tensor<32x32xf32, #tpc.dist<[32{cp}, 32{tp}]>>, tensor<32x32xf32, #tpc.dist<[32{cp}, 32{tp}]>>) {
  %0 = tpc.reshard %x : tensor<32x32xf32, #tpc.dist<[32{tp}, 32{cp}]>> -> tensor<32x32xf32, #tpc.dist<[32{cp}, 32{tp}]>>
  %1 = tpc.reshard %y : tensor<32x32xf32, #tpc.dist<[32{tp}, 32]>> -> tensor<32x32xf32, #tpc.dist<[32{cp}, 32{tp}]>>
  return %0, %1 : tensor<32x32xf32, #tpc.dist<[32{cp}, 32{tp}]>>, tensor<32x32xf32, #tpc.dist<[32{cp}, 32{tp}]>>
}

// Partial sums are reduced before any data moves.
// CHECK-LABEL: @reduce_before
// CHECK: tpc.reduce_scatter {{.*}} over ["tp"]
// CHECK: tpc.exchange
// CHECK-NEXT: return
func.func @reduce_before(%x: tensor<32x32xf32, #tpc.dist<[32{cp}, 32], sum{tp}>>) -> tensor<32x32xf32, #tpc.dist<[32, 32{cp, tp}]>> {
  %y = tpc.reshard %x : tensor<32x32xf32, #tpc.dist<[32{cp}, 32], sum{tp}>> -> tensor<32x32xf32, #tpc.dist<[32, 32{cp, tp}]>>
  return %y : tensor<32x32xf32, #tpc.dist<[32, 32{cp, tp}]>>
}

// A scatter over one axis reduces the size for the other reduction.
// CHECK-LABEL: @scatter_first
// CHECK-NEXT: %[[S:.*]] = tpc.reduce_scatter %arg0 over ["tp"] dim 0
// CHECK-NEXT: tpc.all_reduce %[[S]] over ["cp"]
// CHECK-NEXT: return
func.func @scatter_first(%x: tensor<32xf32, #tpc.dist<[32], sum{tp, cp}>>) -> tensor<32xf32, #tpc.dist<[32{tp}]>> {
  %y = tpc.reshard %x : tensor<32xf32, #tpc.dist<[32], sum{tp, cp}>> -> tensor<32xf32, #tpc.dist<[32{tp}]>>
  return %y : tensor<32xf32, #tpc.dist<[32{tp}]>>
}

// Two axes move to another dimension at once. Each rank keeps a sixteenth of its shard and receives
// its other 60 elements.
// CHECK-LABEL: @move_two
// CHECK-NEXT: tpc.exchange %arg0 over ["tp", "cp"] : {{.*}}[32{tp, cp}, 32]{{.*}} -> {{.*}}[32, 32{cp, tp}]
// CHECK-NEXT: return
func.func @move_two(%x: tensor<32x32xf32, #tpc.dist<[32{tp, cp}, 32]>>) -> tensor<32x32xf32, #tpc.dist<[32, 32{cp, tp}]>> {
  %y = tpc.reshard %x : tensor<32x32xf32, #tpc.dist<[32{tp, cp}, 32]>> -> tensor<32x32xf32, #tpc.dist<[32, 32{cp, tp}]>>
  return %y : tensor<32x32xf32, #tpc.dist<[32, 32{cp, tp}]>>
}

// The order of two axes changes. Each rank's shard moves to one other rank, or stays.
// CHECK-LABEL: @order
// CHECK-NEXT: tpc.collective_permute %arg0 over ["tp", "cp"] dim 0 : {{.*}}[32{tp, cp}]{{.*}} -> {{.*}}[32{cp, tp}]
// CHECK-NEXT: return
func.func @order(%x: tensor<32xf32, #tpc.dist<[32{tp, cp}]>>) -> tensor<32xf32, #tpc.dist<[32{cp, tp}]>> {
  %y = tpc.reshard %x : tensor<32xf32, #tpc.dist<[32{tp, cp}]>> -> tensor<32xf32, #tpc.dist<[32{cp, tp}]>>
  return %y : tensor<32xf32, #tpc.dist<[32{cp, tp}]>>
}

// A shift along a split dimension is a permute. A shift within unsplit blocks needs no
// communication.
// CHECK-LABEL: @shift
// CHECK-NEXT: %[[P:.*]] = tpc.collective_permute %arg0 over ["tp"] dim 0 from 1 every s : {{.*}}[(b{cp}*s){tp}, 8]
// CHECK-NEXT: tpc.roll %arg1 dim 0 from 1 every s
// CHECK-NEXT: return
func.func @shift(%x: tensor<?x8xf32, #tpc.dist<[(b{cp}*s){tp}, 8]>>, %y: tensor<?x8xf32, #tpc.dist<[b{cp}*s, 8]>>) -> (tensor<?x8xf32, #tpc.dist<[(b{cp}*s){tp}, 8]>>, tensor<?x8xf32, #tpc.dist<[b{cp}*s, 8]>>) {
  %0 = tpc.roll %x dim 0 from 1 every s : tensor<?x8xf32, #tpc.dist<[(b{cp}*s){tp}, 8]>> -> tensor<?x8xf32, #tpc.dist<[(b{cp}*s){tp}, 8]>>
  %1 = tpc.roll %y dim 0 from 1 every s : tensor<?x8xf32, #tpc.dist<[b{cp}*s, 8]>> -> tensor<?x8xf32, #tpc.dist<[b{cp}*s, 8]>>
  return %0, %1 : tensor<?x8xf32, #tpc.dist<[(b{cp}*s){tp}, 8]>>, tensor<?x8xf32, #tpc.dist<[b{cp}*s, 8]>>
}

// A rank's part of each run of 24 is not contiguous, so each rank gathers and shifts the whole
// dimension.
// CHECK-LABEL: @shift_whole
// CHECK-NEXT: %[[W:.*]] = tpc.all_gather %arg0 over ["tp"] dim 1
// CHECK-NEXT: %[[S:.*]] = tpc.roll %[[W]] dim 1 from 1 every 24 : {{.*}} -> tensor<?x24xf32, #tpc.dist<[b, 24]>>
// CHECK-NEXT: %[[R:.*]] = tpc.local_slice %[[S]] over ["tp"] dim 1
// CHECK-NEXT: return %[[R]]
func.func @shift_whole(%x: tensor<?x24xf32, #tpc.dist<[b, 3*8{tp}]>>) -> tensor<?x24xf32, #tpc.dist<[b, 3*8{tp}]>> {
  %0 = tpc.roll %x dim 1 from 1 every 24 : tensor<?x24xf32, #tpc.dist<[b, 3*8{tp}]>> -> tensor<?x24xf32, #tpc.dist<[b, 3*8{tp}]>>
  return %0 : tensor<?x24xf32, #tpc.dist<[b, 3*8{tp}]>>
}

// A factor of one head is split over four ranks, after another factor.
// CHECK-LABEL: @one_head
// CHECK-NEXT: tpc.local_slice %arg0 over ["tp"] dim 0
// CHECK-NEXT: return
func.func @one_head(%x: tensor<2xf32>) -> tensor<2xf32, #tpc.dist<[2*1{tp}]>> {
  %y = tpc.reshard %x : tensor<2xf32> -> tensor<2xf32, #tpc.dist<[2*1{tp}]>>
  return %y : tensor<2xf32, #tpc.dist<[2*1{tp}]>>
}
}
