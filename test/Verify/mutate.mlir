// Kinds of mutants and what each changes. (test/Integration/cpu/test_mutants.py tests that
// verifiers reject them.)
// DEFINE: %{kind} = list
// DEFINE: %{split} = --tpc-assign-shardings=shard=tp2,pp2,dp2,mb2 --tpc-insert-reshards --tpc-lower-reshards --tpc-localize --cse --tpc-split-stages --tpc-schedule-pipeline --cse
// DEFINE: %{mutate} = tpc-opt %S/../Transforms/Inputs/gpt2.mlir %{split} --verify-each=0 --tpc-mutate=kind=%{kind}

// RUN: %{mutate} -o /dev/null | FileCheck %s --check-prefix=LIST
// LIST: drop-collective: a collective is removed
// LIST: rank-branch: a collective is in a branch that some members do not take
// LIST: wrong-kv-group:

// REDEFINE: %{kind} = rank-branch,seed=1
// RUN: %{mutate} 2>&1 | FileCheck %s --check-prefix=BRANCH
// BRANCH: mutated: rank-branch
// BRANCH: tpc.iota dim 0 : tensor<1xi64, #tpc.dist<[2{tp}], local>>
// BRANCH: scf.if
// BRANCH-NEXT: tpc.all_reduce
// BRANCH: else

// The same seed gives the same mutant.
// RUN: %{mutate} 2>&1 > %t.1 && %{mutate} > %t.2 2>/dev/null && diff %t.1 %t.2

// REDEFINE: %{kind} = cross-micro-batches
// RUN: %{mutate} 2>&1 | FileCheck %s --check-prefix=CROSS
// CROSS: tpc.send {{.*}}batch{dp, mb}
// CROSS: tpc.recv {{.*}}batch{mb, dp}

// REDEFINE: %{kind} = nonsense
// RUN: not %{mutate} 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: error: tpc-mutate: there is no kind 'nonsense'; kind=list prints all
// REDEFINE: %{kind} = masked-row,sed=1
// RUN: not %{mutate} 2>&1 | FileCheck %s --check-prefix=SEED
// SEED: error: tpc-mutate: 'sed=1' is not seed=N
// REDEFINE: %{kind} = wrong-rotation
// RUN: not %{mutate} 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error: tpc-mutate: the program has no location for 'wrong-rotation'

// A program without a grid has no op that a rank could run differently.
// RUN: not tpc-opt %S/../Transforms/Inputs/gpt2.mlir --tpc-mutate=kind=transfer-in-branch -o /dev/null 2>&1 | FileCheck %s --check-prefix=GRID
// GRID: error: tpc-mutate: the program has no location for 'transfer-in-branch'
