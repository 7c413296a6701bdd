//===- Facts.h - Comparison of a program's facts ----------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_FACTS_FACTS_H
#define TPC_LIB_VERIFY_FACTS_FACTS_H

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::facts {

/// An input or output of the model or the pipeline, with its global type.
struct Port {
  DictionaryAttr attributes;
  Type type;
  /// Returns an empty string for ports without a name.
  StringRef getName() const;
};
struct Ports {
  SmallVector<Port> inputs, outputs;
};

/// Reads the ports of @main, or of the pipeline of a staged or lowered program.
FailureOr<Ports> readPorts(ModuleOp module);

/// Checks that `tpc.step` matches the inputs, outputs, caches and windows of the program.
LogicalResult checkStep(ModuleOp program);

/// Checks that each weight of a program equals the weight of the same name in the reference.
LogicalResult compareWeights(ModuleOp program, ModuleOp reference);

} // namespace mlir::tpc::facts

#endif // TPC_LIB_VERIFY_FACTS_FACTS_H
