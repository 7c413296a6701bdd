//===- Caches.h - Construction of steps with KV caches ----------*- C++ -*-===//
//
// Code shared by tpc-recognize-caches and tpc-derive-caches.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_CACHES_H
#define TPC_LIB_TRANSFORMS_GENERATE_CACHES_H

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Emits an error on an op, with its ONNX node.
InFlightDiagnostic emitNodeError(Operation *op);

/// Checks that attention is causal with the offset `offset` and has no mask or bias tensors.
/// `allowsBias`: the caller extends a bias to keys of the past.
LogicalResult checkCausal(AttentionOp op, const ::tpc::SymExpr &offset, bool allowsBias = false);

/// Returns true for integers of shape [sequences, tokens], where the number of tokens is a symbol.
bool isTokenIds(Type type);

/// Returns all symbols in the types of a program.
std::set<std::string> collectSymbols(ModuleOp module);
/// Returns a new symbol: `name`, with a numeric suffix if `name` is taken.
std::string makeSymbol(const std::set<std::string> &taken, StringRef name);

/// Argument of @main with a cache's contents before the step, and its attributes.
struct CachePort {
  BlockArgument argument;
  DictionaryAttr attributes;
};
/// Adds a cache of type `type` and its argument, the last one of @main. `before`: type of the
/// contents before the step.
CachePort addCache(SymbolTable &table, func::FuncOp main, StringRef name, RankedTensorType type,
                   RankedTensorType before);
/// Makes `contents` the last result of @main, with the attributes of the cache's argument.
void addCacheResult(func::FuncOp main, Value contents, DictionaryAttr attributes);

/// Adds caches to @main, one after the other.
class CacheMaker {
public:
  CacheMaker(ModuleOp module, func::FuncOp main, StepSymbols step);

  /// Appends keys and values, both [batch, tokens, heads, size], to caches, and replaces the keys
  /// and values of the attention op by the cache contents.
  void attach(AttentionOp op, Value keys, Value values);
  void finish() { step.attachTo(module); }

private:
  Value append(Value fresh, StringRef kind);

  ModuleOp module;
  func::FuncOp main;
  StepSymbols step;
  std::string capacity;
  SymbolTable table;
  /// Cache contents by appended value, because layers may share keys and values.
  DenseMap<Value, Value> appended;
  unsigned layer = 0;
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_CACHES_H
