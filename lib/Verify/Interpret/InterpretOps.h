//===- InterpretOps.h - Op interfaces of the interpreter --------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS_H
#define TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS_H

#include "Arithmetic.h"
#include "Tensor.h"

namespace mlir::tpc::interpret {
class Domains;
template <typename A> class Evaluation;
template <typename A> class Machine;
template <typename A> struct Frame;
} // namespace mlir::tpc::interpret

#include "InterpretOps.h.inc"

#endif // TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS_H
