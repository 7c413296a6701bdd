// A collective that no tactic expects is an error.
// RUN: tpc-opt %s --tpc-lower-reshards --split-input-file --verify-diagnostics | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>,
                   tpc.tactics = [{name = "tp", splits = [], predicts = [
                     {kind = "all_reduce", axis = "tp", why = "test"},
                     {kind = "all_gather", axis = "tp", size = "5", why = "test"}]}]} {
  // CHECK-LABEL: @predicted
  // CHECK: tpc.all_reduce
  // CHECK: tpc.all_gather
  func.func @predicted(%x: tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>>, %y: tensor<5x8xf32, #tpc.dist<[5{tp}, 8]>>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
    %a = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>> -> tensor<5x8xf32>
    %b = tpc.reshard %y : tensor<5x8xf32, #tpc.dist<[5{tp}, 8]>> -> tensor<5x8xf32>
    return %a, %b : tensor<5x8xf32>, tensor<5x8xf32>
  }
  // Slicing a shard is free.
  // CHECK-LABEL: @free
  // CHECK: tpc.local_slice
  func.func @free(%x: tensor<5x8xf32>) -> tensor<5x8xf32, #tpc.dist<[5{dp}, 8]>> {
    %a = tpc.reshard %x : tensor<5x8xf32> -> tensor<5x8xf32, #tpc.dist<[5{dp}, 8]>>
    return %a : tensor<5x8xf32, #tpc.dist<[5{dp}, 8]>>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>,
                   tpc.tactics = [{name = "tp", splits = [], predicts = [
                     {kind = "all_gather", axis = "tp", size = "5", why = "test"}]}]} {
  func.func @another_dimension(%x: tensor<5x8xf32, #tpc.dist<[5, 8{tp}]>>) -> tensor<5x8xf32> {
    // expected-error @unknown {{'logits' needs an all_gather over 'tp' of dimension 1 (8) that no tactic expects}}
    %a = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8{tp}]>> -> tensor<5x8xf32> loc("logits")
    // expected-note @below {{needed by}}
    return %a : tensor<5x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
  func.func @another_axis(%x: tensor<5x8xf32, #tpc.dist<[5, 8], sum{dp}>>) -> tensor<5x8xf32> {
    // expected-error @unknown {{'mean' needs an all_reduce over 'dp' that no tactic expects}}
    %a = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8], sum{dp}>> -> tensor<5x8xf32> loc("mean")
    // expected-note @below {{needed by}}
    return %a : tensor<5x8xf32>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 2>} {
  func.func @micro_batches(%x: tensor<5x8xf32, #tpc.dist<[5{mb}, 8]>>) -> tensor<5x8xf32> {
    // expected-error @unknown {{'mean' combines micro-batches, but a rank has one at a time}}
    %a = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5{mb}, 8]>> -> tensor<5x8xf32> loc("mean")
    return %a : tensor<5x8xf32>
  }
}

// -----

// The cheapest sequence has all-to-alls, which no tactic expects. A sequence without them is used.
module attributes {tpc.mesh = #tpc.mesh<tp = 4, pp = 1, mb = 1>,
                   tpc.tactics = [{name = "tp", splits = [], predicts = [
                     {kind = "all_gather", axis = "tp", why = "test"}]}]} {
  // CHECK-LABEL: @another_way
  // CHECK-NEXT: tpc.all_gather
  // CHECK-NEXT: tpc.local_slice
  // CHECK-NEXT: return
  func.func @another_way(%x: tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>>) -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>> {
    %y = tpc.reshard %x : tensor<40x8xf32, #tpc.dist<[40{tp}, 8]>> -> tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
    return %y : tensor<40x8xf32, #tpc.dist<[5{tp}*8, 8]>>
  }
}

// -----

func.func @no_grid(%x: tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>>) -> tensor<5x8xf32> {
  // expected-error @below {{is in a module without a tpc.mesh: run tpc-assign-shardings first}}
  %0 = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>> -> tensor<5x8xf32>
  return %0 : tensor<5x8xf32>
}

// -----

// The pass runs on the outer module and does not use the grid of a nested one.
module {
  module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
    func.func @inner_grid(%x: tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>>) -> tensor<5x8xf32> {
      // expected-error @below {{is in a module without a tpc.mesh: run tpc-assign-shardings first}}
      %0 = tpc.reshard %x : tensor<5x8xf32, #tpc.dist<[5, 8], sum{tp}>> -> tensor<5x8xf32>
      return %0 : tensor<5x8xf32>
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 2>,
                   tpc.tactics = [{name = "sp", splits = [], predicts = [
                     {kind = "collective_permute", axis = "tp", size = "64", why = "test"}]}]} {
  // CHECK-LABEL: @predicted_shift
  // CHECK: tpc.collective_permute
  func.func @predicted_shift(%x: tensor<64xf32, #tpc.dist<[64{tp}]>>) -> tensor<64xf32, #tpc.dist<[64{tp}]>> {
    %0 = tpc.roll %x dim 0 from 1 every 64 : tensor<64xf32, #tpc.dist<[64{tp}]>> -> tensor<64xf32, #tpc.dist<[64{tp}]>>
    return %0 : tensor<64xf32, #tpc.dist<[64{tp}]>>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 2>,
                   tpc.tactics = [{name = "sp", splits = [], predicts = [
                     {kind = "collective_permute", axis = "tp", size = "64", why = "test"}]}]} {
  func.func @shift_over_another_axis(%x: tensor<64xf32, #tpc.dist<[64{dp}]>>) -> tensor<64xf32, #tpc.dist<[64{dp}]>> {
    // expected-error @unknown {{'roll' needs a collective_permute over 'dp' of dimension 0 (64) that no tactic expects}}
    %0 = tpc.roll %x dim 0 from 1 every 64 : tensor<64xf32, #tpc.dist<[64{dp}]>> -> tensor<64xf32, #tpc.dist<[64{dp}]>> loc("roll")
    return %0 : tensor<64xf32, #tpc.dist<[64{dp}]>>
  }
  func.func @shift_of_parts_not_in_a_row(%x: tensor<64xf32, #tpc.dist<[4 * 16{tp}]>>) -> tensor<64xf32, #tpc.dist<[4 * 16{tp}]>> {
    // expected-error @unknown {{'roll' shifts runs of 64 elements of dimension 0, but ranks would have non-contiguous parts}}
    %0 = tpc.roll %x dim 0 from 1 every 64 : tensor<64xf32, #tpc.dist<[4 * 16{tp}]>> -> tensor<64xf32, #tpc.dist<[4 * 16{tp}]>> loc("roll")
    return %0 : tensor<64xf32, #tpc.dist<[4 * 16{tp}]>>
  }
  func.func @shift_across_micro_batches(%x: tensor<64xf32, #tpc.dist<[64{mb}]>>) -> tensor<64xf32, #tpc.dist<[64{mb}]>> {
    // expected-error @unknown {{'roll' shifts across micro-batches, but a rank has one at a time; remove mb}}
    %0 = tpc.roll %x dim 0 from 1 every 64 : tensor<64xf32, #tpc.dist<[64{mb}]>> -> tensor<64xf32, #tpc.dist<[64{mb}]>> loc("roll")
    return %0 : tensor<64xf32, #tpc.dist<[64{mb}]>>
  }
}
