//===- Caches.h - Making a step with caches ----------------------*- C++ -*-===//
//
// What passes that find caches and passes that derive them have in common: the form of a step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_CACHES_H
#define TPC_LIB_TRANSFORMS_GENERATE_CACHES_H

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// An error about an op, with its ONNX node.
InFlightDiagnostic emitNodeError(Operation *op);

/// Whether queries stand `offset` tokens behind the first key and see no token behind their own,
/// which is not decided by a tensor.
LogicalResult checkCausal(AttentionOp op, const ::tpc::SymExpr &offset);

/// All symbols in types of a program.
std::set<std::string> collectSymbols(ModuleOp module);
/// A symbol that is not one of these: `name`, or with a number.
std::string makeSymbol(const std::set<std::string> &taken, StringRef name);

/// Gives @main caches, one after the other.
class CacheMaker {
public:
  CacheMaker(ModuleOp module, func::FuncOp main, StepSymbols step);

  /// Lets attention take these, both [batch, tokens, heads, size], behind what is in a cache.
  void attach(AttentionOp op, Value keys, Value values);
  void finish() { step.attachTo(module); }

private:
  Value join(Value fresh, StringRef kind);

  ModuleOp module;
  func::FuncOp main;
  StepSymbols step;
  std::string capacity;
  SymbolTable table;
  /// Layers may share keys and values, and then a cache.
  DenseMap<Value, Value> joined;
  unsigned layer = 0;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_CACHES_H
