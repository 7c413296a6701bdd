// Programs that differ from their model, and models that cannot be read. The dialect's verifier is
// disabled for programs.
// RUN: split-file %s %t
// DEFINE: %{opt} = not tpc-opt --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 -o /dev/null 2>&1
// DEFINE: %{verify} = "--tpc-verify-equivalence=reference=%t/model.mlir interpret=false"
// RUN: tpc-opt %t/model.mlir %{verify} -o /dev/null
// RUN: %{opt} %t/missing.mlir %{verify} | FileCheck %s --check-prefix=MISSING
// RUN: %{opt} %t/seldom.mlir %{verify} | FileCheck %s --check-prefix=SELDOM
// RUN: %{opt} %t/often.mlir %{verify} | FileCheck %s --check-prefix=OFTEN
// RUN: %{opt} %t/outputs.mlir %{verify} | FileCheck %s --check-prefix=OUTPUTS
// RUN: %{opt} %t/untyped.mlir %{verify} | FileCheck %s --check-prefix=UNTYPED
// RUN: %{opt} %t/signature.mlir %{verify} | FileCheck %s --check-prefix=SIGNATURE
// RUN: %{opt} %t/dimensions.mlir %{verify} | FileCheck %s --check-prefix=DIMENSIONS
// RUN: %{opt} %t/model.mlir "--tpc-verify-equivalence=reference=%t/external.mlir interpret=false" | FileCheck %s --check-prefix=EXTERNAL
// RUN: %{opt} %t/model.mlir "--tpc-verify-equivalence=reference=%t/scalar.mlir interpret=false" | FileCheck %s --check-prefix=SCALAR
// RUN: %{opt} %t/outputs.mlir "--tpc-verify-equivalence=reference=%t/model.mlir symbolic=false" | FileCheck %s --check-prefix=COUNT
// RUN: %{opt} %t/messages.mlir "--tpc-verify-equivalence=reference=%t/model.mlir symbolic=false" | FileCheck %s --check-prefix=MESSAGES

// MISSING: does not compute what the model computes: weight @c {{.*}} is not added
// SELDOM: does not compute what the model computes: weight @b {{.*}} is not added often enough
// OFTEN: does not compute what the model computes: weight @c {{.*}} is added once too often
// OUTPUTS: the program has 2 outputs, but the model 1
// UNTYPED: (tpc.pipeline) has an output without a type
// SIGNATURE: its arguments have other types than its signature
// DIMENSIONS: operand 0 {{.*}} has 3 dimensions, not 4
// EXTERNAL: (func.call) calls @elsewhere, whose signature does not match
// SCALAR: (arith.constant) cannot be proved: this op is not allowed at this level
// COUNT: the program has 2 outputs, the model 1
// MESSAGES: (tpc.recv): run at small sizes, the rank at pp=1 gets another shape than its type 'tensor<2xf32>' declares

//--- model.mlir
module {
  tpc.weight @b in "w" at 0 : tensor<4xf32>
  tpc.weight @c in "w" at 16 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %b = tpc.parameter @b : tensor<4xf32>
    %c = tpc.parameter @c : tensor<4xf32>
    %0 = tpc.add %x, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %1 = tpc.add %0, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %2 = tpc.add %1, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
//--- missing.mlir
module {
  tpc.weight @b in "w" at 0 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %b = tpc.parameter @b : tensor<4xf32>
    %0 = tpc.add %x, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %1 = tpc.add %0, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
//--- seldom.mlir
module {
  tpc.weight @b in "w" at 0 : tensor<4xf32>
  tpc.weight @c in "w" at 16 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %b = tpc.parameter @b : tensor<4xf32>
    %c = tpc.parameter @c : tensor<4xf32>
    %0 = tpc.add %x, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %1 = tpc.add %0, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
//--- often.mlir
module {
  tpc.weight @b in "w" at 0 : tensor<4xf32>
  tpc.weight @c in "w" at 16 : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %b = tpc.parameter @b : tensor<4xf32>
    %c = tpc.parameter @c : tensor<4xf32>
    %0 = tpc.add %x, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %1 = tpc.add %0, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %2 = tpc.add %1, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %3 = tpc.add %2, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}
//--- outputs.mlir
module {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}
//--- untyped.mlir
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y"}] {
    tpc.stage 0 { tpc.micro_batches { tpc.output 0, %x : tensor<4xf32> } }
  }
}
//--- signature.mlir
module {
  "func.func"() ({
  ^bb0(%x: tensor<4xf32>):
    "func.return"(%x) : (tensor<4xf32>) -> ()
  }) {sym_name = "main", function_type = (tensor<5xf32>) -> tensor<4xf32>} : () -> ()
}
//--- dimensions.mlir
module {
  func.func @main(%x: tensor<2x3x4xf32>, %c: tensor<1x3x2xf32>) -> tensor<2x3x4xf32> {
    %0 = tpc.rotary %x, %c, %c : tensor<2x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32> -> tensor<2x3x4xf32>
    return %0 : tensor<2x3x4xf32>
  }
}
//--- external.mlir
module {
  func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
//--- scalar.mlir
module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.constant 1 : i32
    return %x : tensor<4xf32>
  }
}
//--- messages.mlir
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 2>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 { tpc.micro_batches { tpc.send %x to 1 : tensor<4xf32> } }
    tpc.stage 1 {
      tpc.micro_batches {
        %0 = tpc.recv from 0 : tensor<2xf32>
        tpc.output 0, %0 : tensor<2xf32>
      }
    }
  }
}
