//===- Inputs.h - What programs are run with --------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INPUTS_H
#define TPC_LIB_VERIFY_INTERPRET_INPUTS_H

#include "Arithmetic.h"
#include "World.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::interpret {

/// Made-up inputs of @main: ids of rows, some of them negative; masks; positions; numbers.
template <typename A>
std::vector<Tensor<typename A::Element>> makeInputs(func::FuncOp main, World &world);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_INPUTS_H
