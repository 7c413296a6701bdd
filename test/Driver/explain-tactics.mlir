// The effect of each tactic, with numbers that can be verified by hand. Two MLPs, each with its
// residual.
// RUN: tpc-opt %s "--tpc-explain=shard=tp2,sp shape=tokens=4" -o /dev/null | FileCheck %s --check-prefix=SP
// RUN: tpc-opt %s "--tpc-explain=shard=tp2,pp2 shape=tokens=4" -o /dev/null | FileCheck %s --check-prefix=PP
// RUN: tpc-opt %s "--tpc-explain=shard=dp2,mb3" -o /dev/null | FileCheck %s --check-prefix=DP
// RUN: tpc-opt %s "--tpc-explain=shard=tp2,manual" -o /dev/null | FileCheck %s --check-prefix=MANUAL

// Four matrices of 25600 bytes; a rank has half of each. Live: two values of [4, 160], then of [4,
// 80], and the residual, 640 bytes. One all-reduce of [4, 40] for each MLP.
// SP: Tactic by tactic, for one step with tokens=4:
// SP: {{^}}tp: 
// SP-NEXT: 160 over tp 2: a1 (columns), a2 (rows)
// SP-NEXT: 160 over tp 2: b1 (columns), b2 (rows)
// SP-NEXT: {{^}}  tp all_reduce: +2, +1.2 KiB
// SP-NEXT: peak per rank 105.6 KiB -> 53.1 KiB, of which weights 100.0 KiB -> 50.0 KiB
// SP-NEXT: vocabulary
// SP-NEXT: splits nothing
// Reduce-scatters replace the all-reduces. The input is whole, and the output stays sharded, so the
// only gather is between the MLPs.
// SP-NEXT: {{^}}sp: 
// SP-NEXT: tokens tokens over tp 2 between row-parallel and column-parallel matmuls: 2 ops
// SP-NEXT: {{^}}  tp all_gather: +1, +640 B
// SP-NEXT: {{^}}  tp all_reduce: -2, -1.2 KiB
// SP-NEXT: {{^}}  tp reduce_scatter: +2, +1.2 KiB
// SP-NEXT: peak per rank 53.1 KiB -> 52.8 KiB, of which weights 50.0 KiB -> 50.0 KiB
// SP-NOT: {{.}}

// Stages are cut last. Each has two of the matrices, and the residual is sent.
// PP: {{^}}tp: 
// PP: {{^}}pp: 
// PP-NEXT: layers over 2 stages
// PP-NEXT: {{^}}  pp send: +1, +640 B
// PP-NEXT: peak per rank 53.1 KiB -> 28.1 KiB, of which weights 50.0 KiB -> 25.0 KiB
// PP-NOT: {{.}}

// Without --shape there is one sample for each replica and micro-batch: six tokens, of which a rank
// has one at a time.
// DP: for one step with tokens=6:
// DP: {{^}}dp: 
// DP-NEXT: batch tokens over 2 replicas, 3 micro-batches
// DP-NEXT: peak per rank 108.4 KiB -> 101.4 KiB, of which weights 100.0 KiB -> 100.0 KiB
// DP-NEXT: {{^}}tp: 
// DP-NEXT: splits nothing

// With `manual`, annotations alone split tp and dp, and there are none.
// MANUAL: annotations
// MANUAL-NEXT: splits nothing
// MANUAL-NEXT: {{^}}dp: 
// MANUAL-NEXT: splits nothing
// MANUAL-NOT: {{.}}

!x = tensor<?x40xf32, #tpc.dist<[tokens, 40]>>
!h = tensor<?x160xf32, #tpc.dist<[tokens, 160]>>
tpc.weight @a1 in "w" at 0 : tensor<40x160xf32>
tpc.weight @a2 in "w" at 25600 : tensor<160x40xf32>
tpc.weight @b1 in "w" at 51200 : tensor<40x160xf32>
tpc.weight @b2 in "w" at 76800 : tensor<160x40xf32>
func.func @main(%x: !x) -> !x {
  %a1 = tpc.parameter @a1 : tensor<40x160xf32>
  %a2 = tpc.parameter @a2 : tensor<160x40xf32>
  %b1 = tpc.parameter @b1 : tensor<40x160xf32>
  %b2 = tpc.parameter @b2 : tensor<160x40xf32>
  %0 = tpc.matmul %x, %a1 : !x, tensor<40x160xf32> -> !h loc("a1")
  %1 = tpc.gelu tanh %0 : !h -> !h
  %2 = tpc.matmul %1, %a2 : !h, tensor<160x40xf32> -> !x loc("a2")
  %3 = tpc.add %x, %2 : !x, !x -> !x
  %4 = tpc.matmul %3, %b1 : !x, tensor<40x160xf32> -> !h loc("b1")
  %5 = tpc.gelu tanh %4 : !h -> !h
  %6 = tpc.matmul %5, %b2 : !h, tensor<160x40xf32> -> !x loc("b2")
  %7 = tpc.add %3, %6 : !x, !x -> !x
  return %7 : !x
}
