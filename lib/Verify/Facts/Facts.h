//===- Facts.h - Comparison of a program's facts ----------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_FACTS_FACTS_H
#define TPC_LIB_VERIFY_FACTS_FACTS_H

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::facts {

/// An input or output of the model or the pipeline, with its whole type.
struct Port {
  DictionaryAttr attributes;
  Type type;
  /// Empty if there is none.
  StringRef getName() const;
};
struct Ports {
  SmallVector<Port> inputs, outputs;
};

/// Reads the ports of @main, or of the pipeline of a staged or lowered program.
FailureOr<Ports> readPorts(ModuleOp module);

/// Compares `tpc.step` with the inputs, outputs, caches and windows of the program itself.
LogicalResult checkStep(ModuleOp program);

/// Checks that each weight of a program equals the reference's of that name.
LogicalResult compareWeights(ModuleOp program, ModuleOp reference);

} // namespace mlir::tpc::facts

#endif // TPC_LIB_VERIFY_FACTS_FACTS_H
