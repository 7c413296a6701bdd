// RUN: tpc-opt %s --tpc-lower-reshards=allow-reshard --split-input-file | FileCheck %s

module attributes {tpc.grid = #tpc.grid<tp = 2, cp = 2, dp = 3, pp = 1, mb = 1>} {

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

// Slices come first: a third of the bytes is reduced.
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

// Only the innermost split is gathered; that of the batch stays.
// CHECK-LABEL: @inner
// CHECK-NEXT: tpc.all_gather %arg0 over ["tp"] dim 0
// CHECK-NEXT: return
func.func @inner(%x: tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>>) -> tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>> {
  %y = tpc.reshard %x : tensor<?x8xf32, #tpc.dist<[(b{dp}*s){tp}, 8]>> -> tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[b{dp}*s, 8]>>
}

// A product's split is taken away before a factor of it is split.
// CHECK-LABEL: @restack
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %arg0 over ["tp"] dim 0
// CHECK-NEXT: tpc.local_slice %[[G]] over ["tp"] dim 0
// CHECK-NEXT: return
func.func @restack(%x: tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>>) -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>> {
  %y = tpc.reshard %x : tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>> -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
  return %y : tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
}

// The outer axis of two goes, so both do, and the inner one comes back.
// CHECK-LABEL: @outer
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %arg0 over ["tp", "cp"] dim 0
// CHECK-NEXT: tpc.local_slice %[[G]] over ["cp"] dim 0
// CHECK-NEXT: return
func.func @outer(%x: tensor<8xf32, #tpc.dist<[8{tp, cp}]>>) -> tensor<8xf32, #tpc.dist<[8{cp}]>> {
  %y = tpc.reshard %x : tensor<8xf32, #tpc.dist<[8{tp, cp}]>> -> tensor<8xf32, #tpc.dist<[8{cp}]>>
  return %y : tensor<8xf32, #tpc.dist<[8{cp}]>>
}

// Unreduced over one axis only.
// CHECK-LABEL: @one_of_two
// CHECK-NEXT: tpc.all_reduce %arg0 over ["cp"] {{.*}} -> tensor<8xf32, #tpc.dist<[8], max{tp}>>
// CHECK-NEXT: return
func.func @one_of_two(%x: tensor<8xf32, #tpc.dist<[8], max{tp, cp}>>) -> tensor<8xf32, #tpc.dist<[8], max{tp}>> {
  %y = tpc.reshard %x : tensor<8xf32, #tpc.dist<[8], max{tp, cp}>> -> tensor<8xf32, #tpc.dist<[8], max{tp}>>
  return %y : tensor<8xf32, #tpc.dist<[8], max{tp}>>
}
}
