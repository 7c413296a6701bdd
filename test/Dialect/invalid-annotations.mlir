// RUN: tpc-opt %s --split-input-file --verify-diagnostics

func.func @nothing(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'tpc.annotation' op needs a sharding or a stage}}
  tpc.annotation %x "x" : tensor<4x8xf32>
  return
}

// -----

func.func @dimensions(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'tpc.annotation' op 'sharding' has 1 entries, but the tensor has 2 dimensions}}
  tpc.annotation %x "x" {sharding = [#tpc.dim<4{tp}>]} : tensor<4x8xf32>
  return
}

// -----

// Distributions are rejected before annotations are attached.
module attributes {tpc.mesh = #tpc.mesh<tp = 2>} {
  func.func @distributed(%x: tensor<4x8xf32, #tpc.dist<[4{tp}, 8]>>) {
    // expected-error @+1 {{'tpc.annotation' op must not annotate a distributed value; run tpc-attach-annotations first}}
    tpc.annotation %x "x" {stage = 1 : i64} : tensor<4x8xf32, #tpc.dist<[4{tp}, 8]>>
    return
  }
}
