// The tools start, and tpc-opt has upstream's dialects.
// RUN: tpc-opt %s --canonicalize | FileCheck %s
// RUN: tpc-reduce --help | FileCheck %s --check-prefix=REDUCE
// RUN: not tpc-opt %s --no-such-pass 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A tool does not open its output over its input.
// RUN: cp %s %t.mlir && ln -sf %t.mlir %t.link
// RUN: not tpc-opt %t.mlir -o %t.mlir 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not tpc-opt %t.mlir -o=%t.link 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not tpc-translate --import-onnx %t.mlir -o %t.mlir 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: cmp %s %t.mlir
// SAME: error: the output '{{.*}}' is the input '{{.*}}.mlir': the input would be overwritten

// A tool that fails leaves its output as it was.
// RUN: echo before > %t.before && not tpc-opt %s --tpc-verify-comms=nonsense -o %t.before && grep before %t.before
// RUN: tpc-opt %s -o %t.before && FileCheck %s --check-prefix=AFTER --input-file=%t.before
// AFTER: @keeps_sizes

// REDUCE: USAGE: tpc-reduce
// UNKNOWN: Unknown command line argument '--no-such-pass'

// CHECK-LABEL: func.func @keeps_sizes
// CHECK-NEXT: return %arg0 : tensor<?xf32>
func.func @keeps_sizes(%arg0: tensor<?xf32>) -> tensor<?xf32> {
  %0 = tensor.cast %arg0 : tensor<?xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}
