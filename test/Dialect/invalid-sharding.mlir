// RUN: tpc-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'tpc.sharding' must be an array of #tpc.dim, not "tp"}}
tpc.weight @w in "w" at 0 {tpc.sharding = "tp"} : tensor<16x8xf32>

// -----

// expected-error @below {{'tpc.sharding' has 1 entries, but the tensor has 2 dimensions}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{tp}>]} : tensor<16x8xf32>

// -----

// expected-error @below {{'tpc.sharding' entry 1 must be a #tpc.dim or unit, not "tp"}}
tpc.weight @w in "w" at 0 {tpc.sharding = [unit, "tp"]} : tensor<16x8xf32>

// -----

// expected-error @below {{'tpc.sharding' entry 0 has size 15, but the dimension has 16}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<15{tp}>, unit]} : tensor<16x8xf32>

// -----

// expected-error @below {{'tpc.sharding' entry 0 splits a product; name the factor to split}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<(2{dp} * 8){tp}>, unit]} : tensor<16x8xf32>

// -----

// expected-error @below {{'tpc.sharding' uses axis 'tp' twice}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{tp}>, #tpc.dim<8{tp}>]} : tensor<16x8xf32>

// -----

// expected-error @below {{'tpc.sharding' 'pp' splits layers, not dimensions; use ppN or mbN}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{pp}>, unit]} : tensor<16x8xf32>

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, mb = 1>} {
  // expected-error @below {{'tpc.sharding' the grid has no axis 'cp'; it has tp, dp}}
  tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{cp}>, unit]} : tensor<16x8xf32>
}

// -----

func.func @f() {
  // expected-error @below {{'tpc.sharding' belongs on a tpc.weight, an argument of @main, or an op with one result, a tensor}}
  return {tpc.sharding = [unit]}
}
