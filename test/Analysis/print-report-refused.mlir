// Sizes that are negative or exceed 64 bits for the requested shape are rejected.
// RUN: split-file %s %t
// RUN: not tpc-opt %t/program.mlir --tpc-print-report=shape=batch=1,rows=9 -o /dev/null 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not tpc-opt %t/program.mlir --tpc-print-report=shape=batch=9,rows=1 -o /dev/null 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not tpc-opt %t/program.mlir --tpc-print-report=shape=batch=9,rows=4611686018427387904 -o /dev/null 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: tpc-opt %t/program.mlir --tpc-print-report=shape=batch=9,rows=9 -o /dev/null | FileCheck %s --check-prefix=FITS
// BATCH: program.mlir:4:5: error: the size of the batch is not known
// OUTPUT: program.mlir:5:7: error: the size of the output is not known
// FITS: stage 0, output: 1 x gather, 140 B

//--- program.mlir
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 2>} {
tpc.pipeline @main(%x: tensor<?x5xf32, #tpc.dist<["rows - 2", 5], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y"}] {
  tpc.stage 0 {
    tpc.micro_batches of #tpc.dim<"batch - 5"{mb}> {
      tpc.output 0, %x : tensor<?x5xf32, #tpc.dist<["rows - 2", 5], local>>
    }
  }
}
}
