// Reasons for the distribution of a value: the tactic of each split, and the ops from the value to
// the seed.
// RUN: tpc-opt %s "--tpc-explain=shard=tp2,dp2 why=fc2" -o /dev/null | FileCheck %s
// RUN: tpc-opt %s "--tpc-explain=shard=tp2,dp2 why=act" -o /dev/null | FileCheck %s --check-prefix=ACT
// RUN: tpc-opt %s "--tpc-explain=shard=tp2,sp why=res" -o /dev/null | FileCheck %s --check-prefix=TOKENS
// RUN: tpc-opt %s "--tpc-explain=shard=tp2 why=w2 json" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: tpc-opt %s "--tpc-explain=shard=tp2 why=x" -o /dev/null | FileCheck %s --check-prefix=INPUT
// RUN: not tpc-opt %s "--tpc-explain=shard=tp2 why=fc3" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: 'fc2' (tpc.matmul) in @main: tensor<?x40xf32, #tpc.dist<[batch{dp}, 40]>>
// CHECK-NEXT: dimension 0: batch over dp
// CHECK-NEXT: by tactic dp: first dimension of the inputs
// CHECK-NEXT: from: parallel in 'fc2' (tpc.matmul)
// CHECK-NEXT: from: parallel in 'act' (tpc.gelu)
// CHECK-NEXT: from: parallel in 'fc1' (tpc.matmul)
// CHECK-NEXT: seed: input 'x'
// CHECK-NEXT: dimension 1: 40, unsplit
// CHECK-NEXT: 'norm' (tpc.rms_norm) needs all of it
// CHECK-NEXT: reduced over tp: the op sums over 160
// 2 * 20480 / 2 bytes of [128, 40] are sent; half of two matrices is saved.
// CHECK-NEXT: by tactic tp: sends 20480 bytes in a step of 128 tokens for 25600 bytes of weights
// CHECK-NEXT: seed: rows of 'fc2' (tpc.matmul)
// CHECK-NEXT: all_reduce over tp after it
// CHECK-NEXT: tp expects communication: sums over the 160 that tp splits
// CHECK-NOT: {{.}}

// ACT: 'act' (tpc.gelu) in @main: tensor<?x160xf32, #tpc.dist<[batch{dp}, 160{tp}]>>
// ACT: dimension 1: 160 over tp
// ACT-NEXT: by tactic tp: sends
// ACT-NEXT: from: parallel in 'act' (tpc.gelu)
// ACT-NEXT: seed: columns of 'fc1' (tpc.matmul)

// TOKENS: 'res' (tpc.add) in @main: tensor<?x40xf32, #tpc.dist<[batch{tp}, 40]>>
// TOKENS-NEXT: dimension 0: batch, unsplit
// TOKENS-NEXT: no tactic splits it
// TOKENS-NEXT: dimension 0: over tp
// TOKENS-NEXT: by tactic sp: tp splits nothing else in this op

// JSON: "op": "'w2' (tpc.parameter)"
// JSON: "path": [
// JSON-NEXT: "rows of 'fc2' (tpc.matmul)"
// JSON-NEXT: ],
// JSON-NEXT: "tactic": "tp"

// INPUT: input in @main
// INPUT: dimension 0: batch, unsplit
// INPUT-NEXT: inputs are whole on every rank

// NONE: error: the model has no node, value, weight or input 'fc3'; the nearest name is 'fc{{[12]}}'

!x = tensor<?x40xf32, #tpc.dist<[batch, 40]>>
!h = tensor<?x160xf32, #tpc.dist<[batch, 160]>>
tpc.weight @w1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @w2 in "w" at 25600 : tensor<160x40xf32>
tpc.weight @s in "w" at 51200 : tensor<40xf32>
func.func @main(%x: !x {tpc.name = "x"}) -> !x {
  %w1 = tpc.parameter @w1 : tensor<40x160xf32>
  %w2 = tpc.parameter @w2 : tensor<160x40xf32>
  %s = tpc.parameter @s : tensor<40xf32>
  %h = tpc.matmul %x, %w1 : !x, tensor<40x160xf32> -> !h loc("fc1")
  %g = tpc.gelu tanh %h : !h -> !h loc("act")
  %y = tpc.matmul %g, %w2 : !h, tensor<160x40xf32> -> !x loc("fc2")
  %r = tpc.add %x, %y : !x, !x -> !x loc("res")
  %n = tpc.rms_norm %r, %s epsilon 1.000000e-05 : !x, tensor<40xf32> -> !x loc("norm")
  return %n : !x
}
