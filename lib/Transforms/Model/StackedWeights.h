//===- StackedWeights.h - Stacks of separate weights ------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_STACKEDWEIGHTS_H
#define TPC_LIB_TRANSFORMS_MODEL_STACKEDWEIGHTS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Returns the parameter of which `v` is a cast, or itself; null for other values.
ParameterOp getStackedParameter(Value v);

/// Returns an empty text if one parameter can have the elements of all values, along a new first
/// dimension: views with the same dimensions, of one weight at equal distances, or of different
/// weights of one type and file. Returns the reason otherwise.
std::string explainNotStacked(ArrayRef<Value> values);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_STACKEDWEIGHTS_H
