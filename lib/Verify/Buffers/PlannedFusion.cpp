//===- PlannedFusion.cpp - Comparison of fused kernels with tensor ops ----===//
//
// A fused kernel reads the operands of the norm while it writes the results of the matmuls or of
// the activation. So all operands must still be in memory after the body, and must not overlap
// results.
//
//===----------------------------------------------------------------------===//

#include "PlanChecker.h"

#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns the kernel of a call with a single result, whose ops must be of these kinds, in order,
/// before the return. Null if it has other ops.
template <typename... Ops> static func::FuncOp getKernelOf(PlanChecker &c, func::CallOp call) {
  auto kernel = c.lookup<func::FuncOp>(call, call.getCalleeAttr());
  if (!kernel || call.getNumResults() != 1 ||
      kernel.front().getOperations().size() != sizeof...(Ops) + 1)
    return {};
  auto it = kernel.front().begin();
  bool areAll = (isa<Ops>(*it++) && ...);
  return areAll && kernel.front().getTerminator()->getOperand(0) ==
                       std::prev(kernel.front().end(), 2)->getResult(0)
             ? kernel
             : func::FuncOp();
}

/// Returns the operand of a kernel's call for an argument of the kernel.
static Value getOutside(func::CallOp call, Value argument) {
  auto inner = dyn_cast_or_null<BlockArgument>(argument);
  return inner ? call.getOperand(inner.getArgNumber()) : Value();
}

LogicalResult PlanChecker::checkFusedNorm(buffer::FusedOp op, func::CallOp norm) {
  Value x, scale, shift;
  APFloat epsilon(0.0);
  buffer::Norm kind = buffer::Norm::None;
  if (func::FuncOp kernel = getKernelOf<RmsNormOp>(*this, norm)) {
    auto rms = cast<RmsNormOp>(kernel.front().front());
    kind = buffer::Norm::Rms;
    x = rms.getX(), scale = rms.getScale(), epsilon = rms.getEpsilon();
  } else if (func::FuncOp kernel = getKernelOf<LayerNormOp>(*this, norm)) {
    auto layer = cast<LayerNormOp>(kernel.front().front());
    kind = buffer::Norm::Layer;
    x = layer.getX(), scale = layer.getScale(), shift = layer.getBias();
    epsilon = layer.getEpsilon();
  }
  if (kind == buffer::Norm::None || kind != op.getNorm())
    return op.emitOpError() << "has norm " << buffer::stringifyNorm(op.getNorm())
                            << ", but the kernel before its matmuls is "
                            << (kind == buffer::Norm::None ? "no norm"
                                                           : buffer::stringifyNorm(kind));
  if (epsilon.compare(op.getEpsilon()) != APFloat::cmpEqual)
    return op.emitOpError("has another epsilon than the norm on tensors");
  if (bool(shift) != bool(op.getShift()))
    return op.emitOpError() << (shift ? "has no shift" : "has a shift")
                            << ", but the norm on tensors has " << (shift ? "one" : "none");
  Type element = getElementTypeOrSelf(norm.getResult(0));
  for (Value value : {x, scale, shift})
    if (value && getElementTypeOrSelf(value) != element && !getElementTypeOrSelf(value).isF32())
      return op.emitOpError(
          "has an operand of the norm that is neither f32 nor of the result's type");
  if (shift && getElementTypeOrSelf(shift) != getElementTypeOrSelf(scale))
    return op.emitOpError("has a scale and a shift of two types");
  return failure(failed(read(op, op.getSource(), getOutside(norm, x))) ||
                 failed(read(op, op.getScale(), getOutside(norm, scale))) ||
                 (shift && failed(read(op, op.getShift(), getOutside(norm, shift)))));
}

LogicalResult PlanChecker::checkFusedActivation(buffer::FusedOp op, func::CallOp activation,
                                                ArrayRef<Value> results) {
  auto kernel = lookup<func::FuncOp>(activation, activation.getCalleeAttr());
  Block &body = kernel.front();
  Operation *last = &*std::prev(body.end(), 2), *activationOp = last;
  auto wrong = [&]() -> LogicalResult {
    return op.emitOpError() << "has activation " << buffer::stringifyEpilogue(op.getActivation())
                            << (op.getGated() ? " gated" : "")
                            << ", but the kernel after its matmuls computes something else";
  };
  if (body.getOperations().size() != results.size() + 1 || activation.getNumResults() != 1 ||
      body.getTerminator()->getOperand(0) != last->getResult(0))
    return wrong();
  if (op.getGated()) {
    activationOp = &body.front();
    if (results.size() != 2 || !isa<MulOp>(last))
      return wrong();
    // Multiplication is commutative.
    Value other = last->getOperand(last->getOperand(0) == activationOp->getResult(0) ? 1 : 0);
    if (!llvm::is_contained(last->getOperands(), activationOp->getResult(0)) ||
        getOutside(activation, other) != results[1])
      return wrong();
  }
  bool isKind = false;
  switch (op.getActivation()) {
  case buffer::Epilogue::None:
    break;
  case buffer::Epilogue::Silu:
    isKind = isa<SiluOp>(activationOp);
    break;
  case buffer::Epilogue::Relu:
    isKind = isa<ReluOp>(activationOp);
    break;
  case buffer::Epilogue::GeluErf:
  case buffer::Epilogue::GeluTanh: {
    auto gelu = dyn_cast<GeluOp>(activationOp);
    isKind = gelu && gelu.getApproximate() == (op.getActivation() == buffer::Epilogue::GeluErf
                                                   ? GeluApproximation::None
                                                   : GeluApproximation::Tanh);
    break;
  }
  }
  if (!isKind || getOutside(activation, activationOp->getOperand(0)) != results[0])
    return wrong();
  if (getElementTypeOrSelf(activation.getResult(0)) != getElementTypeOrSelf(results[0]))
    return op.emitOpError("has a result of another type than its matmuls");
  if (op.getGated() &&
      partSizes.elements(results[0].getType()) != partSizes.elements(results[1].getType()))
    return op.emitOpError("multiplies matmuls of two sizes");
  return success();
}

LogicalResult PlanChecker::checkFused(buffer::FusedOp op, ArrayRef<Operation *> tensors) {
  auto found = llvm::find_if(tensors, llvm::IsaPred<MatmulOp>);
  if (found == tensors.end() || !op.getProduct())
    return op.emitOpError("must have a product in its body");
  auto norm = op.getNormLaunch() ? dyn_cast<func::CallOp>(tensors.front()) : func::CallOp();
  auto activation =
      op.getActivationLaunch() ? dyn_cast<func::CallOp>(tensors.back()) : func::CallOp();
  if (tensors.size() != size_t(1 + bool(norm) + bool(activation)) ||
      bool(norm) != bool(op.getNormLaunch()) || bool(activation) != bool(op.getActivationLaunch()))
    return op.emitOpError("must compute adjacent ops on tensors");
  // The matmuls of the call, and their results with epilogues.
  auto first = cast<MatmulOp>(*found);
  buffer::ProductOp product = op.getProduct();
  SmallVector<MatmulOp> matmuls;
  for (Operation &other : *first->getBlock())
    if (auto matmul = dyn_cast<MatmulOp>(other);
        matmul && matmul.getLhs() == first.getLhs() &&
        (matmul == first || (first->hasAttr(kMergedAttr) &&
                             matmul->getAttr(kMergedAttr) == first->getAttr(kMergedAttr))))
      matmuls.push_back(matmul);
  SmallVector<Value> results;
  DenseSet<Value> dead;
  for (MatmulOp matmul : matmuls) {
    Value last = matmul.getResult();
    for (dead.insert(last); last.hasOneUse(); dead.insert(last)) {
      OpOperand &use = *last.use_begin();
      auto mark = use.getOwner()->getAttrOfType<IntegerAttr>(kFusedAttr);
      if (!mark || mark.getInt() != use.getOperandNumber())
        break;
      last = use.getOwner()->getResult(0);
    }
    results.push_back(last);
  }
  if (norm && norm.getResult(0) != first.getLhs())
    return op.emitOpError("has a norm of another value than the left operand of its matmuls");
  beginCall();
  if (norm ? failed(checkFusedNorm(op, norm)) : failed(read(op, product.getX(), first.getLhs())))
    return failure();
  if (activation && failed(checkFusedActivation(op, activation, results)))
    return failure();
  SmallVector<buffer::ProductOp::Matmul> parts = product.getMatmuls();
  for (auto [matmul, part, result] : llvm::zip_equal(matmuls, parts, results)) {
    if (activation && part.residual)
      return op.emitOpError("has a residual before an activation");
    // A residual may be in the memory of the result, where it was overwritten.
    for (Value operand = result; Operation *add = operand.getDefiningOp();) {
      auto mark = add->getAttrOfType<IntegerAttr>(kFusedAttr);
      if (!mark)
        break;
      Value other = isa<AddOp>(add) ? add->getOperand(1 - mark.getInt()) : Value();
      bool isBias = other && getDist(other).getDims().size() == 1;
      if (isBias && failed(read(op, part.bias, other)))
        return failure();
      operand = add->getOperand(mark.getInt());
    }
    if (Value bias = matmul.getBias(); bias && failed(read(op, part.bias, bias)))
      return failure();
  }
  if (norm)
    dead.insert(norm.getResult(0));
  if (!activation)
    for (Value result : results)
      dead.erase(result);
  memory.forget([&](Value tensor) { return dead.contains(tensor); });
  if (activation)
    return write(op, op.getTo(), activation.getResult(0));
  for (auto [part, result] : llvm::zip_equal(parts, results))
    if (failed(write(op, part.to, result, Access::ByRows)))
      return failure();
  return success();
}
