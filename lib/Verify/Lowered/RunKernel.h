//===- RunKernel.h - One kernel on one rank, in doubles ---------*- C++ -*-===//
//
// Runs the text of `--emit=kernels`, which is what every target compiles. Rows come in any order;
// each access is checked: its indices against the sizes, and that somebody has written what is
// read.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H
#define TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H

#include "Memory.h"

#include "tpc/Kernel/Kernel.h"
#include "tpc/Support/SymExpr.h"

#include <map>

namespace mlir::tpc::lowered {

struct KernelRun;
using Step = std::function<void(KernelRun &)>;

/// A kernel, made ready to be run often. Fails with a message for what it does not know.
class KernelProgram {
public:
  static FailureOr<std::unique_ptr<KernelProgram>> get(kernel::FuncOp function);

  /// On operands, then results. `evaluate`: a size on this rank. `seed`: of the order of rows.
  /// `rounds`: casts of floats round. `reported`: set where an index is reported to be missing,
  /// which then is no error. `failed`: set to the op that did what it must not.
  LogicalResult run(ArrayRef<Place> memory, function_ref<int64_t(const ::tpc::SymExpr &)> evaluate,
                    uint64_t seed, bool rounds, bool &reported, Operation **failed = nullptr) const;

  kernel::FuncOp getFunction() const { return function; }
  unsigned countArguments() const;
  /// Whether it leaves some of an argument's elements as they were.
  bool keeps(unsigned argument) const;
  /// How many rows it has.
  int64_t countRows(function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) const;

private:
  friend class KernelCompiler;
  kernel::FuncOp function;
  std::vector<::tpc::SymExpr> sizes; // evaluated once for each run
  unsigned registers = 0;
  Step step;
};

/// What a run has computed so far.
struct KernelRun {
  ArrayRef<Place> memory;
  std::vector<int64_t> sizes;
  std::vector<Scalar> registers;
  uint64_t seed;
  bool rounds;
  Operation *failed = nullptr; // the first op that did what it must not
  std::string why;

  void fail(Operation *op, const llvm::Twine &text) {
    if (failed)
      return;
    failed = op;
    why = text.str();
  }
};

/// The scalar of a FloatAttr or IntegerAttr.
Scalar getScalar(Attribute number);

/// What an op of arith or math computes of scalars; nothing for others. Registers of operands,
/// register of the result.
std::optional<Step> compileScalar(Operation *op, ArrayRef<unsigned> operands, unsigned result);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H
