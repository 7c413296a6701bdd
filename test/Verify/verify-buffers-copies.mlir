// The verifier checks a rank's shard of a cache with replicated kv heads, independently of the
// plan.
// RUN: tpc-opt %S/../Conversion/Inputs/repeated-heads.mlir --tpc-alias-caches --tpc-outline-kernels --tpc-plan-buffers -o %t
// RUN: tpc-opt %t --tpc-verify-buffers -o /dev/null

// Copies of a head must be adjacent, and equally many for each. Otherwise a shard of copies is not
// a shard of heads.
// RUN: sed 's/dense<\[0, 0, 1, 1\]>/dense<[0, 1, 0, 1]>/' %t > %t.order
// RUN: not tpc-opt %t.order --tpc-verify-buffers -o /dev/null 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: reads cache @k0 for {{.*}}, which is not a slice of this cache

// RUN: sed 's/dense<\[0, 0, 1, 1\]>/dense<[0, 0, 1, 0]>/' %t > %t.other
// RUN: not tpc-opt %t.other --tpc-verify-buffers -o /dev/null 2>&1 | FileCheck %s --check-prefix=ORDER

// A value that is not an alias of a cache must be computed.
// RUN: sed '0,/dim 1 {tpc.aliased}/s//dim 1/' %t > %t.unheld
// RUN: not tpc-opt %t.unheld --tpc-verify-buffers -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNHELD
// UNHELD: is not computed: neither by a kernel nor by a cache's layout
