//===- Inputs.h - What programs are run with --------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INPUTS_H
#define TPC_LIB_VERIFY_INTERPRET_INPUTS_H

#include "Arithmetic.h"
#include "World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::interpret {

/// Made-up inputs of @main, with which all ops can be run (Domains.h): ids of rows, some of them
/// negative; masks; positions; numbers. Error: an op of which it is not known what it can be run
/// with. Each `draw` gives others.
template <typename A>
FailureOr<std::vector<Tensor<typename A::Element>>> makeInputs(func::FuncOp main, World &world,
                                                               int draw = 0);

/// For each input of @main the number of rows of a table that its elements, as they are, are
/// indices of; 0 for others.
FailureOr<std::vector<int64_t>> findTables(func::FuncOp main, World &world);

/// The part of a weight, seen through a view (null: as it is), that the rank at `at` has where it
/// is of `type`. An element is a random function of its place in the file. Sizes that are made
/// small take elements from all over the large ones, so that views of different order differ. Fails
/// if there is no such weight.
template <typename A>
FailureOr<Tensor<typename A::Element>> drawParameter(World &world, StringRef name, ViewAttr view,
                                                     Type type, const Coordinates &at);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_INPUTS_H
