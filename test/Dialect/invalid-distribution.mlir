// Typical errors of hand-written model parallelism are type errors.
// RUN: tpc-opt %s -split-input-file -verify-diagnostics

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
func.func @gelu_of_partial_sums(%x: !partial) {
  // expected-error @+1 {{is not linear in operand 0, which is unreduced (sum) over 'tp': reduce it first}}
  %0 = tpc.gelu none %x : !partial -> !partial
  return
}

// -----

!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
func.func @bias_on_every_rank(%x: !partial, %bias: tensor<8xf32>) {
  // expected-error @+1 {{is not linear in operand 0, which is unreduced (sum) over 'tp'}}
  %0 = tpc.add %x, %bias : !partial, tensor<8xf32> -> !partial
  return
}

// -----

!columns = tensor<?x16xf32, #tpc.dist<[b, 16{tp}]>>
!rows = tensor<16x8xf32, #tpc.dist<[16{tp}, 8]>>
!y = tensor<?x8xf32, #tpc.dist<[b, 8]>>
func.func @forgotten_reduction(%x: !columns, %w: !rows) {
  // expected-error @+1 {{leaves its result unreduced (sum) over 'tp', but the result type is not}}
  %0 = tpc.matmul %x, %w : !columns, !rows -> !y
  return
}

// -----

!columns = tensor<?x16xf32, #tpc.dist<[b, 16{tp}]>>
!rows = tensor<16x8xf32, #tpc.dist<[16{tp}, 8]>>
!y = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
func.func @bias_in_a_split_product(%x: !columns, %w: !rows, %bias: tensor<8xf32>) {
  // expected-error @+1 {{needs dimension 1 of operand 0 (size 16) unsplit, but it is split over {tp}}}
  %0 = tpc.matmul %x, %w bias %bias : !columns, !rows bias tensor<8xf32> -> !y
  return
}

// -----

!columns = tensor<?x16xf32, #tpc.dist<[b, 16{tp}]>>
func.func @split_on_one_side(%x: !columns, %w: tensor<16x8xf32>) {
  // expected-error @+1 {{splits the factor of size 16 over {tp} in operand 0, but over {} in operand 1}}
  %0 = tpc.matmul %x, %w : !columns, tensor<16x8xf32> -> tensor<?x8xf32, #tpc.dist<[b, 8]>>
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b, 8{tp}]>>
func.func @norm_of_split_features(%x: !x, %scale: tensor<8xf32, #tpc.dist<[8{tp}]>>) {
  // expected-error @+1 {{needs dimension 1 of operand 0 (size 8) unsplit, but it is split over {tp}}}
  %0 = tpc.rms_norm %x, %scale epsilon 1.0e-5 : !x, tensor<8xf32, #tpc.dist<[8{tp}]>> -> !x
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b, 8{tp}]>>
func.func @sharded_softmax(%x: !x) {
  // expected-error @+1 {{needs dimension 1 of operand 0 (size 8) unsplit}}
  %0 = tpc.softmax %x dim 1 : !x -> !x
  return
}

// -----

// A split inside of heads: the 40 columns are 5 heads of size 8.
func.func @heads_cut_apart(%x: tensor<?x40xf32, #tpc.dist<[b, 40{tp}]>>) {
  // expected-error @+1 {{operand 0 is split in dimension 1 over {tp} in a way that its factors do not allow}}
  %0 = tpc.reshape %x : tensor<?x40xf32, #tpc.dist<[b, 40{tp}]>> -> tensor<?x5x8xf32, #tpc.dist<[b, 5{tp}, 8]>>
  return
}

// -----

func.func @tokens_cut_apart(%x: tensor<?x8xf32, #tpc.dist<[(b*s){tp}, 8]>>) {
  // expected-error @+1 {{operand 0 is split in dimension 0 over {tp} in a way that its factors do not allow}}
  %0 = tpc.reshape %x : tensor<?x8xf32, #tpc.dist<[(b*s){tp}, 8]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s{tp}, 8]>>
  return
}

// -----

!table = tensor<10x8xf32, #tpc.dist<[10{tp}, 8]>>
!ids = tensor<?xi64, #tpc.dist<[s]>>
func.func @vocabulary_without_reduction(%table: !table, %ids: !ids) {
  // expected-error @+1 {{leaves its result unreduced (sum) over 'tp', but the result type is not}}
  %0 = tpc.embedding %table, %ids : !table, !ids -> tensor<?x8xf32, #tpc.dist<[s, 8]>>
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b, 8]>>
func.func @unreduced_for_no_reason(%x: !x) {
  // expected-error @+1 {{has a result type that is unreduced over 'tp', but neither a split reduction nor an operand causes that}}
  %0 = tpc.neg %x : !x -> tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
  return
}

// -----

// Partial maxima must not be added.
!max = tensor<?x8xf32, #tpc.dist<[b, 8], max{tp}>>
func.func @adding_partial_maxima(%x: !max) {
  // expected-error @+1 {{is not linear in operand 0, which is unreduced (max) over 'tp'}}
  %0 = tpc.add %x, %x : !max, !max -> !max
  return
}

// -----

func.func @local_and_global(%x: tensor<?x8xf32, #tpc.dist<[b, 8], local>>, %y: tensor<?x8xf32, #tpc.dist<[b, 8]>>) {
  // expected-error @+1 {{mixes the local value of type}}
  %0 = tpc.add %x, %y : tensor<?x8xf32, #tpc.dist<[b, 8], local>>, tensor<?x8xf32, #tpc.dist<[b, 8]>> -> tensor<?x8xf32, #tpc.dist<[b, 8], local>>
  return
}

// -----

// Valid: two unreduced branches added (a parallel residual), then reduced once.
!partial = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
func.func @delayed_reduction(%x: !partial, %y: !partial) -> tensor<?x8xf32, #tpc.dist<[b, 8]>> {
  %0 = tpc.add %x, %y : !partial, !partial -> !partial
  %1 = tpc.reshard %0 : !partial -> tensor<?x8xf32, #tpc.dist<[b, 8]>>
  return %1 : tensor<?x8xf32, #tpc.dist<[b, 8]>>
}

// -----

// A broadcast row cannot be split along the repeated dimension.
!x = tensor<4x8xf32, #tpc.dist<[4{tp}, 8]>>
!row = tensor<1x8xf32, #tpc.dist<[1{tp}, 8]>>
func.func @split_of_what_is_broadcast(%x: !x, %row: !row) {
  // expected-error @+1 {{operand 1 broadcasts in dimension 0, which must not be split over {tp}}}
  %0 = tpc.add %x, %row : !x, !row -> !x
  return
}

// -----

!sum = tensor<?x8xf32, #tpc.dist<[b, 8], sum{tp}>>
!max = tensor<?x8xf32, #tpc.dist<[b, 8], max{tp}>>
func.func @partial_sum_and_partial_maximum(%x: !sum, %y: !max) {
  // expected-error @+1 {{mixes values that reduce differently over 'tp'}}
  %0 = tpc.add %x, %y : !sum, !max -> !sum
  return
}

// -----

!table = tensor<10x8xf32, #tpc.dist<[10{tp}, 8]>>
!ids = tensor<?xi64, #tpc.dist<[s], sum{tp}>>
func.func @ids_still_unreduced(%table: !table, %ids: !ids) {
  // expected-error @+1 {{reduces over 'tp', but operand 1 is still unreduced over it}}
  %0 = tpc.embedding %table, %ids : !table, !ids -> tensor<?x8xf32, #tpc.dist<[s, 8], sum{tp}>>
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b{dp}, 8]>>
func.func @softmax_of_another_dimension(%x: !x) {
  // expected-error @+1 {{dim 2 is not a dimension of}}
  %0 = tpc.softmax %x dim 2 : !x -> !x
  return
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[b{dp}, 8]>>
func.func @slice_of_another_dimension(%x: !x) {
  // expected-error @+1 {{dim -1 is not a dimension of}}
  %0 = tpc.slice %x dim -1 from 4 : !x -> !x
  return
}
