// RUN: tpc-opt %s -split-input-file -verify-diagnostics --tpc-verify-bounds

// The value is large but possible, because there are at most 1024 rows.
module attributes {tpc.constraints = [{expr = #tpc.expr<s>, min = 1 : i64, max = 1024 : i64, why = "positions"}]} {
  func.func @main(%x: tensor<?x1000000xf32, #tpc.dist<[s, 1000000]>>) {
    %0 = tpc.reshape %x : tensor<?x1000000xf32, #tpc.dist<[s, 1000000]>> -> tensor<?xf32, #tpc.dist<[1000000 * s]>>
    return
  }
}

// -----

func.func @main(%x: tensor<1xf32>) {
  // expected-error @below {{makes a value 'tensor<2000000000000xf32>' of at least 8000000000000 bytes, more than the budget of 1099511627776 for one value: is a size of the model wrong?}}
  %0 = tpc.expand %x : tensor<1xf32> -> tensor<2000000000000xf32>
  return
}

// -----

func.func @main(%x: tensor<1x1x1xi8>) {
  // expected-error @below {{makes a value 'tensor<4000000000x4000000000x4000000000xi8>' of up to 64000000000000000000000000000 bytes, more than 64 bits can count (9223372036854775807); constrain its sizes (symbols without a constraint are taken to be up to 32768)}}
  %0 = tpc.expand %x : tensor<1x1x1xi8> -> tensor<4000000000x4000000000x4000000000xi8>
  return
}

// -----

// The value is too large because the symbol is unbounded. If it were at most 2, the value would be
// small.
func.func @main(%x: tensor<1xf32>) {
  // expected-error @below {{of up to 604462909807314587353088 bytes}}
  %0 = tpc.expand %x : tensor<1xf32> -> tensor<?x?x?x?xf32, #tpc.dist<[4 * s, s, s, s * s]>>
  return
}

// -----

// Both operands fit, but the result of their matmul does not.
func.func @main(%x: tensor<?x?xf32, #tpc.dist<[16 * s * s, s]>>, %y: tensor<?x?xf32, #tpc.dist<[s, s * s]>>) {
  // expected-error @below {{makes a value 'tensor<?x?xf32, #tpc.dist<[16*s*s, s*s]>>' of up to 73786976294838206464 bytes}}
  %0 = tpc.matmul %x, %y : tensor<?x?xf32, #tpc.dist<[16 * s * s, s]>>, tensor<?x?xf32, #tpc.dist<[s, s * s]>> -> tensor<?x?xf32, #tpc.dist<[16 * s * s, s * s]>>
  return
}

// -----

func.func @main(%x: tensor<?x?xi8, #tpc.dist<[16 * s, s * s]>>, %y: tensor<?x?xi8, #tpc.dist<[s * s, s]>>) {
  // expected-error @below {{runs over up to 18446744073709551616 combinations of its indices, more than 64 bits can count (9223372036854775807); constrain its sizes}}
  %0 = tpc.matmul %x, %y : tensor<?x?xi8, #tpc.dist<[16 * s, s * s]>>, tensor<?x?xi8, #tpc.dist<[s * s, s]>> -> tensor<?x?xi8, #tpc.dist<[16 * s, s]>>
  return
}

// -----

// Attention's loop nest for scores is too large; that for values is not.
!q = tensor<1x?x1x?xf32, #tpc.dist<[1, s, 1, 16 * s * s]>>
!v = tensor<1x?x1x8xf32, #tpc.dist<[1, s, 1, 8]>>
func.func @main(%q: !q, %v: !v) {
  // expected-error @below {{runs over up to 18446744073709551616 combinations of its indices}}
  %0 = tpc.attention %q, %q, %v scale 1.0 : !q, !q, !v -> !v
  return
}

// -----

// The larger of two ranks' shards is too large.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1>} {
  func.func @main(%x: tensor<1xf32>) {
    %0 = tpc.expand %x : tensor<1xf32> -> tensor<200000000000xf32, #tpc.dist<[400000000000{tp}], local>>
    // expected-error @below {{of at least 1600000000004 bytes, more than the budget}}
    %1 = tpc.expand %x : tensor<1xf32> -> tensor<?xf32, #tpc.dist<[800000000001{tp}], local>>
    return
  }
}

// -----

// expected-error @below {{ends at byte 9223372036854775808 of its file, more than 64 bits can count (9223372036854775807)}}
tpc.weight @w in "w" at 9223372036854775792 : tensor<4xf32>
func.func @main() {
  return
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1>} {
  // expected-error @below {{has a size in 'tensor<?xf32, #tpc.dist<[4000000000{tp}*4000000000], local>>' whose coefficients exceed 64 bits}}
  func.func @main(%x: tensor<?xf32, #tpc.dist<[4000000000{tp} * 4000000000], local>>) {
    return
  }
}

// -----

// An op with unknown cost is not assumed to be loop-free.
func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{(arith.negf) cannot be bounded: the verifier has no trip counts for this op}}
  %0 = arith.negf %x : tensor<4xf32>
  return
}
