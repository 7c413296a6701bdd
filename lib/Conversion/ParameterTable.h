//===- ParameterTable.h - Table of loaded parameters ------------*- C++ -*-===//
//
// A parameter of the executable is a weight seen through a view, distributed in one way, loaded by
// one stage, for one use: packed for matmuls, or dense. Functions that several stages (or several
// layers of one stage) share take indices of parameters as arguments.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_PARAMETERTABLE_H
#define TPC_LIB_CONVERSION_PARAMETERTABLE_H

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {

using buffer::ParameterUse;

/// Returns the parameter that a matmul's right-hand side is loaded from.
Value getLoadedParameter(Value rhs);

/// Returns the matmuls that are merged with `op`, in program order; only `op` if it is unmarked.
SmallVector<MatmulOp> getMerged(MatmulOp op);

struct Parameter {
  StringAttr weight;
  ViewAttr view; // null: the whole weight
  Type type;     // local
  bool operator==(const Parameter &o) const {
    return weight == o.weight && view == o.view && type == o.type;
  }
};

/// Uses of a value that is a parameter at every call.
struct ParameterNeeds {
  bool packed = false, dense = false;
};

class ParameterTable {
public:
  explicit ParameterTable(ModuleOp module);

  static Parameter get(ParameterOp op) {
    return {op.getWeightAttr().getAttr(), op.getViewAttr(), op.getType()};
  }

  /// Returns the needs of a value that is always a parameter: a tpc.parameter, or an argument that
  /// is one in every call. Null for other values.
  const ParameterNeeds *lookup(Value value) const;
  /// Returns whether `op` multiplies by a packed parameter.
  bool isPackedMatmul(MatmulOp op) const;

  /// Returns the only stage that calls a function; nothing if there are several.
  std::optional<int64_t> getStage(func::FuncOp function) const;
  /// Returns whether any stage calls the function.
  bool isReached(func::FuncOp function) const {
    auto it = stages.find(function);
    return it != stages.end() && !it->second.empty();
  }
  /// Returns the parameters that a function of several stages takes in addition to its arguments.
  ArrayRef<std::pair<Parameter, ParameterUse>> getHidden(func::FuncOp function) const;

private:
  void findStages(ModuleOp module);
  void findParameterArguments();
  void findNeeds();
  void findHidden();

  SymbolTableCollection symbols;
  SmallVector<func::FuncOp> functions; // callers before callees
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  DenseMap<Operation *, SmallVector<int64_t>> stages;
  DenseMap<Operation *, SmallVector<std::pair<Parameter, ParameterUse>>> hidden;
  DenseMap<Value, ParameterNeeds> needs;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_PARAMETERTABLE_H
