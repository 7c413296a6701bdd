//===- Elements.cpp - Size in bytes and rounding of elements --------------===//

#include "tpc/Dialect/Elements.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

int64_t mlir::tpc::getElementBytes(Type type) {
  return llvm::divideCeil(getElementTypeOrSelf(type).getIntOrFloatBitWidth(), 8);
}

double mlir::tpc::roundTo(Type element, double number) {
  // Fast path, because the verifiers round every number that they compute.
  if (element.isF32())
    return float(number);
  if (auto type = dyn_cast<FloatType>(element)) {
    llvm::APFloat value(number);
    bool loses;
    value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return value.convertToDouble();
  }
  if (element.isInteger(1))
    return number != 0;
  return std::trunc(number);
}
