// A tpc.* attribute must be in the table of DiscardableAttrs.cpp, on an allowed op and with an
// allowed value.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{unknown attribute 'tpc.nonsense'}}
module attributes {tpc.nonsense} {
}

// -----

// expected-error @+1 {{'tpc.mesh' must be a #tpc.mesh, not 4 : i64}}
module attributes {tpc.mesh = 4} {
}

// -----

// expected-error @+1 {{'tpc.source' must be a path, not 1 : i64}}
module attributes {tpc.source = 1} {
}

// -----

// expected-error @+1 {{'tpc.constraints' must be a list of {expr = #tpc.expr<...>, ...}, not [{expr = #tpc.expr<s>, maximum = 4 : i64}]}}
module attributes {tpc.constraints = [{expr = #tpc.expr<s>, maximum = 4}]} {
}

// -----

// expected-error @+1 {{'tpc.schedule' must be a hash of 16 hexadecimal digits, not "none"}}
module attributes {tpc.schedule = "none"} {
}

// -----

// expected-error @+1 {{'tpc.batch' must be a #tpc.dim, not "batch"}}
module attributes {tpc.batch = "batch"} {
}

// -----

// expected-error @+1 {{'tpc.tactics' must be a list of {name, splits = [texts], predicts = [{axis, kind, size, why}, ...]}, not}}
module attributes {tpc.tactics = [{name = "tp", splits = [], predicts = [{axis = "tp"}]}]} {
}

// -----

// expected-error @+1 {{'tpc.layer' belongs on a function}}
module attributes {tpc.layer} {
}

// -----

// expected-error @+1 {{'tpc.layer' must be a unit attribute, not 1 : i64}}
func.func private @f() attributes {tpc.layer = 1}

// -----

// expected-error @+1 {{'tpc.mesh' belongs on the module}}
func.func private @f() attributes {tpc.mesh = #tpc.mesh<tp = 2>}

// -----

// expected-error @+1 {{'tpc.kernel' must be a number of dimensions that all results of its body have, not 2 : i64}}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tpc.kernel = 2} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'tpc.kernel' must be a number of dimensions}}
func.func private @f() attributes {tpc.kernel = 0} {
  return
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tpc.kernel' belongs on a function}}
  %0 = tpc.neg %x {tpc.kernel = 1} : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'tpc.fused' must be the index of an operand that the fused matmul computes and that has no other use, not 0 : i32}}
  %0 = tpc.add %x, %x {tpc.fused = 0 : i32} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'tpc.merged' must be a number that other matmuls of the same LHS have too, not 0 : i64}}
  %0 = tpc.matmul %x, %x {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'tpc.default' belongs on an input}}
  %0 = tpc.neg %x {tpc.default = #tpc.default<ones>} : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'tpc.split' must be a list of #tpc.dim, not ["tp"]}}
  %0 = tpc.neg %x {tpc.split = ["tp"]} : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tpc.rounds_parts' must be a unit attribute of the cast of a matmul from f32 to 16 bits, not unit}}
  %0 = tpc.neg %x {tpc.rounds_parts} : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 1: unknown attribute 'tpc.defualt'}}
func.func private @f(tensor<4xf32> {tpc.default = #tpc.default<ones>}, tensor<4xf32> {tpc.defualt = "ones"})

// -----

// expected-error @+1 {{argument 0: 'tpc.default' must be a #tpc.default, not "ones"}}
func.func private @f(tensor<4xf32> {tpc.default = "ones"})

// -----

// expected-error @+1 {{expected 'ones' or 'positions'}}
func.func private @f(tensor<4xf32> {tpc.default = #tpc.default<zeros>})

// -----

// expected-error @+1 {{unexpected end at column 7 of 'past +'}}
func.func private @f(tensor<4xf32> {tpc.default = #tpc.default<positions after "past +">})

// -----

// expected-error @+1 {{expected the name of a mask}}
func.func private @f(tensor<4xf32> {tpc.default = #tpc.default<positions of "">})

// -----

// expected-error @+1 {{argument 0: 'tpc.required' must be a text, not unit}}
func.func private @f(tensor<4xf32> {tpc.required})

// -----

// expected-error @+1 {{argument 0: 'tpc.name' must be a text, not 0 : i64}}
func.func private @f(tensor<4xf32> {tpc.name = 0})

// -----

// expected-error @+1 {{argument 0: 'tpc.kernel' belongs on a function}}
func.func private @f(tensor<4xf32> {tpc.kernel = 0})

// -----

// expected-error @+1 {{argument 0: 'tpc.sharding' belongs on a tpc.weight, an argument of @main, or an op with one result, a tensor}}
func.func private @f(f32 {tpc.sharding = []})

// -----

// expected-error @+1 {{argument 0: 'tpc.split' must be a list of #tpc.dim, not ["tp"]}}
func.func private @f(tensor<4xf32> {tpc.split = ["tp"]})

// -----

// expected-error @+1 {{result 0: unknown attribute 'tpc.nmae'}}
func.func private @f() -> (tensor<4xf32> {tpc.nmae = "y"})

// -----

// expected-error @+1 {{result 1: 'tpc.default' belongs on an input}}
func.func private @f() -> (tensor<4xf32> {tpc.name = "y"}, tensor<4xf32> {tpc.default = #tpc.default<ones>})

// -----

// expected-error @+1 {{input 0: 'tpc.default' must be a #tpc.default, not "zeros"}}
tpc.pipeline @main(%x: tensor<4xf32>) inputs [{tpc.default = "zeros"}] outputs [] {
  tpc.stage 0 {
  }
}

// -----

// expected-error @+1 {{input 0: unknown attribute 'tpc.defualt'}}
tpc.pipeline @main(%x: tensor<4xf32>) inputs [{tpc.defualt = "ones"}] outputs [] {
  tpc.stage 0 {
  }
}

// -----

// expected-error @+1 {{output 0 may have only the fields name (a text), type, tpc.copies, tpc.cache and tpc.update, but has 'nmae = "y"'}}
tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{nmae = "y", type = tensor<4xf32>}] {
  tpc.stage 0 {
  }
}

// -----

tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
  // expected-error @+1 {{'tpc.seconds' must be a number of seconds, not "much"}}
  tpc.stage 0 attributes {tpc.seconds = "much"} {
  }
}

// -----

func.func @stages_of_a_call(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tpc.pipeline_stage' must be the index of a stage or, on a call, a list of {node = "name", stage = index}, not [{node = "a", stage = 1 : i64}]}}
  %y = tpc.neg %x {tpc.pipeline_stage = [{node = "a", stage = 1}]} : tensor<4xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func private @layer(tensor<4xf32>) -> tensor<4xf32>
func.func @no_stages(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tpc.pipeline_stage' must be the index of a stage or, on a call, a list of {node = "name", stage = index}, not [{name = "a", stage = 1 : i64}]}}
  %y = call @layer(%x) {tpc.pipeline_stage = [{name = "a", stage = 1}]} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @+1 {{'tpc.recorded_stages' must be a list of {node = "name", stage = index}, not [{node = "a"}]}}
module attributes {tpc.recorded_stages = [{node = "a"}]} {
}

// -----

// expected-error @+1 {{argument 0: 'tpc.row_stride' must be a number of dimensions and a #tpc.expr, on an argument of a kernel, not [1]}}
func.func private @f(%x: tensor<4xf32> {tpc.row_stride = [1]}) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0: 'tpc.row_stride' must be a number of dimensions and a #tpc.expr, on an argument of a kernel}}
func.func private @f(%x: tensor<4xf32> {tpc.row_stride = [2, #tpc.expr<8>]}) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0: 'tpc.row_stride' must be a number of dimensions and a #tpc.expr, on an argument of a kernel}}
func.func private @f(%x: tensor<4xf32> {tpc.row_stride = [1, #tpc.expr<8>]}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
