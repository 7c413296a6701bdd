//===- ExpertEnums.h - Activations of experts -------------------*- C++ -*-===//

#ifndef TPC_DIALECT_EXPERTENUMS_H
#define TPC_DIALECT_EXPERTENUMS_H

#include "mlir/IR/BuiltinAttributes.h"

#include "tpc/Dialect/ExpertEnums.h.inc"

#endif // TPC_DIALECT_EXPERTENUMS_H
