// Errors of the verifiers of types and ops.
// RUN: tpc-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{size of atom 'tp' of the mesh must be at least 1, not 0}}
module attributes {tpc.mesh = #tpc.mesh<tp = 0, mb = 1>} {}

// -----

// expected-error @+1 {{'tp' of the mesh is given twice}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, tp = 2, mb = 1>} {}

// -----

// expected-error @+1 {{the mesh has more than 16777216 ranks}}
module attributes {tpc.mesh = #tpc.mesh<tp = 100000, dp = 100000>} {}

// -----

// expected-error @+1 {{number of micro-batches must be at least 1, not 0}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, mb = 0>} {}

// -----

// expected-error @+1 {{'tpc.constraints' must be a list of {expr = #tpc.expr<...>, ...}, not 5}}
module attributes {tpc.constraints = 5} {}

// -----

// expected-error @+1 {{'tpc.constraints' must be a list of {expr = #tpc.expr<...>, ...}, not [{max = 3 : i64}]}}
module attributes {tpc.constraints = [{max = 3 : i64}]} {}

// -----

// expected-error @+1 {{'tpc.constraints' must be a list of {expr = #tpc.expr<...>, ...}, not [{expr = "b"}]}}
module attributes {tpc.constraints = [{expr = "b"}]} {}

// -----

// expected-error @+1 {{unexpected end at column 4 of 'b +'}}
module attributes {tpc.constraints = [{expr = #tpc.expr<"b +">}]} {}

// -----

// expected-error @+1 {{'tpc.mesh' must be a #tpc.mesh}}
module attributes {tpc.mesh = 4} {}

// -----

// expected-error @+1 {{axis 'tp' occurs twice in a distribution}}
func.func private @f(tensor<?x8xf32, #tpc.dist<[b{tp}, 8{tp}]>>)

// -----

// expected-error @+1 {{axis 'tp' occurs twice in a distribution}}
func.func private @f(tensor<?x8xf32, #tpc.dist<[b, 8{tp}], sum{tp}>>)

// -----

// expected-error @+1 {{expected 'sum', 'max', 'min' or 'local'}}
func.func private @f(tensor<?x8xf32, #tpc.dist<[b, 8], product{tp}>>)

// -----

// expected-error @+1 {{axes on a product must not be nested}}
func.func private @f(tensor<?xf32, #tpc.dist<[((b{dp}*s){tp}){cp}]>>)

// -----

// expected-error @+1 {{axes on a product must be on the whole dimension}}
func.func private @f(tensor<?xf32, #tpc.dist<[(b{dp}*s){tp}*2]>>)

// -----

// expected-error @+1 {{unexpected '+' at column 5}}
func.func private @f(tensor<?xf32, #tpc.dist<["b + + s"]>>)

// -----

// expected-error @+1 {{a dimension cannot have size -2}}
func.func private @f(tensor<?xf32, #tpc.dist<["-2"]>>)

// -----

// expected-error @+1 {{offset must not be negative, but is -4}}
tpc.weight @w in "m.data" at -4 : tensor<8xf32>

// -----

// expected-error @+1 {{number of elements of 'tensor<4294967296x4294967296x4294967296xf32>' does not fit in 64 bits}}
tpc.weight @w in "m.data" at 0 : tensor<4294967296x4294967296x4294967296xf32>

// -----

func.func @f() {
  // expected-error @+1 {{there is no tpc.weight @w}}
  %0 = tpc.parameter @w : tensor<8xf32>
  return
}

// -----

tpc.weight @w in "m.data" at 0 : tensor<8xf32>
func.func @f() {
  // expected-error @+1 {{view has elements 4 to 11, but the weight has only 8}}
  %0 = tpc.parameter @w view <4 [[8 x 1]]> : tensor<8xf32>
  return
}

// -----

tpc.weight @w in "m.data" at 0 : tensor<8xf32>
func.func @f() {
  // expected-error @+1 {{result has sizes [4], but the weight or its view has [8]}}
  %0 = tpc.parameter @w : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x7xf32>) {
  // expected-error @+2 {{shapes [4, 8] and [4, 7] do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = tpc.add %x, %y : tensor<4x8xf32>, tensor<4x7xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %y: tensor<7x8xf32>) {
  // expected-error @+2 {{inner sizes 8 and 7 differ}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = tpc.matmul %x, %y : tensor<4x8xf32>, tensor<7x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #tpc.dist<[b*s]>>) {
  // expected-error @+1 {{cannot turn [b*s] (b*s elements) into [b, 2*s] (2*b*s elements)}}
  %0 = tpc.reshape %x : tensor<?xf32, #tpc.dist<[b*s]>> -> tensor<?x?xf32, #tpc.dist<[b, 2*s]>>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{takes 4 elements from 6 with step 1, but the dimension has only 8}}
  %0 = tpc.slice %x dim 0 from 6 : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<1x8xf32>) {
  // expected-error @+1 {{cannot broadcast [1, 8] to [3, 16]}}
  %0 = tpc.expand %x : tensor<1x8xf32> -> tensor<3x16xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x5x8xf32>, %k: tensor<1x4x2x8xf32>) {
  // expected-error @+2 {{5 query heads are not a multiple of 2 kv heads}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = tpc.attention %q, %k, %k scale 1.0 : tensor<1x4x5x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x6x8xf32>, %k: tensor<1x4x2x8xf32>, %sinks: tensor<2xf32>) {
  // expected-error @+2 {{sinks [2] must be [6], one for each query head}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = tpc.attention %q, %k, %k sinks %sinks scale 1.0 : tensor<1x4x6x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> sinks tensor<2xf32> -> tensor<1x4x6x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x6x8xf32>, %k: tensor<1x4x2x8xf32>, %sinks: tensor<6xf32>) {
  // expected-error @+1 {{has sinks, so a row without visible keys must be zero}}
  %0 = tpc.attention %q, %k, %k sinks %sinks scale 1.0 {masked_row = 1 : i32} : tensor<1x4x6x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> sinks tensor<6xf32> -> tensor<1x4x6x8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x4x6x8xf32>, %k: tensor<1x4x2x8xf32>, %slopes: tensor<2xf32>) {
  // expected-error @+2 {{slopes [2] must be [6], one for each query head}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = tpc.attention %q, %k, %k slopes %slopes scale 1.0 : tensor<1x4x6x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> slopes tensor<2xf32> -> tensor<1x4x6x8xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{must be replicated; take a tpc.local_slice of it}}
  %0 = tpc.constant dense<0> : tensor<8xi64> : tensor<8xi64, #tpc.dist<[8{tp}]>>
  return
}

// -----

// expected-error @+1 {{is redundant: a static, replicated tensor must not have a distribution}}
func.func private @f(tensor<12xf32, #tpc.dist<[3*4]>>)

// -----

// expected-error @+1 {{a tensor of rank 1 cannot have}}
func.func private @f(tensor<?xf32, #tpc.dist<[b, s]>>)

// -----

// expected-error @+1 {{dimension 1 of the tensor does not have the size that}}
func.func private @f(tensor<?x7xf32, #tpc.dist<[b, 8]>>)

// -----

// expected-error @+1 {{dimension 0 of the tensor does not have the size that}}
func.func private @f(tensor<4xf32, #tpc.dist<[b{dp}], local>>)

// -----

func.func @runs_of_another_size(%x: tensor<8x6xf32>) {
  // expected-error @+1 {{'every' is 4, but must divide the size of dimension 1, 6}}
  %0 = tpc.roll %x dim 1 from 1 every 4 : tensor<8x6xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @no_dimension(%x: tensor<8x6xf32>) {
  // expected-error @+1 {{dim 2 is not a dimension of}}
  %0 = tpc.roll %x dim 2 from 1 every 6 : tensor<8x6xf32> -> tensor<8x6xf32>
  return
}

// -----

// A rank cannot shift elements that other ranks have.
!half = tensor<4x6xf32, #tpc.dist<[8{tp}, 6], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2>} {
func.func @split_run(%x: !half) {
  // expected-error @+1 {{needs dimension 0 of operand 0 (size 8) unsplit, but it is split over {tp}}}
  %0 = tpc.roll %x dim 0 from 1 every 8 : !half -> !half
  return
}
}

// -----

// expected-error @+1 {{gpus_per_node must be at least 1}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, mb = 1, gpus_per_node = -8>} {}

// -----

// expected-error @+1 {{expected the axes of the unreduced value}}
func.func private @f(tensor<?x8xf32, #tpc.dist<[b, 8], sum>>)

// -----

// expected-error @+1 {{expected one factor}}
func.func private @f() attributes {x = #tpc.factor<2{tp} * 8>}

// -----

// expected-error @+1 {{type must be a static tensor, not 'tensor<?x8xf32>'}}
tpc.weight @w in "m.data" at 0 : tensor<?x8xf32>

// -----

tpc.weight @w in "m.data" at 0 : tensor<8xf32>
func.func @f() {
  // expected-error @+1 {{has a result type that is unreduced over 'tp', but neither a split reduction nor an operand causes that}}
  %0 = tpc.parameter @w : tensor<8xf32, #tpc.dist<[8], sum{tp}>>
  return
}

// -----

tpc.weight @w in "m.data" at 0 : tensor<8xf32>
func.func @f() {
  // expected-error @+1 {{must have static sizes}}
  %0 = tpc.parameter @w : tensor<?xf32, #tpc.dist<[s]>>
  return
}

// -----

tpc.weight @w in "m.data" at 0 : tensor<8xf16>
func.func @f() {
  // expected-error @+1 {{must have the element type of its weight, 'tensor<8xf16>'}}
  %0 = tpc.parameter @w : tensor<8xf32>
  return
}

// -----

tpc.weight @w in "m.data" at 0 : tensor<8xf32>
func.func @f() {
  // expected-error @+1 {{view exceeds 64 bits}}
  %0 = tpc.parameter @w view <0 [[3 x 9223372036854775807]]> : tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{changes the shape from [4, 8] to [8, 4]}}
  %0 = tpc.cast %x : tensor<4x8xf32> -> tensor<8x4xf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{must not change the element type}}
  %0 = tpc.reshape %x : tensor<4x8xf32> -> tensor<8x4xf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{must not change the element type}}
  %0 = tpc.slice %x dim 0 from 0 : tensor<4x8xf32> -> tensor<2x8xf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{step must not be 0}}
  %0 = tpc.slice %x dim 0 from 0 step 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{must change only dimension 0, but changes [4, 8] to [2, 7]}}
  %0 = tpc.slice %x dim 0 from 0 : tensor<4x8xf32> -> tensor<2x7xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{must have a scalar result (rank 0)}}
  %0 = tpc.size s : tensor<1xi64>
  return
}

// -----

// 16-bit sums may have f32 results; no other types may differ.
func.func @rounded_product(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{'tpc.matmul' op inferred type(s) 'tensor<4x8xf32>' are incompatible with return type(s) of operation 'tensor<4x8xf16>'}}
  %0 = tpc.matmul %x, %y : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf16>
  return
}

// -----

func.func @product_of_another_half(%x: tensor<4x8xf16>, %y: tensor<8x8xf16>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{are incompatible with return type(s) of operation 'tensor<4x8xbf16>'}}
  %0 = tpc.matmul %x, %y : tensor<4x8xf16>, tensor<8x8xf16> -> tensor<4x8xbf16>
  return
}

// -----

func.func @norm_of_another_size(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale and bias of a normalization over [4, 8] must be [8], not [4]}}
  %0 = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

// A norm of f32 may have 16-bit parameters and results, but not the reverse.
func.func @norm_of_halves(%x: tensor<4x8xf16>, %s: tensor<8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale and bias of a normalization must have the element type of the operand, or both be 16-bit floats if it is f32}}
  %0 = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<4x8xf16>, tensor<8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @attention_grad(%q: tensor<2x3x4x5xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{there is no gradient of operand 3; expected 0 (q), 1 (k) or 2 (v)}}
  %0 = tpc.attention_grad 3 %q, %q, %q, %q scale 1.0 : tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32> -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @attention_grad(%q: tensor<2x3x4x5xf32>, %d: tensor<2x3x4x6xf32>) {
  // expected-error @+1 {{has a cotangent [2, 3, 4, 6], but the result of the attention is [2, 3, 4, 5]}}
  %0 = tpc.attention_grad 0 %q, %q, %q, %d scale 1.0 : tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @attention_grad(%q: tensor<2x3x4x5xf32>, %k: tensor<2x3x3x5xf32>) {
  // expected-error @+1 {{4 query heads are not a multiple of 3 kv heads}}
  %0 = tpc.attention_grad 0 %q, %k, %k, %q scale 1.0 : tensor<2x3x4x5xf32>, tensor<2x3x3x5xf32>, tensor<2x3x3x5xf32>, tensor<2x3x4x5xf32> -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @scatter_add(%d: tensor<6x4xf32>, %ids: tensor<6xi64>) {
  // expected-error @+1 {{has a result [4]; expected [rows, width]}}
  %0 = tpc.scatter_add %d, %ids : tensor<6x4xf32>, tensor<6xi64> -> tensor<4xf32>
  return
}

// -----

func.func @scatter_add(%d: tensor<6x4xf32>, %ids: tensor<5xi64>) {
  // expected-error @+1 {{has updates [6, 4]; expected [5, 4], one row of the result for each id}}
  %0 = tpc.scatter_add %d, %ids : tensor<6x4xf32>, tensor<5xi64> -> tensor<8x4xf32>
  return
}

// -----

func.func @scatter_add(%d: tensor<6x4xf32>, %ids: tensor<6xi64>) {
  // expected-error @+1 {{must not change the element type}}
  %0 = tpc.scatter_add %d, %ids : tensor<6x4xf32>, tensor<6xi64> -> tensor<8x4xf16>
  return
}
