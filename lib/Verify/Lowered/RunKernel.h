//===- RunKernel.h - Interpreter of kernels ---------------------*- C++ -*-===//
//
// Runs kernels (the output of `--emit=kernels`) in doubles on one rank. Rows are run in random
// order. Accesses are checked: indices must be in bounds, and elements must be written before they
// are read. `Rounding` selects which numbers are rounded to their types.
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

/// Float results that a run rounds to their types.
enum class Rounding {
  None,
  Casts,      // all results of up to 16 bits; of wider results, those of casts
  Arithmetic, // all results of 32 bits or more; narrower ones stay exact
};

/// For each choice of a kernel (KernelProgram::getChoices): which outcomes it had, as bits.
using Outcomes = std::vector<uint8_t>;

/// Operands of ops that narrow floats, in execution order.
using Narrowings = llvm::MapVector<Operation *, std::vector<double>>;

/// A kernel compiled for repeated runs. Creation fails with an error for unsupported ops.
class KernelProgram {
public:
  static FailureOr<std::unique_ptr<KernelProgram>> get(kernel::FuncOp function);

  /// Runs the kernel. `memory`: operands, followed by results. `evaluate`: returns the value of a
  /// size on this rank. `seed`: selects the order of rows. `reported`: set if the kernel reports an
  /// index out of bounds, which is not an error. `failed`: set to the op with an invalid access, or
  /// to the conversion that gave an index or a condition an unspecified value.
  /// `narrowings`: receives the operands of narrowing ops. `outcomes`: receives those of choices.
  LogicalResult run(ArrayRef<MemoryView> memory,
                    function_ref<int64_t(const ::tpc::SymExpr &)> evaluate, uint64_t seed,
                    Rounding rounding, bool &reported, Operation **failed = nullptr,
                    Narrowings *narrowings = nullptr, Outcomes *outcomes = nullptr) const;

  kernel::FuncOp getFunction() const { return function; }
  /// Ops with two outcomes: comparisons, selections, branches, and loops, which may have no
  /// iterations.
  ArrayRef<Operation *> getChoices() const { return choices; }
  unsigned countArguments() const;
  /// Returns whether the kernel does not write all elements of an argument.
  bool isPartlyWritten(unsigned argument) const;
  /// Returns the number of rows.
  int64_t countRows(function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) const;

private:
  friend class KernelCompiler;
  kernel::FuncOp function;
  std::vector<::tpc::SymExpr> sizes; // evaluated once per run
  std::vector<Operation *> choices;
  unsigned registers = 0;
  bool converts = false; // whether it converts floats to integers
  Step step;
};

/// State of a run.
struct KernelRun {
  ArrayRef<MemoryView> memory;
  std::vector<int64_t> sizes;
  std::vector<Scalar> registers;
  uint64_t seed;
  Rounding rounding;
  Narrowings *narrowings;
  Outcomes *outcomes;
  bool mayBeUnspecified;       // whether values may be unspecified
  Operation *failed = nullptr; // first op that fails
  std::string why;

  void fail(Operation *op, const llvm::Twine &text) {
    if (failed)
      return;
    failed = op;
    why = text.str();
  }
  /// Fails if a value is unspecified. `role`: how `op` uses the value, such as "an index".
  bool expectSpecified(Operation *op, Scalar value, StringRef role) {
    if (LLVM_UNLIKELY(value.isUnspecified()))
      failUnspecified(op, value, role);
    return !value.isUnspecified();
  }
  void failUnspecified(Operation *op, Scalar value, StringRef role);
  /// Records an outcome of a choice.
  void choose(unsigned choice, bool outcome) {
    if (outcomes)
      (*outcomes)[choice] |= outcome ? 2 : 1;
  }
};

/// Returns the scalar of a FloatAttr or IntegerAttr.
Scalar getScalar(Attribute number);

/// Adds a term of a fold.
Scalar combine(kernel::FoldKind kind, bool isFloat, Scalar x, Scalar y);

/// Rounds the result of an op to its type.
class Rounder {
public:
  /// `isCast`: the op is a conversion to `type`.
  Rounder(Operation *op, Type type, bool isCast);
  /// Returns whether `round` has an effect in any run.
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

/// An op of arith or math.
struct ScalarOp {
  Operation *op;
  std::vector<unsigned> operands; // registers
  unsigned result;
  /// Sets the result if it is unspecified. A `select` depends only on the operand that it chooses.
  /// Returns whether the result is unspecified.
  bool propagate(KernelRun &run) const;
};

/// Compiles a scalar op of arith or math, given the registers of operands and of the result.
/// Returns nothing for other ops.
std::optional<Step> compileScalar(Operation *op, ArrayRef<unsigned> operands, unsigned result);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_RUNKERNEL_H
