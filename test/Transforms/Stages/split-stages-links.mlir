// Cuts depend on link costs. With slow links, the two gathers are in different stages; with fast
// links, each stage has two matmuls.
// RUN: tpc-opt %s --tpc-split-stages | FileCheck %s --check-prefix=SLOW
// RUN: sed 's/1.0e-3, 0.0/0.0, 0.0/' %s | tpc-opt --tpc-split-stages | FileCheck %s --check-prefix=FAST
// In the first run only the gathers' axis is slow. In the second only the axis between stages is,
// and every cut has one message, so the cut is the same as with fast links.
// RUN: sed 's/intra_node = .1.0e-3, 0.0./intra_node = [0.0, 0.0], axes = {tp = [1.0e-3, 0.0]}/' %s | tpc-opt --tpc-split-stages | FileCheck %s --check-prefix=SLOW
// RUN: sed 's/intra_node = .1.0e-3, 0.0./intra_node = [0.0, 0.0], axes = {pp = [1.0e-3, 0.0]}/' %s | tpc-opt --tpc-split-stages | FileCheck %s --check-prefix=SENT

// SLOW: @stage_0
// SLOW-SAME: tpc.seconds = {{0.00100[0-9]* }}
// SLOW-COUNT-1: tpc.all_gather
// SLOW: @stage_1
// SLOW-SAME: tpc.seconds = {{0.00100[0-9]* }}
// SLOW-COUNT-1: tpc.all_gather

// FAST: @stage_0
// FAST-SAME: tpc.seconds = {{[0-9.]+}}e-08
// FAST-COUNT-2: tpc.all_gather
// FAST: @stage_1
// FAST-NOT: tpc.all_gather

// SENT: @stage_0
// SENT-SAME: tpc.seconds = {{[0-9.]+}}e-08
// SENT-SAME: tpc.transfer_seconds = 1.000000e-03
// SENT-COUNT-2: tpc.all_gather
// SENT: @stage_1
// SENT-SAME: tpc.transfer_seconds = 1.000000e-03
// SENT-NOT: tpc.all_gather
module attributes {tpc.links = {intra_node = [1.0e-3, 0.0]}, tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 1>} {
  tpc.weight @a in "w" at 0 : tensor<64x64xf32>
  tpc.weight @b in "w" at 16384 : tensor<64x64xf32>
  tpc.weight @c in "w" at 32768 : tensor<64x64xf32>
  tpc.weight @d in "w" at 49152 : tensor<64x64xf32>
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %pa = tpc.parameter @a : tensor<64x32xf32, #tpc.dist<[64, 64{tp}], local>>
    %pb = tpc.parameter @b : tensor<64x32xf32, #tpc.dist<[64, 64{tp}], local>>
    %c = tpc.parameter @c : tensor<64x64xf32>
    %d = tpc.parameter @d : tensor<64x64xf32>
    %a = tpc.all_gather %pa over ["tp"] dim 1 : tensor<64x32xf32, #tpc.dist<[64, 64{tp}], local>> -> tensor<64x64xf32>
    %0 = tpc.matmul %x, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %b = tpc.all_gather %pb over ["tp"] dim 1 : tensor<64x32xf32, #tpc.dist<[64, 64{tp}], local>> -> tensor<64x64xf32>
    %1 = tpc.matmul %0, %b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %2 = tpc.matmul %1, %c : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %3 = tpc.matmul %2, %d : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
}
