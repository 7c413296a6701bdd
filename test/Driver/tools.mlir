// The tools start and know upstream's dialects.
// RUN: tpc-opt %s --canonicalize | FileCheck %s
// RUN: tpc-reduce --help | FileCheck %s --check-prefix=REDUCE
// RUN: not tpc-opt %s --no-such-pass 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// REDUCE: USAGE: tpc-reduce
// UNKNOWN: Unknown command line argument '--no-such-pass'

// CHECK-LABEL: func.func @keeps_sizes
// CHECK-NEXT: return %arg0 : tensor<?xf32>
func.func @keeps_sizes(%arg0: tensor<?xf32>) -> tensor<?xf32> {
  %0 = tensor.cast %arg0 : tensor<?xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}
