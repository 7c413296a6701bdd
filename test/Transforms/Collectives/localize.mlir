// RUN: tpc-opt %s --tpc-localize --split-input-file --verify-diagnostics | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  // Sizes that are equal on all ranks are static; others are dynamic. Types of unsplit values have
  // no encoding.
  // CHECK-LABEL: @local
  // CHECK-SAME: tensor<4x?xf32, #tpc.dist<[8{tp}, s], local>>
  // CHECK-SAME: tensor<?x5xf32, #tpc.dist<[7{tp}, 5], local>>
  // CHECK-SAME: tensor<7xf32>)
  func.func @local(%a: tensor<8x?xf32, #tpc.dist<[8{tp}, s]>>, %b: tensor<7x5xf32, #tpc.dist<[7{tp}, 5]>>, %c: tensor<7xf32>)
      -> tensor<7x5xf32, #tpc.dist<[7{tp}, 5]>> {
    // CHECK: tpc.exp {{.*}} -> tensor<?x5xf32, #tpc.dist<[7{tp}, 5], local>>
    %e = tpc.exp %b : tensor<7x5xf32, #tpc.dist<[7{tp}, 5]>> -> tensor<7x5xf32, #tpc.dist<[7{tp}, 5]>>
    return %e : tensor<7x5xf32, #tpc.dist<[7{tp}, 5]>>
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  func.func @reshard(%a: tensor<8xf32>) -> tensor<8xf32, #tpc.dist<[8{tp}]>> {
    // expected-error @below {{a reshard remains: run tpc-lower-reshards first}}
    %b = tpc.reshard %a : tensor<8xf32> -> tensor<8xf32, #tpc.dist<[8{tp}]>>
    return %b : tensor<8xf32, #tpc.dist<[8{tp}]>>
  }
}

// -----

// expected-error @below {{has no tpc.mesh}}
module {
}
