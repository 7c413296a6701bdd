//===- NumberChecks.h - Calls that check results of ops ---------*- C++ -*-===//
//
// A program that trains can repeat a step and find the first op whose result is not finite
// (tpc/check_numbers.h). A layer function is lowered once and has the node names of one layer, so
// each call passes the names of its own layer: the nodes of layers correspond by position.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_NUMBERCHECKS_H
#define TPC_LIB_CONVERSION_NUMBERCHECKS_H

#include "tpc/Buffer/Buffer.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {
class HostEmitter;

class NumberChecks {
public:
  explicit NumberChecks(ModuleOp module);

  /// Emits the call before the call of a layer function.
  void enter(buffer::CallOp call, HostEmitter &emitter) const;
  /// Emits a check of each buffer of floats that the op has written.
  void check(Operation *op, HostEmitter &emitter) const;

private:
  using Names = SmallVector<std::string>;
  /// Returns the position of a node's name in the names of the layer whose function contains `op`;
  /// -1 if it is not in a layer.
  int64_t findLine(Operation *op) const;

  bool isEnabled;
  llvm::MapVector<Attribute, Names> layers;                   // node names by location of the call
  llvm::DenseMap<StringAttr, SmallVector<Attribute>> callers; // locations of calls, by callee
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_NUMBERCHECKS_H
