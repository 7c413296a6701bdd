//===- TensorRun.h - Runs of a function of tensors ---------------*- C++ -*-===//
//
// Runs the function of tensors that a kernel computes, on one rank, in doubles. Numbers are exact,
// or rounded where the function has values of 16 bits, or perturbed: that tells how much a result
// depends on rounding.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_TENSORRUN_H
#define TPC_LIB_VERIFY_LOWERED_TENSORRUN_H

#include "../Interpret/World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::lowered {

using Data = interpret::Tensor<double>;

class TensorRun {
public:
  enum Change {
    Exact,
    Rounded,  // values of 16 bits are rounded
    Perturbed // floats are off by about four units in the last place of f32, or of f64
  };

  TensorRun(func::FuncOp function, interpret::World &world, const interpret::Coordinates &at);
  /// Whether results jump somewhere: integers or truth values are made of floats.
  bool hasSteps() const { return steps; }
  /// Whether it has floats of 16 bits.
  bool has16Bits() const { return halves; }
  /// False where the function cannot be evaluated with these numbers: an index leads nowhere, parts
  /// on a rank do not fit. Each `seed` perturbs in another way.
  bool run(const std::vector<Data> &arguments, Change change = Exact, uint64_t seed = 0);

  const Data &get(Value value) const { return values.find(value)->second; }
  const Data &getResult(unsigned i) const {
    return get(func::FuncOp(function).front().getTerminator()->getOperand(i));
  }
  unsigned countResults() const { return func::FuncOp(function).getNumResults(); }
  /// All values of floats of this type.
  SmallVector<const Data *> getValues(Type element) const;

private:
  bool runOp(Operation *op, Data &result);
  void change(Data &data, Value value, Change change, uint64_t seed) const;

  func::FuncOp function;
  interpret::World &world;
  const interpret::Coordinates &at;
  bool steps = false, halves = false;
  llvm::MapVector<Value, Data> values;
};

/// For each result, how far each of its elements may be off where inputs and what is computed of
/// them are perturbed; infinity where an element becomes finite or stops to be so.
std::vector<Data> measureSensitivity(const TensorRun &exact, TensorRun run,
                                     const std::vector<Data> &arguments);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_TENSORRUN_H
