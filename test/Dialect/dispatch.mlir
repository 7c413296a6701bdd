// tpc.dispatch and tpc.combine: round trip and errors.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 1>} {
// CHECK-LABEL: @forms
func.func @forms(%p: tensor<3x12xf32, #tpc.dist<[6{dp}, 12], local>>, %y: tensor<6x8xf32, #tpc.dist<[6, 8], sum{dp}, local>>) {
  // CHECK: tpc.dispatch %{{.*}} over ["dp"] from 8 experts {{.*}}4{dp}{{.*}} top_k 2 :
  %0 = tpc.dispatch %p over ["dp"] from 8 experts <4{dp}> top_k 2 : tensor<3x12xf32, #tpc.dist<[6{dp}, 12], local>> -> tensor<6x12xf32>
  // CHECK: tpc.combine %{{.*}} over ["dp"] experts {{.*}}4{dp}{{.*}} top_k 2 :
  %1 = tpc.combine %y over ["dp"] experts <4{dp}> top_k 2 : tensor<6x8xf32, #tpc.dist<[6, 8], sum{dp}, local>> -> tensor<3x8xf32, #tpc.dist<[6{dp}, 8], local>>
  return
}
}

// -----

// The rows of a rank must be adjacent.
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 1>} {
func.func @rows(%p: tensor<6x12xf32, #tpc.dist<[3*4{dp}, 12], local>>) {
  // expected-error@+1 {{needs adjacent rows: 'dp' must split the outermost factor}}
  %0 = tpc.dispatch %p over ["dp"] from 8 experts <4{dp}> top_k 2 : tensor<6x12xf32, #tpc.dist<[3*4{dp}, 12], local>> -> tensor<12x12xf32>
  return
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 1>} {
func.func @columns(%p: tensor<3x12xf32, #tpc.dist<[6{dp}, 12], local>>) {
  // expected-error@+1 {{has no columns 9 to 12}}
  %0 = tpc.dispatch %p over ["dp"] from 9 experts <4{dp}> top_k 2 : tensor<3x12xf32, #tpc.dist<[6{dp}, 12], local>> -> tensor<6x12xf32>
  return
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
func.func @experts(%p: tensor<3x12xf32, #tpc.dist<[6{dp}, 12], local>>) {
  // expected-error@+1 {{its experts are not split over 'dp'}}
  %0 = tpc.dispatch %p over ["dp"] from 8 experts <4{tp}> top_k 2 : tensor<3x12xf32, #tpc.dist<[6{dp}, 12], local>> -> tensor<6x12xf32>
  return
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 1>} {
func.func @sum(%y: tensor<6x8xf32, #tpc.dist<[6, 8], max{dp}, local>>) {
  // expected-error@+1 {{needs an operand that is unreduced by sum}}
  %0 = tpc.combine %y over ["dp"] experts <4{dp}> top_k 2 : tensor<6x8xf32, #tpc.dist<[6, 8], max{dp}, local>> -> tensor<3x8xf32, #tpc.dist<[6{dp}, 8], local>>
  return
}
}

// -----

module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 1, mb = 1>} {
func.func @selected(%y: tensor<6x8xf32, #tpc.dist<[6, 8], sum{dp}, local>>) {
  // expected-error@+1 {{has top_k 5; must be 1 to the number of experts, 4}}
  %0 = tpc.combine %y over ["dp"] experts <4{dp}> top_k 5 : tensor<6x8xf32, #tpc.dist<[6, 8], sum{dp}, local>> -> tensor<3x8xf32, #tpc.dist<[6{dp}, 8], local>>
  return
}
}
