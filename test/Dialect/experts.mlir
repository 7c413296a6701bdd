// tpc.moe: round trip, sharded types, and errors.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @forms
func.func @forms(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>,
                 %b: tensor<4x12xf32>) {
  // CHECK: tpc.moe relu %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} top_k 1 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  %0 = tpc.moe relu %x, %r, %u, %d top_k 1 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  // CHECK: tpc.moe silu {{.*}} gate %{{.*}} up_bias %{{.*}} gate_bias %{{.*}} top_k 2 alpha 1.702000e+00 beta 1.000000e+00 limit 7.000000e+00 :
  %1 = tpc.moe silu %x, %r, %u, %d gate %u up_bias %b gate_bias %b top_k 2 alpha 1.702 beta 1.0 limit 7.0
    : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> gate tensor<4x12x8xf32> up_bias tensor<4x12xf32> gate_bias tensor<4x12xf32> -> tensor<6x8xf32>
  return
}

// -----

// Experts and their inner width are split; results are partial sums.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, ep = 2, pp = 1, mb = 1>} {
// CHECK-LABEL: @sharded
func.func @sharded(%x: tensor<6x8xf32>, %r: tensor<6x5xf32>,
                   %u: tensor<5x12x8xf32, #tpc.dist<[5{ep}, 12{tp}, 8]>>,
                   %d: tensor<5x8x12xf32, #tpc.dist<[5{ep}, 8, 12{tp}]>>) {
  // CHECK: tpc.moe
  %0 = tpc.moe silu %x, %r, %u, %d top_k 2 : tensor<6x8xf32>, tensor<6x5xf32>, tensor<5x12x8xf32, #tpc.dist<[5{ep}, 12{tp}, 8]>>, tensor<5x8x12xf32, #tpc.dist<[5{ep}, 8, 12{tp}]>> -> tensor<6x8xf32, #tpc.dist<[6, 8], sum{ep, tp}>>
  return
}
}

// -----

func.func @sizes(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x9xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{moe: up [4, 12, 9] must be [4, 12, 8]}}
  %0 = tpc.moe relu %x, %r, %u, %d top_k 1 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x9xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @columns(%x: tensor<6x8xf32>, %r: tensor<6x3xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{moe: routing [6, 3] must be [6, 4]}}
  %0 = tpc.moe relu %x, %r, %u, %d top_k 1 : tensor<6x8xf32>, tensor<6x3xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @ranks(%x: tensor<2x3x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{moe needs x [tokens, hidden], up [experts, inner, hidden] and down [experts, outputs, inner], not [2, 3, 8], [4, 12, 8] and [4, 8, 12]}}
  %0 = tpc.moe relu %x, %r, %u, %d top_k 1 : tensor<2x3x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @gateless(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+1 {{has a gate_bias, beta or limit, but no gate}}
  %0 = tpc.moe silu %x, %r, %u, %d top_k 1 limit 7.0 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @alpha(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+1 {{has alpha, but its activation is relu, not silu}}
  %0 = tpc.moe relu %x, %r, %u, %d top_k 1 alpha 1.7 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @limit(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+1 {{has a negative limit}}
  %0 = tpc.moe silu %x, %r, %u, %d gate %u top_k 1 limit -7.0 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> gate tensor<4x12x8xf32> -> tensor<6x8xf32>
  return
}

// -----

func.func @top(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %d: tensor<4x8x12xf32>) {
  // expected-error@+1 {{has top_k 5; must be 1 to the number of experts, 4}}
  %0 = tpc.moe silu %x, %r, %u, %d top_k 5 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return
}
