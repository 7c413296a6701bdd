// RUN: tpc-opt %s -split-input-file -verify-diagnostics

// Text that is not a size is an error everywhere, and never the size 0.

// expected-error @+1 {{unexpected end at column 4 of 'b +'}}
module attributes {tpc.constraints = [{expr = #tpc.expr<"b +">}]} {}

// -----

// expected-error @+1 {{expected valid keyword or string}}
module attributes {tpc.constraints = [{expr = #tpc.expr<[b]>}]} {}

// -----

// expected-error @+1 {{integer value too large}}
module attributes {tpc.constraints = [{expr = #tpc.expr<9223372036854775808>}]} {}

// -----

// expected-error @+1 {{unexpected end at column 1 of ''}}
func.func private @f(tensor<?xf32, #tpc.dist<[""]>>)

// -----

// expected-error @+1 {{an integer does not fit in 64 bits}}
func.func private @f(tensor<?xf32, #tpc.dist<["s + 9223372036854775808"]>>)

// -----

// expected-error @+1 {{a coefficient does not fit in 64 bits}}
func.func private @f(tensor<?xf32, #tpc.dist<["4611686018427387904*s + 4611686018427387904*s"]>>)

// -----

func.func @slice(%x: tensor<8xf32>) {
  // expected-error @+1 {{unexpected '$' at column 1 of '$'}}
  %0 = tpc.slice %x dim 0 from "$" : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @text_for_a_size(%x: tensor<8xf32>) {
  // expected-error @+1 {{Invalid attribute `start` in property conversion: "2"}}
  %0 = "tpc.slice"(%x) <{dim = 0 : i64, start = "2", step = 1 : i64}> : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @roll_from(%x: tensor<8x6xf32>) {
  // expected-error @+1 {{unexpected end at column 4 of '1 +'}}
  %0 = tpc.roll %x dim 1 from "1 +" every 6 : tensor<8x6xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @roll_every(%x: tensor<8x6xf32>) {
  // expected-error @+1 {{division by zero}}
  %0 = tpc.roll %x dim 1 from 1 every "6 // 0" : tensor<8x6xf32> -> tensor<8x6xf32>
  return
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[b{tp}, 8], local>>
func.func @permute(%x: !rows) {
  // expected-error @+1 {{expected ')'}}
  %0 = tpc.collective_permute %x over ["tp"] dim 0 from "min(b, 1" every b : !rows -> !rows
  return
}

// -----

func.func @size() {
  // expected-error @+1 {{unknown function 'foo'}}
  %0 = tpc.size "foo(1, 2)" : tensor<i64>
  return
}

// -----

func.func @trilu(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{unexpected end}}
  %0 = tpc.trilu %x k "-" : tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @attention(%q: tensor<1x4x4x8xf32>) {
  // expected-error @+1 {{unexpected end at column 4 of '1 +'}}
  %0 = tpc.attention causal %q, %q, %q scale 1.0 offset "1 +" : tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32> -> tensor<1x4x4x8xf32>
  return
}

// -----

func.func @window(%q: tensor<1x4x4x8xf32>) {
  // expected-error @+1 {{unexpected end at column 4 of '1 +'}}
  %0 = tpc.attention causal %q, %q, %q scale 1.0 window "1 +" : tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32> -> tensor<1x4x4x8xf32>
  return
}

// -----

// expected-error @+1 {{not a size: nested too deeply}}
func.func private @f(tensor<?xf32, #tpc.dist<[((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((s))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))]>>)
