//===- PlannedMatmuls.cpp - Common parts of matmul calls ------------------===//

#include "PlannedMatmuls.h"

using namespace mlir;
using namespace mlir::tpc;

FailureOr<MatmulEpilogue> mlir::tpc::getMatmulEpilogue(MatmulOp op, PlanChecker &c) {
  MatmulEpilogue epilogue{op.getBias(), {}, op.getResult()};
  ArrayRef<DimAttr> dims = getDist(op.getResult()).getDims();
  while (epilogue.result.hasOneUse()) {
    OpOperand &use = *epilogue.result.use_begin();
    Operation *user = use.getOwner();
    auto mark = user->getAttrOfType<IntegerAttr>(kFusedAttr);
    if (!mark || mark.getInt() != use.getOperandNumber())
      break;
    bool hasActivation = epilogue.activation != buffer::Epilogue::None;
    if (epilogue.residual || getDist(user->getResult(0)).getDims() != dims)
      return user->emitOpError("cannot be part of a matmul's epilogue here");
    if (auto add = dyn_cast<AddOp>(user)) {
      Value other = add.getOperand(1 - use.getOperandNumber());
      ArrayRef<DimAttr> otherDims = getDist(other).getDims();
      if (otherDims == dims && dims.size() > 1)
        epilogue.residual = other;
      else if (otherDims.size() == 1 && otherDims[0] == dims.back() && !epilogue.bias &&
               !hasActivation)
        epilogue.bias = other;
      else
        return user->emitOpError("adds a value that a matmul's epilogue cannot add");
    } else if (hasActivation) {
      return user->emitOpError("is a second activation, but the epilogue of a matmul has only one");
    } else if (auto gelu = dyn_cast<GeluOp>(user)) {
      if (gelu.getApproximate() == GeluApproximation::Sigmoid)
        return user->emitOpError("is an activation that matmuls do not support");
      epilogue.activation = gelu.getApproximate() == GeluApproximation::Tanh
                                ? buffer::Epilogue::GeluTanh
                                : buffer::Epilogue::GeluErf;
    } else if (isa<SiluOp>(user)) {
      epilogue.activation = buffer::Epilogue::Silu;
    } else if (isa<ReluOp>(user)) {
      epilogue.activation = buffer::Epilogue::Relu;
    } else {
      return user->emitOpError("is an activation that matmuls do not support");
    }
    epilogue.result = user->getResult(0);
    c.setDone(user);
  }
  return epilogue;
}

LogicalResult mlir::tpc::checkOptional(PlanChecker &c, Operation *call, StringRef what,
                                       Value buffer, Value tensor, Value over) {
  if (!buffer && !tensor)
    return success();
  if (!buffer || !tensor)
    return call->emitOpError() << (buffer ? "has a " : "has no ") << what
                               << ", but the op on tensors has " << (tensor ? "one" : "none");
  return c.read(call, buffer, tensor, over);
}
