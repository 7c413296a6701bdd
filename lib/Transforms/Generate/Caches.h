//===- Caches.h - Construction of a step with caches ------------*- C++ -*-===//
//
// Code shared by the passes that recognize caches and those that derive them: the form of a step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_CACHES_H
#define TPC_LIB_TRANSFORMS_GENERATE_CACHES_H

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Emits an error on an op, with its ONNX node.
InFlightDiagnostic emitNodeError(Operation *op);

/// Checks that attention is causal with queries at `offset` tokens from the first key, and that no
/// tensor decides which tokens are visible.
LogicalResult checkCausal(AttentionOp op, const ::tpc::SymExpr &offset);

/// Returns all symbols in the types of a program.
std::set<std::string> collectSymbols(ModuleOp module);
/// Returns a new symbol: `name`, with a number if it is taken.
std::string makeSymbol(const std::set<std::string> &taken, StringRef name);

/// Adds caches to @main, one after the other.
class CacheMaker {
public:
  CacheMaker(ModuleOp module, func::FuncOp main, StepSymbols step);

  /// Appends these keys and values, both [batch, tokens, heads, size], to caches, and lets
  /// attention read the caches.
  void attach(AttentionOp op, Value keys, Value values);
  void finish() { step.attachTo(module); }

private:
  Value append(Value fresh, StringRef kind);

  ModuleOp module;
  func::FuncOp main;
  StepSymbols step;
  std::string capacity;
  SymbolTable table;
  /// Layers may share keys and values, and then also a cache.
  DenseMap<Value, Value> appended;
  unsigned layer = 0;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_CACHES_H
