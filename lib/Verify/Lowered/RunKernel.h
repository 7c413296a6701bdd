//===- RunKernel.h - One kernel on one rank, in doubles ---------*- C++ -*-===//
//
// Runs the text of `--emit=kernels`, which is what every target compiles. Rows come in any order;
// each access is checked: its indices against the sizes, and that somebody has written what is
// read. Numbers are rounded to their types, or not: see Rounding.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H
#define TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H

#include "Memory.h"

#include "tpc/Kernel/Kernel.h"
#include "tpc/Support/SymExpr.h"

#include "llvm/ADT/MapVector.h"

#include <map>

namespace mlir::tpc::lowered {

struct KernelRun;
using Step = std::function<void(KernelRun &)>;

/// Where a run rounds numbers to their types.
enum class Rounding {
  None,
  Casts,      // casts, and arithmetic in 16 bits
  Arithmetic, // arithmetic in 32 bits or more, and casts to 32 bits; numbers of 16 bits stay exact
};

/// For each op that narrows a float, the values that it narrows, in the order of the run.
using Narrowings = llvm::MapVector<Operation *, std::vector<double>>;

/// A kernel, made ready to be run often. Fails with a message for what it does not know.
class KernelProgram {
public:
  static FailureOr<std::unique_ptr<KernelProgram>> get(kernel::FuncOp function);

  /// On operands, then results. `evaluate`: a size on this rank. `seed`: of the order of rows.
  /// `reported`: set where an index is reported to be missing, which then is no error. `failed`:
  /// set to the op that did what it must not. `narrowings`: receives what is narrowed.
  LogicalResult run(ArrayRef<Place> memory, function_ref<int64_t(const ::tpc::SymExpr &)> evaluate,
                    uint64_t seed, Rounding rounding, bool &reported, Operation **failed = nullptr,
                    Narrowings *narrowings = nullptr) const;

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
  Rounding rounding;
  Narrowings *narrowings;
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

/// What becomes of a number that an op computes exactly, by the type of its result.
class Rounder {
public:
  /// `isCast`: the op converts a number to `type`.
  Rounder(Operation *op, Type type, bool isCast);
  /// Whether `round` has an effect in any run.
  bool hasEffect() const { return narrows || isWide; }
  double round(KernelRun &run, double x) const {
    if (narrows && run.narrowings)
      (*run.narrowings)[op].push_back(x);
    bool rounds =
        isWide ? run.rounding == Rounding::Arithmetic || (isCast && run.rounding == Rounding::Casts)
               : run.rounding == Rounding::Casts;
    return rounds ? roundTo(type, x) : x;
  }

private:
  Operation *op;
  Type type;
  bool isCast, isWide, narrows;
};

/// What an op of arith or math computes of scalars; nothing for others. Registers of operands,
/// register of the result.
std::optional<Step> compileScalar(Operation *op, ArrayRef<unsigned> operands, unsigned result);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H
