// Types that contradict the values on ranks. The error is at the first op whose value is not the
// shard that its type states. The dialect's own verifier is disabled, because most of these
// programs violate its sharding rules. The verifier under test does not use these rules.
// RUN: tpc-opt %s --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 --tpc-verify-equivalence=reference=%S/Inputs/verify-model.mlir -split-input-file -verify-diagnostics

!columns = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!rows = tensor<?x8xf32, #tpc.dist<[5{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @forgotten_reduction(%x: !columns, %w: !rows) {
    // expected-error @+1 {{(tpc.matmul) does not compute its part of what the model computes: on each rank of 'tp' the result is a part (sum), but its type 'tensor<4x8xf32>' declares it complete}}
    %0 = tpc.matmul %x, %w : !columns, !rows -> tensor<4x8xf32>
    return
  }
}

// -----

!columns = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!rows = tensor<?x8xf32, #tpc.dist<[5{tp}, 8], local>>
!partial = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @bias_on_every_rank(%x: !columns, %w: !rows, %bias: tensor<8xf32>) {
    %0 = tpc.matmul %x, %w : !columns, !rows -> !partial
    // expected-error @+1 {{is a part of a sum over 'tp' on each rank, and the op does not propagate such parts to its result: reduce the operand before this op}}
    %1 = tpc.add %0, %bias : !partial, tensor<8xf32> -> !partial
    return
  }
}

// -----

!columns = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!rows = tensor<?x8xf32, #tpc.dist<[5{tp}, 8], local>>
!partial = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @bias_in_the_product(%x: !columns, %w: !rows, %bias: tensor<8xf32>) {
    // expected-error @+1 {{whole, but a rank has 5{tp} (at tp=0: 3 elements from 0, not 5 elements from 0)}}
    %0 = tpc.matmul %x, %w bias %bias : !columns, !rows bias tensor<8xf32> -> !partial
    return
  }
}

// -----

!x = tensor<4x?xf32, #tpc.dist<[4, 10{tp}], local>>
!heads = tensor<?x8xf32, #tpc.dist<[5{tp} * 2, 8], local>>
!partial = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 3, dp = 1, pp = 1>} {
  func.func private @off_by_one(%x: !x, %w: !heads) {
    // expected-error @+1 {{as 10{tp} (at tp=1: 3 elements from 4, not 4 elements from 4)}}
    %0 = tpc.matmul %x, %w : !x, !heads -> !partial
    return
  }
}

// -----

!a = tensor<2x4xf32, #tpc.dist<[4{tp}, 4], local>>
!b = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
!c = tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @blocks_on_the_diagonal(%a: !a, %b: !b) {
    // expected-error @+1 {{as 8{tp} (at tp=0: 4 elements from 0, not 8 elements from 0)}}
    %0 = tpc.matmul %a, %b : !a, !b -> !c
    return
  }
}

// -----

!a = tensor<2x1xf32, #tpc.dist<[4{tp}, 1], local>>
!b = tensor<1x2xf32, #tpc.dist<[1, 4{tp}], local>>
!c = tensor<2x4xf32, #tpc.dist<[4{tp}, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @outer_sum(%a: !a, %b: !b) {
    // expected-error @+1 {{as 4{tp} (at tp=0: 2 elements from 0, not 4 elements from 0)}}
    %0 = tpc.add %a, %b : !a, !b -> !c
    return
  }
}

// -----

!partial = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
!columns = tensor<8x4xf32, #tpc.dist<[8, 8{tp}], local>>
!c = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @parts_by_columns(%a: !partial, %b: !columns) {
    // expected-error @+1 {{is unreduced over 'tp', which also splits 8{tp}}}
    %0 = tpc.matmul %a, %b : !partial, !columns -> !c
    return
  }
}

// -----

!table = tensor<?x4xf32, #tpc.dist<[9{tp}, 4], local>>
!ids = tensor<?xi64, #tpc.dist<[5{tp}], local>>
!rows = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @own_ids_in_own_rows(%table: !table, %ids: !ids) {
    // expected-error @+1 {{'tp' splits both 9{tp} and 5{tp} of this op}}
    %0 = tpc.embedding %table, %ids : !table, !ids -> !rows
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{pp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 1, pp = 2>} {
  // expected-error @+1 {{is distributed over 'pp', but only one stage runs this}}
  func.func private @across_stages(%x: !local) {
    return
  }
  tpc.pipeline @main() inputs [] outputs [] {
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
!max = tensor<4x8xf32, #tpc.dist<[4, 8], max{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @sum_to_max(%a: !sum, %b: !max) {
    // expected-error @+1 {{operands reduce in different ways over 'tp'}}
    %0 = tpc.add %a, %b : !sum, !max -> !sum
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
!max = tensor<4x8xf32, #tpc.dist<[4, 8], max{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @type_says_maximum(%a: !sum) {
    // expected-error @+1 {{on each rank of 'tp' the result is a part (sum), but its type 'tensor<4x8xf32, #tpc.dist<[4, 8], max{tp}, local>>' declares another reduction}}
    %0 = tpc.neg %a : !sum -> !max
    return
  }
}

// -----

!max = tensor<4x8xf32, #tpc.dist<[4, 8], max{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @maximum_negated(%a: !max) {
    // expected-error @+1 {{is a part of a maximum or minimum over 'tp' on each rank}}
    %0 = tpc.neg %a : !max -> !max
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @counted_twice(%a: tensor<4x8xf32>) {
    // expected-error @+1 {{its type declares the result a part over 'tp', but every rank has all of it: reduced, it would count 2 times}}
    %0 = tpc.neg %a : tensor<4x8xf32> -> !sum
    return
  }
}

// -----

!q = tensor<2x3x4x8xf32, #tpc.dist<[2, 3, 8{tp}, 8], local>>
!kv = tensor<2x3x2x8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @wrong_kv_group(%q: !q, %k: !kv, %v: !kv) {
    // expected-error @+1 {{its query heads are 8{tp} and its kv heads 2: a rank would pair query heads with kv heads of others}}
    %0 = tpc.attention causal %q, %k, %v scale 1.0 : !q, !kv, !kv -> !q
    return
  }
}

// -----

!q = tensor<2x3x?x8xf32, #tpc.dist<[2, 3, 5{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @slopes_of_all_heads(%q: !q, %slopes: tensor<5xf32>) {
    // expected-error-re @+1 {{dimension 0 of operand 3 {{.*}} is laid out as 5, but that of operand 0 {{.*}} as 5{tp} (at tp=0: 3 elements from 0, not 5 elements from 0)}}
    %0 = tpc.attention causal %q, %q, %q slopes %slopes scale 1.0 : !q, !q, !q slopes tensor<5xf32> -> !q
    return
  }
}

// -----

!in = tensor<6x?xf32, #tpc.dist<[6, 9{tp}], local>>
!out = tensor<2x3x?x3xf32, #tpc.dist<[2, 3, 3{tp}, 3], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @heads_cut_through(%x: !in) {
    // expected-error @+1 {{row by row, the operand is laid out as 6 * 9{tp} and the result as 6 * 3{tp} * 3 (at tp=0: 5 elements from 0, not 2 elements from 0)}}
    %0 = tpc.reshape %x : !in -> !out
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @reshape_completes(%x: !sum) {
    // expected-error @+1 {{the operand is unreduced over {tp} and the result over {}}}
    %0 = tpc.reshape %x : !sum -> tensor<32xf32>
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
!tokens = tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @gather_of_parts(%x: !sum) {
    // expected-error @+1 {{the operand is unreduced over {tp} and the result over {}, but nothing is added here}}
    %0 = tpc.local_slice %x over ["tp"] dim 0 : !sum -> !tokens
    return
  }
}

// -----

!tokens = tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
!columns = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @gathers_another_dimension(%x: !columns) {
    // expected-error @+1 {{over {tp} it cannot make dimension 0 4 from 4}}
    %0 = tpc.all_gather %x over ["tp"] dim 0 : !columns -> tensor<4x8xf32>
    return
  }
}

// -----

!tokens = tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
!both = tensor<2x4xf32, #tpc.dist<[4{tp}, 8{dp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @slices_over_another_axis(%x: !tokens) {
    // expected-error @+1 {{it takes parts over 'tp', but ranks along it have different values already}}
    %0 = tpc.local_slice %x over ["tp"] dim 1 : !tokens -> !both
    return
  }
}

// -----

!tokens = tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @broadcast_of_different(%x: !tokens) {
    // expected-error @+1 {{ranks differ along 'tp', and a broadcast gives all of them the value of coordinate 1}}
    %0 = tpc.broadcast %x over ["tp"] root 1 : !tokens -> !tokens
    return
  }
}

// -----

!tokens = tensor<2x8xf32, #tpc.dist<[4{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @no_such_dimension(%x: !tokens) {
    // expected-error @+1 {{its dimensions are not those of 'tensor<2x8xf32}}
    %0 = tpc.all_gather %x over ["tp"] dim 2 : !tokens -> tensor<4x8xf32>
    return
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @reduced_again(%x: tensor<4x8xf32>) {
    // expected-error @+1 {{it adds over 'tp', but the operand is complete on every rank along it: it would count 2 times}}
    %0 = tpc.all_reduce %x over ["tp"] : tensor<4x8xf32> -> tensor<4x8xf32>
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{dp, tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @group_too_small(%x: !sum) {
    // expected-error @+1 {{after it the value is unreduced over {dp}, but its type declares {}}}
    %0 = tpc.all_reduce %x over ["tp"] : !sum -> tensor<4x8xf32>
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
!columns = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @scatters_another_dimension(%x: !sum) {
    // expected-error @+1 {{over {tp} it cannot make dimension 0 4 from 4}}
    %0 = tpc.reduce_scatter %x over ["tp"] dim 0 : !sum -> !columns
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @no_such_dimension(%x: !sum) {
    // expected-error @+1 {{its dimensions are not those of 'tensor<4x8xf32}}
    %0 = tpc.reduce_scatter %x over ["tp"] dim 2 : !sum -> tensor<4x8xf32>
    return
  }
}

// -----

!global = tensor<4x8xf32, #tpc.dist<[4, 8{tp}]>>
!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w in "w" at 0 : tensor<4x8xf32>
  func.func private @global_among_local(%x: !local) {
    // expected-error @+1 {{in a program of local values, its type 'tensor<4x8xf32, #tpc.dist<[4, 8{tp}]>>' is global}}
    %0 = tpc.parameter @w : !global
    return
  }
}

// -----

!local = tensor<4x5xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  // expected-error @+1 {{its type 'tensor<4x5xf32, #tpc.dist<[4, 8{tp}], local>>' has other sizes than its distribution gives, 'tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>'}}
  func.func private @other_sizes(%x: !local) {
    return
  }
}

// -----

!local = tensor<4x?xf32, #tpc.dist<[4, 8{xy}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  // expected-error @+1 {{names the axis 'xy', which the grid does not have}}
  func.func private @unknown_axis(%x: !local) {
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  // expected-error @+1 {{input 0 must be whole on every rank, but its type is 'tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>'}}
  func.func @main(%x: !local) {
    return
  }
}

// -----

!sum = tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @f(%x: !sum) -> !sum {
    return %x : !sum
  }
  // expected-error @+1 {{output 0 is delivered unreduced over {tp}}}
  func.func @main() -> !sum {
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @callee(%x: !local) {
    return
  }
  func.func private @caller(%x: tensor<4x8xf32>) {
    // expected-error @+1 {{argument 0 of @callee has type 'tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>', but the call has 'tensor<4x8xf32>'}}
    "func.call"(%x) {callee = @callee} : (tensor<4x8xf32>) -> ()
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @nothing(!local)
  func.func private @caller(%x: !local) {
    // expected-error @+1 {{@nothing has no body}}
    "func.call"(%x) {callee = @nothing} : (!local) -> ()
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @callee(%x: !local) {
    return
  }
  func.func private @caller() {
    // expected-error @+1 {{@callee has another number of arguments}}
    "func.call"() {callee = @callee} : () -> ()
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @f(%x: !local) -> tensor<4x8xf32> {
    // expected-error @+1 {{its operand types differ from the result types of @f}}
    "func.return"(%x) : (!local) -> ()
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @f(%x: !local) {
    // expected-error @+1 {{it is not allowed in a local program: run tpc-lower-reshards first}}
    %0 = tpc.reshard %x : !local -> tensor<4x8xf32>
    return
  }
}

// -----

!local = tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @f(%x: !local) {
    // expected-error @+1 {{(arith.negf) cannot be proved: the verifier has no lemma for this op}}
    %0 = arith.negf %x : !local
    return
  }
}

// -----

!part = tensor<4x4xf32, #tpc.dist<[8{mb}, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 1, pp = 1, mb = 2>} {
  func.func private @all_micro_batches_at_once(%x: !part) {
    // expected-error @+1 {{it combines micro-batches, of which a rank has one at a time}}
    %0 = tpc.all_gather %x over ["mb"] dim 0 : !part -> tensor<8x4xf32>
    return
  }
}

// -----

// Before stages are divided, a sum over micro-batches is a reduction; a stage has tpc.accumulate.
!part = tensor<4x4xf32, #tpc.dist<[4, 4], sum{mb}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 1, pp = 1, mb = 2>} {
  func.func private @sum_over_micro_batches(%x: !part) {
    // expected-error @+1 {{it combines micro-batches, of which a rank has one at a time}}
    %0 = tpc.all_reduce %x over ["mb"] : !part -> tensor<4x4xf32>
    return
  }
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {}
  }
}

// -----

// A sum over micro-batches of which only the first is computed, and one with another type.
!part = tensor<4x4xf32, #tpc.dist<[4, 4], sum{mb}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 2, pp = 1, mb = 2>} {
  func.func private @part(%x: tensor<8x4xf32>) -> !part {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : tensor<8x4xf32> -> tensor<4x4xf32, #tpc.dist<[8{mb}, 4], local>>
    %1 = tpc.transpose %0 [1, 0] : tensor<4x4xf32, #tpc.dist<[8{mb}, 4], local>> -> tensor<4x4xf32, #tpc.dist<[4, 8{mb}], local>>
    %2 = tpc.matmul %1, %0 : tensor<4x4xf32, #tpc.dist<[4, 8{mb}], local>>, tensor<4x4xf32, #tpc.dist<[8{mb}, 4], local>> -> !part
    return %2 : !part
  }
  tpc.pipeline @main(%x: tensor<8x4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches {
        %0 = func.call @part(%x) : (tensor<8x4xf32>) -> !part
        // expected-error @+1 {{it is in a loop that does not run every micro-batch}}
        tpc.accumulate 0, %0 : !part
      }
    }
  }
}

// -----

!both = tensor<4x4xf32, #tpc.dist<[4, 4], sum{dp, mb}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 2, pp = 1, mb = 2>} {
  func.func private @part(%x: tensor<8x4xf32>) -> !both {
    %0 = tpc.local_slice %x over ["dp", "mb"] dim 0 : tensor<8x4xf32> -> tensor<2x4xf32, #tpc.dist<[8{dp, mb}, 4], local>>
    %1 = tpc.transpose %0 [1, 0] : tensor<2x4xf32, #tpc.dist<[8{dp, mb}, 4], local>> -> tensor<4x2xf32, #tpc.dist<[4, 8{dp, mb}], local>>
    %2 = tpc.matmul %1, %0 : tensor<4x2xf32, #tpc.dist<[4, 8{dp, mb}], local>>, tensor<2x4xf32, #tpc.dist<[8{dp, mb}, 4], local>> -> !both
    return %2 : !both
  }
  tpc.pipeline @main(%x: tensor<8x4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        %0 = func.call @part(%x) : (tensor<8x4xf32>) -> !both
        tpc.accumulate 0, %0 : !both
      }
      tpc.micro_batches {
        // expected-error @+1 {{is not 'tensor<4x4xf32>'}}
        %1 = tpc.accumulated 0 : tensor<4x4xf32>
      }
    }
  }
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[(batch * sequence){tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @shifted_alone(%x: !rows) {
    // expected-error @+1 {{(tpc.roll) does not compute its part of what the model computes: a rank has only parts of runs of sequence elements, batch*sequence{tp} in dimension 0}}
    %0 = tpc.roll %x dim 0 from 1 every sequence : !rows -> !rows
    return
  }
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[batch{dp} * sequence{tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @shifted_over_the_wrong_group(%x: !rows) {
    // expected-error @+1 {{a group over {dp} has only parts of runs of sequence elements}}
    %0 = tpc.collective_permute %x over ["dp"] dim 0 from 1 every sequence : !rows -> !rows
    return
  }
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[batch{dp, tp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @moved_by_a_part_of_the_group(%x: !rows) {
    // expected-error @+1 {{a group over {tp} does not have the same elements before (batch{dp, tp}) and after it (batch{tp, dp}) in dimension 0}}
    %0 = tpc.collective_permute %x over ["tp"] dim 0 : !rows -> tensor<?x8xf32, #tpc.dist<[batch{tp, dp}, 8], local>>
    return
  }
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[batch{tp, dp}, 8], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @exchanged_by_a_part_of_the_group(%x: !rows) {
    // expected-error @+1 {{a group over {tp} does not have the same elements before (batch{tp, dp}) and after it (batch{dp}) in dimension 0}}
    %0 = tpc.exchange %x over ["tp"] : !rows -> tensor<?x8xf32, #tpc.dist<[batch{dp}, 8], local>>
    return
  }
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[batch{dp}, 8], sum{tp}, local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func private @exchanged_as_if_added(%x: !partial) {
    // expected-error @+1 {{but nothing is added here}}
    %0 = tpc.exchange %x over ["dp", "tp"] : !partial -> tensor<?x4xf32, #tpc.dist<[batch{tp}, 8{dp}], local>>
    return
  }
}
