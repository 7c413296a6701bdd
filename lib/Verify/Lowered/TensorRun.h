//===- TensorRun.h - Interpreter of tensor functions ------------*- C++ -*-===//
//
// Runs the tensor function of a kernel on one rank, in doubles. Numbers are exact, rounded to the
// function's 16-bit types, or perturbed to measure the sensitivity of results to rounding.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_TENSORRUN_H
#define TPC_LIB_VERIFY_LOWERED_TENSORRUN_H

#include "../Interpret/World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::lowered {

using Data = interpret::Tensor<double>;

/// Rounds floats to the element type of `type`.
void roundNumbers(Data &data, Type type);

class TensorRun {
public:
  enum Change {
    Exact,
    Rounded,  // values of 16-bit types are rounded
    Perturbed // floats are off by about four units in the last place of f32 or f64
  };

  TensorRun(func::FuncOp function, interpret::World &world, const interpret::Coordinates &at);
  /// Returns whether the function is discontinuous: it computes integers or booleans from floats.
  bool hasSteps() const { return steps; }
  /// Returns whether the function has 16-bit floats.
  bool has16Bits() const { return halves; }
  /// Returns false if the function is undefined for the arguments, because an index is out of
  /// bounds or the slices of a rank do not match. Different values of `seed` select different
  /// perturbations.
  bool run(const std::vector<Data> &arguments, Change change = Exact, uint64_t seed = 0);

  const Data &get(Value value) const { return values.find(value)->second; }
  const Data &getResult(unsigned i) const {
    return get(func::FuncOp(function).front().getTerminator()->getOperand(i));
  }
  /// Returns whether the last run cast a number to an integer type that does not have it: the
  /// result of the cast is unspecified.
  bool hasUnspecified() const { return unspecified; }
  unsigned countResults() const { return func::FuncOp(function).getNumResults(); }
  /// Returns all computed values of this float type.
  SmallVector<const Data *> getValues(Type element) const;

private:
  bool runOp(Operation *op, Data &result);
  void change(Data &data, Value value, Change change, uint64_t seed) const;

  func::FuncOp function;
  interpret::World &world;
  const interpret::Coordinates &at;
  bool steps = false, halves = false, unspecified = false;
  llvm::MapVector<Value, Data> values;
};

/// Returns, for each element of each result, its maximum change under perturbed inputs and
/// intermediate values; infinity if the element becomes finite or stops being finite.
std::vector<Data> measureSensitivity(const TensorRun &exact, TensorRun run,
                                     const std::vector<Data> &arguments);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_TENSORRUN_H
