// Programs in which the model's layer has another form: computations are compared, not names.
// RUN: split-file %s %t
// RUN: tpc-opt %t/inlined.mlir --tpc-verify-equivalence=reference=%t/model.mlir -o /dev/null
// RUN: tpc-opt %t/separated.mlir --tpc-verify-equivalence=reference=%t/model.mlir -o /dev/null
// RUN: not tpc-opt %t/mixed.mlir --tpc-verify-equivalence=reference=%t/model.mlir 2>&1 | FileCheck %s

//--- model.mlir
tpc.weight @a in "w" at 0 : tensor<4xf32>
tpc.weight @b in "w" at 16 : tensor<4xf32>
func.func @main(%x: tensor<5x4xf32> {tpc.name = "x"}) -> tensor<5x4xf32> {
  %a = tpc.parameter @a : tensor<4xf32>
  %b = tpc.parameter @b : tensor<4xf32>
  %0 = call @layer(%x, %a) : (tensor<5x4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  %1 = call @layer(%0, %b) : (tensor<5x4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}
func.func private @layer(%x: tensor<5x4xf32>, %a: tensor<4xf32>) -> tensor<5x4xf32> attributes {tpc.layer} {
  %0 = tpc.silu %x : tensor<5x4xf32> -> tensor<5x4xf32>
  %1 = tpc.add %x, %a : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  %2 = tpc.mul %0, %1 : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x4xf32>
  %3 = tpc.add %2, %a : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  return %3 : tensor<5x4xf32>
}

// There is no layer function, and ops are in another order.
//--- inlined.mlir
tpc.weight @a in "w" at 0 : tensor<4xf32>
tpc.weight @b in "w" at 16 : tensor<4xf32>
func.func @main(%x: tensor<5x4xf32> {tpc.name = "x"}) -> tensor<5x4xf32> {
  %a = tpc.parameter @a : tensor<4xf32>
  %0 = tpc.add %x, %a : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  %1 = tpc.silu %x : tensor<5x4xf32> -> tensor<5x4xf32>
  %2 = tpc.mul %1, %0 : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x4xf32>
  %3 = tpc.add %2, %a : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  %b = tpc.parameter @b : tensor<4xf32>
  %4 = tpc.add %3, %b : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  %5 = tpc.silu %3 : tensor<5x4xf32> -> tensor<5x4xf32>
  %6 = tpc.mul %5, %4 : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x4xf32>
  %7 = tpc.add %6, %b : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  return %7 : tensor<5x4xf32>
}

// The layer has a separate argument for each use of a weight.
//--- separated.mlir
tpc.weight @a in "w" at 0 : tensor<4xf32>
tpc.weight @b in "w" at 16 : tensor<4xf32>
func.func @main(%x: tensor<5x4xf32> {tpc.name = "x"}) -> tensor<5x4xf32> {
  %a = tpc.parameter @a : tensor<4xf32>
  %c = tpc.parameter @a : tensor<4xf32>
  %b = tpc.parameter @b : tensor<4xf32>
  %0 = call @layer(%x, %a, %c) : (tensor<5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  %1 = call @layer(%0, %b, %b) : (tensor<5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}
func.func private @layer(%x: tensor<5x4xf32>, %a: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<5x4xf32> attributes {tpc.layer} {
  %0 = tpc.silu %x : tensor<5x4xf32> -> tensor<5x4xf32>
  %1 = tpc.add %x, %c : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  %2 = tpc.mul %0, %1 : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x4xf32>
  %3 = tpc.add %2, %a : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  return %3 : tensor<5x4xf32>
}

// The second layer also uses the first layer's weight.
// CHECK: mixed.mlir:{{.*}} does not compute what the model computes
//--- mixed.mlir
tpc.weight @a in "w" at 0 : tensor<4xf32>
tpc.weight @b in "w" at 16 : tensor<4xf32>
func.func @main(%x: tensor<5x4xf32> {tpc.name = "x"}) -> tensor<5x4xf32> {
  %a = tpc.parameter @a : tensor<4xf32>
  %b = tpc.parameter @b : tensor<4xf32>
  %0 = call @layer(%x, %a, %a) : (tensor<5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  %1 = call @layer(%0, %b, %a) : (tensor<5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}
func.func private @layer(%x: tensor<5x4xf32>, %a: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<5x4xf32> attributes {tpc.layer} {
  %0 = tpc.silu %x : tensor<5x4xf32> -> tensor<5x4xf32>
  %1 = tpc.add %x, %c : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  %2 = tpc.mul %0, %1 : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x4xf32>
  %3 = tpc.add %2, %a : tensor<5x4xf32>, tensor<4xf32> -> tensor<5x4xf32>
  return %3 : tensor<5x4xf32>
}
