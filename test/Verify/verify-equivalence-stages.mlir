// A broadcast between stages sends a value of one stage to others, so the text of one stage does
// not define its result.
// RUN: split-file %s %t
// RUN: not tpc-opt %t/staged.mlir "--tpc-verify-equivalence=reference=%t/model.mlir interpret=false" 2>&1 | FileCheck %s
// CHECK: (tpc.broadcast) cannot be proved: its group reaches over stages; move values between stages with tpc.send and tpc.recv

//--- model.mlir
func.func @main(%x: tensor<4xf32> {tpc.name = "x"}) -> (tensor<4xf32> {tpc.name = "y"}) {
  %0 = tpc.neg %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
//--- staged.mlir
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 2, mb = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %0 = tpc.broadcast %x over ["pp"] root 0 : tensor<4xf32> -> tensor<4xf32>
      }
    }
    tpc.stage 1 {
      tpc.micro_batches {
        %0 = tpc.neg %x : tensor<4xf32> -> tensor<4xf32>
        %1 = tpc.broadcast %0 over ["pp"] root 0 : tensor<4xf32> -> tensor<4xf32>
        tpc.output 0, %1 : tensor<4xf32>
      }
    }
  }
}
