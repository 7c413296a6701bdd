// Each function calls the next one repeatedly, so that a short program takes very long to run.
// RUN: not tpc-opt %s --tpc-verify-equivalence=reference=%S/Inputs/verify-model.mlir 2>&1 | FileCheck %s

// CHECK: cannot be proved: calls expand to more than 2097152 ops
!x = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
func.func @main(%x: !x {tpc.name = "x"}) -> !x {
  %0 = call @f24(%x) : (!x) -> !x
  return %0 : !x
}
func.func private @f24(%x: !x) -> !x {
  %0 = call @f23(%x) : (!x) -> !x
  %1 = call @f23(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f23(%x: !x) -> !x {
  %0 = call @f22(%x) : (!x) -> !x
  %1 = call @f22(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f22(%x: !x) -> !x {
  %0 = call @f21(%x) : (!x) -> !x
  %1 = call @f21(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f21(%x: !x) -> !x {
  %0 = call @f20(%x) : (!x) -> !x
  %1 = call @f20(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f20(%x: !x) -> !x {
  %0 = call @f19(%x) : (!x) -> !x
  %1 = call @f19(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f19(%x: !x) -> !x {
  %0 = call @f18(%x) : (!x) -> !x
  %1 = call @f18(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f18(%x: !x) -> !x {
  %0 = call @f17(%x) : (!x) -> !x
  %1 = call @f17(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f17(%x: !x) -> !x {
  %0 = call @f16(%x) : (!x) -> !x
  %1 = call @f16(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f16(%x: !x) -> !x {
  %0 = call @f15(%x) : (!x) -> !x
  %1 = call @f15(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f15(%x: !x) -> !x {
  %0 = call @f14(%x) : (!x) -> !x
  %1 = call @f14(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f14(%x: !x) -> !x {
  %0 = call @f13(%x) : (!x) -> !x
  %1 = call @f13(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f13(%x: !x) -> !x {
  %0 = call @f12(%x) : (!x) -> !x
  %1 = call @f12(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f12(%x: !x) -> !x {
  %0 = call @f11(%x) : (!x) -> !x
  %1 = call @f11(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f11(%x: !x) -> !x {
  %0 = call @f10(%x) : (!x) -> !x
  %1 = call @f10(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f10(%x: !x) -> !x {
  %0 = call @f9(%x) : (!x) -> !x
  %1 = call @f9(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f9(%x: !x) -> !x {
  %0 = call @f8(%x) : (!x) -> !x
  %1 = call @f8(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f8(%x: !x) -> !x {
  %0 = call @f7(%x) : (!x) -> !x
  %1 = call @f7(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f7(%x: !x) -> !x {
  %0 = call @f6(%x) : (!x) -> !x
  %1 = call @f6(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f6(%x: !x) -> !x {
  %0 = call @f5(%x) : (!x) -> !x
  %1 = call @f5(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f5(%x: !x) -> !x {
  %0 = call @f4(%x) : (!x) -> !x
  %1 = call @f4(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f4(%x: !x) -> !x {
  %0 = call @f3(%x) : (!x) -> !x
  %1 = call @f3(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f3(%x: !x) -> !x {
  %0 = call @f2(%x) : (!x) -> !x
  %1 = call @f2(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f2(%x: !x) -> !x {
  %0 = call @f1(%x) : (!x) -> !x
  %1 = call @f1(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f1(%x: !x) -> !x {
  %0 = call @f0(%x) : (!x) -> !x
  %1 = call @f0(%0) : (!x) -> !x
  return %1 : !x
}
func.func private @f0(%x: !x) -> !x {
  %0 = tpc.neg %x : !x -> !x
  return %0 : !x
}
