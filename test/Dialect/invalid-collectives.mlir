// Collectives whose types do not match their effect.
// RUN: tpc-opt %s -split-input-file -verify-diagnostics

!whole = tensor<?x8xf32, #tpc.dist<[b, 8], local>>
func.func @reducing_what_is_reduced(%x: !whole) {
  // expected-error @+1 {{needs an operand that is unreduced over its axes}}
  %0 = tpc.all_reduce %x over ["tp"] : !whole -> !whole
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
func.func @result_still_unreduced(%x: !partial) {
  // expected-error @+1 {{result must be the operand, no longer unreduced}}
  %0 = tpc.all_reduce %x over ["tp"] : !partial -> !partial
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<dp = 2>} {
func.func @axis_of_another_grid(%x: !partial) {
  // expected-error @+1 {{axis 'tp' is not in the grid}}
  %0 = tpc.all_reduce %x over ["tp"] : !partial -> tensor<?x8xf32, #tpc.dist<[b, 8], local>>
  return
}
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{dp, tp}, 8], local>>
func.func @gathering_the_outer_split(%x: !rows) {
  // expected-error @+1 {{its axes are not the innermost split of dimension 0 of the operand}}
  %0 = tpc.all_gather %x over ["dp"] dim 0 : !rows -> tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @no_such_dimension(%x: !rows) {
  // expected-error @+1 {{dim 2 is not a dimension of}}
  %0 = tpc.all_gather %x over ["tp"] dim 2 : !rows -> tensor<?x8xf32, #tpc.dist<[b, 8], local>>
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
func.func @scattered_along_another_dimension(%x: !partial) {
  // expected-error @+1 {{result must be the reduced operand, split over these axes in dimension 0}}
  %0 = tpc.reduce_scatter %x over ["tp"] dim 0 : !partial -> tensor<?x4xf32, #tpc.dist<[b, 8{tp}], local>>
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @split_does_not_move(%x: !rows) {
  // expected-error @+1 {{must move the split over its axes from dimension 0 to 1}}
  %0 = tpc.all_to_all %x over ["tp"] from 0 to 1 : !rows -> !rows
  return
}

// -----

!whole = tensor<?x8xf32, #tpc.dist<[b, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2>} {
func.func @root_outside(%x: !whole) {
  // expected-error @+1 {{root 2 is not one of the group's 2 members}}
  %0 = tpc.broadcast %x over ["tp"] root 2 : !whole -> !whole
  return
}
}

// -----

!whole = tensor<?x8xf32, #tpc.dist<[b, 8], local>>
func.func @slice_of_nothing(%x: !whole) {
  // expected-error @+1 {{result must be the operand, split over these axes in dimension 1}}
  %0 = tpc.local_slice %x over ["tp"] dim 1 : !whole -> tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
  return
}

// -----

func.func @reshard_of_local_values(%x: tensor<?x8xf32, #tpc.dist<[b, 8], local>>) {
  // expected-error @+1 {{belongs to the sharded program}}
  %0 = tpc.reshard %x : tensor<?x8xf32, #tpc.dist<[b, 8], local>> -> tensor<?x8xf32, #tpc.dist<[b{dp}, 8], local>>
  return
}

// -----

func.func @making_partial_sums(%x: tensor<?x8xf32, #tpc.dist<[b, 8]>>) {
  // expected-error @+1 {{cannot make a value unreduced over 'tp'}}
  %0 = tpc.reshard %x : tensor<?x8xf32, #tpc.dist<[b, 8]>> -> tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b, 8], local>>
func.func @send_outside_a_stage(%x: !x) {
  // expected-error @+1 {{must be in a stage of a pipeline}}
  tpc.send %x to 1 : !x
  return
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 2>} {
tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
  tpc.stage 0 {
    // expected-error @+1 {{peer must be another stage of the pipeline, not stage 0}}
    tpc.send %x to 0 : tensor<4xf32>
  }
  tpc.stage 1 {
  }
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 2>} {
// expected-error @+1 {{has 1 stages, but axis pp has size 2}}
tpc.pipeline @main() inputs [] outputs [] {
  tpc.stage 0 {
  }
}
}

// -----

tpc.pipeline @main() inputs [] outputs [] {
  // expected-error @+1 {{stages must be in order; expected stage 0}}
  tpc.stage 1 {
  }
}

// -----

// expected-error @+1 {{inputs and outputs must be dictionaries, not "x"}}
tpc.pipeline @main(%x: tensor<4xf32>) inputs ["x"] outputs [] {
  tpc.stage 0 {
  }
}

// -----

// expected-error @+1 {{inputs and outputs must be dictionaries, not tensor<4xf32>}}
tpc.pipeline @main() inputs [] outputs [tensor<4xf32>] {
  tpc.stage 0 {
  }
}

// -----

tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
  tpc.stage 0 {
    // expected-error @+1 {{there is no output 0}}
    tpc.output 0, %x : tensor<4xf32>
  }
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @half_a_shift(%x: !rows) {
  // expected-error @+1 {{'from' and 'every' must be given together}}
  %0 = "tpc.collective_permute"(%x) <{axes = ["tp"], dim = 0 : i64, from = #tpc.expr<1>}> : (!rows) -> !rows
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @another_dimension_moves(%x: !rows) {
  // expected-error @+1 {{result must equal the operand except in dimension 0}}
  %0 = tpc.collective_permute %x over ["tp"] dim 0 : !rows -> tensor<?x4xf32, #tpc.dist<[b, 8{tp}], local>>
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[4 * 16{tp}, 8], local>>
func.func @parts_not_in_a_row(%x: !rows) {
  // expected-error @+1 {{each rank's shard of dimension 0 must be a contiguous range of each run}}
  %0 = tpc.collective_permute %x over ["tp"] dim 0 from 1 every 64 : !rows -> !rows
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{dp, tp}, 8], local>>
func.func @another_group(%x: !rows) {
  // expected-error @+1 {{its axes must be those that split the runs of dimension 0}}
  %0 = tpc.collective_permute %x over ["tp"] dim 0 from 1 every b : !rows -> !rows
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @runs_that_do_not_fit(%x: !rows) {
  // expected-error @+1 {{'every' is s, but must divide the size of dimension 0, b}}
  %0 = tpc.collective_permute %x over ["tp"] dim 0 from 1 every s : !rows -> !rows
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
func.func @another_element_type(%x: !partial) {
  // expected-error @+1 {{must not change the element type}}
  %0 = tpc.all_reduce %x over ["tp"] : !partial -> tensor<?x8xf16, #tpc.dist<[b, 8], local>>
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
func.func @another_shape(%x: !partial) {
  // expected-error @+1 {{must not change the global shape, but changes [b, 8] to [s, 8]}}
  %0 = tpc.all_reduce %x over ["tp"] : !partial -> tensor<?x8xf32, #tpc.dist<[s, 8], local>>
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
func.func @over_nothing(%x: !partial) {
  // expected-error @+1 {{needs at least one axis}}
  %0 = tpc.all_reduce %x over [] : !partial -> tensor<?x8xf32, #tpc.dist<[b, 8], local>>
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b, 8], local>>
func.func @output_outside_a_pipeline(%x: !x) {
  // expected-error @+1 {{must be in a pipeline}}
  tpc.output 0, %x : !x
  return
}

// -----

// expected-error @+1 {{has 0 input attributes for 1 inputs}}
tpc.pipeline @main(%x: tensor<4xf32>) inputs [] outputs [] {
  tpc.stage 0 {
  }
}

// -----

tpc.pipeline @main() inputs [] outputs [] {
  // expected-error @+1 {{must be a tpc.stage, because it is in a pipeline}}
  %0 = tpc.size 1 : tensor<i64>
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2>} {
tpc.pipeline @main(%x: tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>) inputs [{}] outputs [] {
  tpc.stage 0 {
    // expected-error @+1 {{moves an unreduced value: reduce it first}}
    tpc.send %x to 1 : tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
  }
  tpc.stage 1 {
  }
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2>} {
tpc.pipeline @main(%x: tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>) inputs [{}] outputs [{}] {
  tpc.stage 0 {
    // expected-error @+1 {{delivers an unreduced value: reduce it first}}
    tpc.output 0, %x : tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}, local>>
  }
}
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @nothing_to_exchange(%x: !rows) {
  // expected-error @+1 {{operand and result must be split over different axes of ranks, by factors of which one divides the other}}
  %0 = tpc.exchange %x over ["tp"] : !rows -> !rows
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @exchange_between_micro_batches(%x: !rows) {
  // expected-error @+1 {{must be split over different axes of ranks}}
  %0 = tpc.exchange %x over ["tp", "mb"] : !rows -> tensor<?x8xf32, #tpc.dist<[b{mb}, 8], local>>
  return
}

// -----

func.func @factors_across_each_other(%x: tensor<?xf32, #tpc.dist<[12{tp} * 64], local>>) {
  // expected-error @+1 {{operand and result must be split over different axes of ranks, by factors of which one divides the other}}
  %0 = tpc.exchange %x over ["tp", "dp"] : tensor<?xf32, #tpc.dist<[12{tp} * 64], local>> -> tensor<?xf32, #tpc.dist<[8{dp} * 96], local>>
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{dp, tp}, 8], local>>
func.func @exchange_over_another_group(%x: !rows) {
  // expected-error @+1 {{its axes must be those whose split changes: tp}}
  %0 = tpc.exchange %x over ["dp"] : !rows -> tensor<?x?xf32, #tpc.dist<[b{dp}, 8{tp}], local>>
  return
}

// -----

func.func @exchange_adds_nothing(%x: tensor<?x8xf32, #tpc.dist<[b{tp}, 8], sum{dp}, local>>) {
  // expected-error @+1 {{operand and result must be unreduced over the same axes}}
  %0 = tpc.exchange %x over ["tp"] : tensor<?x8xf32, #tpc.dist<[b{tp}, 8], sum{dp}, local>> -> tensor<?x?xf32, #tpc.dist<[b, 8{tp}], local>>
  return
}

// -----

// Before the micro-batch loop there is no micro-batch.
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: tensor<?xf32, #tpc.dist<[b], local>>) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{creates a value that is split over mb, 'tensor<?xf32, #tpc.dist<[b{mb}], local>>', outside of tpc.micro_batches}}
      %0 = tpc.local_slice %x over ["mb"] dim 0 : tensor<?xf32, #tpc.dist<[b], local>> -> tensor<?xf32, #tpc.dist<[b{mb}], local>>
      tpc.micro_batches of <b{mb}> {
      }
    }
  }
}

// -----

// Types do not contain the grid: their axes are checked against the module's grid, including types
// of function arguments.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2>} {
// expected-error @+1 {{dimension 0 of 'tensor<3xf32, #tpc.dist<[16{tp, dp}], local>>' must be 4 on each rank of}}
func.func @no_rank_has_that_many(%x: tensor<3xf32, #tpc.dist<[16{tp, dp}], local>>) {
  %0 = tpc.exchange %x over ["tp", "dp"] : tensor<3xf32, #tpc.dist<[16{tp, dp}], local>> -> tensor<8xf32, #tpc.dist<[16{dp}], local>>
  return
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2>} {
func.func @nor_has_a_result(%x: tensor<4xf32, #tpc.dist<[16{tp, dp}], local>>) {
  // expected-error @+1 {{dimension 0 of 'tensor<7xf32, #tpc.dist<[16{dp}], local>>' must be 8 on each rank of}}
  %0 = tpc.exchange %x over ["tp", "dp"] : tensor<4xf32, #tpc.dist<[16{tp, dp}], local>> -> tensor<7xf32, #tpc.dist<[16{dp}], local>>
  return
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2>} {
// expected-error @+1 {{dimension 0 of 'tensor<3xf32, #tpc.dist<[5{tp}], local>>' must be '?', because it is not the same on all ranks of}}
func.func @ranks_have_different_sizes(%x: tensor<3xf32, #tpc.dist<[5{tp}], local>>) {
  return
}
}

// -----

!sum = tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
!all = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @f(%x: !sum) -> !all {
    // expected-error @+1 {{must have 1 to 8 chunks, not 9}}
    %0 = tpc.all_reduce_start %x over ["tp"] chunks 9 grain 1 : !sum -> !all
    %1 = tpc.wait %0 : !all
    return %1 : !all
  }
}
