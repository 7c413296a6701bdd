// RUN: not tpc-opt %s --tpc-outline-layers 2>&1 | FileCheck %s
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=tp2 2>&1 | FileCheck %s

// CHECK: error: 'tpc.annotation' op of value 'y' was not converted back to attributes; run tpc-attach-annotations first
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  tpc.annotation %y "y" {sharding = [unit, #tpc.dim<8{tp}>]} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
