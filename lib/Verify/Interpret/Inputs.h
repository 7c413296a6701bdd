//===- Inputs.h - Inputs of test runs ---------------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INPUTS_H
#define TPC_LIB_VERIFY_INTERPRET_INPUTS_H

#include "Arithmetic.h"
#include "World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::interpret {

/// Returns random inputs of @main for which all ops are defined (Domains.h): row ids, some of them
/// negative; masks; positions; numbers. Different values of `draw` select different inputs. Error:
/// an op without a domain model.
template <typename A>
FailureOr<std::vector<Tensor<typename A::Element>>> makeInputs(func::FuncOp main, World &world,
                                                               int draw = 0);

/// Returns, for each input of @main, the number of rows of the table that it indexes directly; 0
/// for other inputs.
FailureOr<std::vector<int64_t>> findTables(func::FuncOp main, World &world);

/// Returns the shard of a view (null: identity) of a weight on the rank at `at`; `type` is the
/// distributed type. Elements are a random function of their index in the weight file. At reduced
/// sizes, elements are spread evenly over the file, so that different views have different
/// elements. World::changes apply. Fails if there is no such weight.
template <typename A>
FailureOr<Tensor<typename A::Element>> drawParameter(World &world, StringRef name, ViewAttr view,
                                                     Type type, const Coordinates &at);

/// Returns the random direction of World::changes, in [-1, 1), for the elements that drawParameter
/// returns for these arguments.
FailureOr<Tensor<double>> drawDirection(World &world, StringRef name, ViewAttr view, Type type,
                                        const Coordinates &at);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_INPUTS_H
