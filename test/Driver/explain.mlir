// RUN: tpc-opt %s "--tpc-explain=shard=tp2 shape=batch=4" | FileCheck %s
// RUN: tpc-opt %s "--tpc-explain=shard=tp2 json=true" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: not tpc-opt %s "--tpc-explain=shard=tp0" 2>&1 | FileCheck %s --check-prefix=SPEC
// RUN: not tpc-opt %s "--tpc-explain=shard=tp2 shape=batch" 2>&1 | FileCheck %s --check-prefix=SHAPE
// SPEC: for the --shard option: {{.*}}'tp0'
// SHAPE: error: shape: 'batch' is not name=size

// CHECK: Tactic by tactic, for one step with batch=4:
// CHECK-NEXT: annotations: dimensions that the user annotates
// CHECK-NEXT: splits nothing
// CHECK-NEXT: dp
// CHECK-NEXT: splits nothing
// CHECK-NEXT: tp
// CHECK-NEXT: 160 over tp 2: fc1 (columns), fc2 (rows) (sends 20480 bytes in a step of 128 tokens for 25600 bytes of weights)
// 4 * 40 * 4 bytes.
// CHECK-NEXT: tp all_reduce: +1, +640 B
// Weights: 2 * 40 * 160 * 4 bytes. Live: two values of [4, 160], then of [4, 80].
// CHECK-NEXT: peak per rank 55.0 KiB -> 27.5 KiB, of which weights 50.0 KiB -> 25.0 KiB
// The program is unchanged.
// CHECK-NOT: tpc.split

// JSON: "shape": {
// JSON: "batch": 1
// JSON: "tactics": [
// JSON: "kind": "all_reduce"
// JSON: "peak_bytes"
tpc.weight @w1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @w2 in "w" at 25600 : tensor<160x40xf32>
func.func @main(%x: tensor<?x40xf32, #tpc.dist<[batch, 40]>>) -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> {
  %w1 = tpc.parameter @w1 : tensor<40x160xf32>
  %w2 = tpc.parameter @w2 : tensor<160x40xf32>
  %h = tpc.matmul %x, %w1 : tensor<?x40xf32, #tpc.dist<[batch, 40]>>, tensor<40x160xf32> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>> loc("fc1")
  %g = tpc.gelu tanh %h : tensor<?x160xf32, #tpc.dist<[batch, 160]>> -> tensor<?x160xf32, #tpc.dist<[batch, 160]>>
  %y = tpc.matmul %g, %w2 : tensor<?x160xf32, #tpc.dist<[batch, 160]>>, tensor<160x40xf32> -> tensor<?x40xf32, #tpc.dist<[batch, 40]>> loc("fc2")
  return %y : tensor<?x40xf32, #tpc.dist<[batch, 40]>>
}
