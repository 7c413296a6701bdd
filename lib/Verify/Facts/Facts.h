//===- Facts.h - Facts of one program ---------------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_FACTS_FACTS_H
#define TPC_LIB_VERIFY_FACTS_FACTS_H

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::facts {

/// An input or output, with its whole type, as the model or the pipeline has it.
struct Port {
  DictionaryAttr attributes;
  Type type;
  /// Empty if it has none.
  StringRef getName() const;
};
struct Ports {
  SmallVector<Port> inputs, outputs;
};

/// Those of @main, or of the pipeline of a staged or lowered program.
FailureOr<Ports> readPorts(ModuleOp module);

/// Compares `tpc.step` with the inputs, outputs, caches and windows of the program itself.
LogicalResult checkStep(ModuleOp program);

/// Each weight of a program must be the reference's of that name.
LogicalResult compareWeights(ModuleOp program, ModuleOp reference);

} // namespace mlir::tpc::facts

#endif // TPC_LIB_VERIFY_FACTS_FACTS_H
