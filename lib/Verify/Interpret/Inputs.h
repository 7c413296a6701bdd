//===- Inputs.h - Inputs of test runs ---------------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INPUTS_H
#define TPC_LIB_VERIFY_INTERPRET_INPUTS_H

#include "Arithmetic.h"
#include "World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::interpret {

/// Draws inputs of @main with which all ops are defined (Domains.h): row ids, some of them
/// negative; masks; positions; numbers. Each `draw` gives other inputs. Error: an op without a
/// domain model.
template <typename A>
FailureOr<std::vector<Tensor<typename A::Element>>> makeInputs(func::FuncOp main, World &world,
                                                               int draw = 0);

/// For each input of @main, returns the number of rows of the table that it indexes directly; 0 for
/// other inputs.
FailureOr<std::vector<int64_t>> findTables(func::FuncOp main, World &world);

/// Returns the slice of a weight, seen through a view (null: the whole), that the rank at `at` has
/// if it is of `type`. An element is a random function of its index in the file. Reduced sizes take
/// elements spread over the original ones, so that views of different order differ. Fails if there
/// is no such weight.
template <typename A>
FailureOr<Tensor<typename A::Element>> drawParameter(World &world, StringRef name, ViewAttr view,
                                                     Type type, const Coordinates &at);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_INPUTS_H
