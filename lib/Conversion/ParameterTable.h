//===- ParameterTable.h - Table of loaded parameters ------------*- C++ -*-===//
//
// An entry of the parameter table is a weight with a view, a distribution, a stage that loads it,
// and a use (packed for matmuls, or dense). Functions that several stages or layers share receive
// parameter indices as arguments.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_PARAMETERTABLE_H
#define TPC_LIB_CONVERSION_PARAMETERTABLE_H

#include "MergedResults.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {

using buffer::ParameterUse;

/// Returns the parameter from which a matmul's RHS is loaded.
Value getLoadedParameter(Value rhs);

struct Parameter {
  StringAttr weight;
  ViewAttr view; // null: the entire weight
  Type type;     // local
  bool operator==(const Parameter &o) const {
    return weight == o.weight && view == o.view && type == o.type;
  }
};

/// Uses of a value that is a parameter in every call.
struct ParameterNeeds {
  bool packed = false, dense = false;
};

class ParameterTable {
public:
  explicit ParameterTable(ModuleOp module);

  static Parameter get(ParameterOp op) {
    return {op.getWeightAttr().getAttr(), op.getViewAttr(), op.getType()};
  }

  /// Returns the uses of a tpc.parameter, or of an argument that is a parameter in every call; null
  /// for other values.
  const ParameterNeeds *lookup(Value value) const;
  /// Returns whether the RHS of `op` is a packed parameter. In a training step none is, because
  /// the step also reads parameters transposed, and writes them.
  bool isPackedMatmul(MatmulOp op) const;

  /// Returns the only stage that calls a function; nothing if none or several do.
  std::optional<int64_t> getStage(func::FuncOp function) const;
  /// Returns whether any stage calls the function.
  bool isReached(func::FuncOp function) const {
    auto it = stages.find(function);
    return it != stages.end() && !it->second.empty();
  }
  /// Returns the parameters that a function shared by several stages receives as additional
  /// arguments.
  ArrayRef<std::pair<Parameter, ParameterUse>> getImplicitParameters(func::FuncOp function) const;

private:
  void findStages(ModuleOp module);
  void findParameterArguments(ModuleOp module);
  void findNeeds();
  void findImplicitParameters();

  SymbolTableCollection symbols;
  SmallVector<func::FuncOp> functions; // callers before callees
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  DenseMap<Operation *, SmallVector<int64_t>> stages;
  DenseMap<Operation *, SmallVector<std::pair<Parameter, ParameterUse>>> implicitParameters;
  DenseMap<Value, ParameterNeeds> needs;
  bool areUpdated = false; // the program is a training step
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_PARAMETERTABLE_H
