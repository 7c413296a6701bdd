//===- RunKernel.cpp - Interpreter of kernels -----------------------------===//

#include "RunKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

namespace mlir::tpc::lowered {
class KernelCompiler {
public:
  explicit KernelCompiler(KernelProgram &program) : program(program) {}
  LogicalResult compile();

private:
  unsigned getRegister(Value value) {
    return registers.try_emplace(value, registers.size()).first->second;
  }
  std::vector<unsigned> getRegisters(ValueRange values) {
    std::vector<unsigned> list;
    for (Value value : values)
      list.push_back(getRegister(value));
    return list;
  }
  unsigned getSize(const SymExpr &expr) {
    auto [it, isNew] = sizes.try_emplace(expr.str(), sizes.size());
    if (isNew)
      program.sizes.push_back(expr);
    return it->second;
  }
  std::vector<unsigned> getSizes(ArrayRef<SymExpr> exprs) {
    std::vector<unsigned> list;
    for (const SymExpr &expr : exprs)
      list.push_back(getSize(expr));
    return list;
  }

  /// A load or store: argument, registers of the indices, and sizes.
  struct Access {
    Operation *op;
    unsigned argument;
    std::vector<unsigned> indices, sizes;
    unsigned rowDims = 0; // leading dimensions that count rows with a stride; 0: dense
    unsigned rowStride = 0;
    /// Returns the linear index of the element. If it is out of bounds, emits an error and returns
    /// -1.
    int64_t find(KernelRun &run, bool isLoad) const;
  };
  FailureOr<Access> getAccess(Operation *op, Value memory, ValueRange indices);
  unsigned addChoice(Operation *op) {
    program.choices.push_back(op);
    return program.choices.size() - 1;
  }

  FailureOr<Step> compile(Block &block);
  FailureOr<Step> compile(Operation *op);
  FailureOr<Step> compileRows(kernel::RowsOp op);
  FailureOr<Step> compileElements(kernel::ElementsOp op);
  FailureOr<Step> compileFold(kernel::FoldOp op);
  FailureOr<Step> compileIf(scf::IfOp op);
  FailureOr<Step> compileFor(scf::ForOp op);
  Step compileCheck(kernel::CheckOp op);

  KernelProgram &program;
  DenseMap<Value, unsigned> registers;
  std::map<std::string, unsigned> sizes;
};
} // namespace mlir::tpc::lowered

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int64_t KernelCompiler::Access::find(KernelRun &run, bool isLoad) const {
  int64_t element = 0, row = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Scalar &index = run.registers[indices[i]];
    if (run.mayBeUnspecified && !run.expectSpecified(op, index, "an index"))
      return -1;
    int64_t at = index.i, size = run.sizes[sizes[i]];
    if (LLVM_UNLIKELY(at < 0 || at >= size)) {
      run.fail(op, Twine(isLoad ? "reads" : "writes") + " index " + Twine(at) + " of dimension " +
                       Twine(i) + ", which has " + Twine(size));
      return -1;
    }
    element = element * size + at;
    if (i + 1 == rowDims) {
      row = element * run.sizes[rowStride];
      element = 0;
    }
  }
  element += row;
  const MemoryView &memory = run.memory[argument];
  if (!memory.exists(element) || element >= memory.elements) {
    run.fail(op, Twine(isLoad ? "reads" : "writes") + " past the end of argument " +
                     Twine(argument) + ", which has " + Twine(memory.elements) + " elements");
    return -1;
  }
  if (isLoad && !memory.isWritten(element)) {
    run.fail(op, "reads element " + Twine(element) + " of argument " + Twine(argument) +
                     ", which was not written");
    return -1;
  }
  return element;
}

FailureOr<KernelCompiler::Access> KernelCompiler::getAccess(Operation *op, Value memory,
                                                            ValueRange indices) {
  auto argument = dyn_cast<BlockArgument>(memory);
  if (!argument || argument.getOwner() != &program.function.getBody().front())
    return op->emitError("must access an argument of the kernel"), failure();
  Access access{op, argument.getArgNumber(), getRegisters(indices),
                getSizes(program.function.getSizesOf(memory))};
  if (auto rows = program.function.getRowStride(memory)) {
    access.rowDims = rows->dims;
    access.rowStride = getSize(rows->stride);
  }
  if (access.indices.size() != access.sizes.size())
    return op->emitError("has another number of indices than the memory has dimensions"), failure();
  return access;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

FailureOr<Step> KernelCompiler::compile(Block &block) {
  std::vector<std::pair<Step, std::optional<ScalarOp>>> steps;
  for (Operation &op : block) {
    if (isa<scf::YieldOp, kernel::YieldOp>(op))
      break;
    FailureOr<Step> step = compile(&op);
    if (failed(step))
      return failure();
    std::optional<ScalarOp> scalar;
    if (isa<arith::ArithDialect, math::MathDialect>(op.getDialect()))
      scalar = ScalarOp{&op, getRegisters(op.getOperands()), getRegister(op.getResult(0))};
    program.converts |= isa<arith::FPToSIOp, arith::FPToUIOp>(op);
    steps.emplace_back(std::move(*step), std::move(scalar));
  }
  return Step([steps = std::move(steps)](KernelRun &run) {
    for (auto &[step, scalar] : steps)
      if (!run.mayBeUnspecified || !scalar || !scalar->propagate(run))
        step(run);
  });
}

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Maximum number of iterations of a loop. Correct kernels have fewer at small sizes.
static constexpr int64_t maxIterations = 1 << 26;

static bool isTooLarge(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(count, std::max<int64_t>(0, size), &count))
      return true;
  return count > maxIterations;
}

/// Calls `body` once for each index, in a random order that depends on the seed.
static void forEachInAnyOrder(ArrayRef<int64_t> sizes, uint64_t seed,
                              function_ref<void(ArrayRef<int64_t>)> body) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= std::max<int64_t>(0, size);
  std::vector<int64_t> order(count);
  for (int64_t i = 0; i < count; ++i)
    order[i] = i;
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(order[i], order[mix(seed += 0x9E3779B97F4A7C15ull) % uint64_t(i + 1)]);
  SmallVector<int64_t> index(sizes.size());
  for (int64_t linear : order) {
    for (int64_t d = int64_t(sizes.size()) - 1; d >= 0; --d) {
      index[d] = linear % sizes[d];
      linear /= sizes[d];
    }
    body(index);
  }
}

static Step loopInAnyOrder(Operation *op, std::vector<unsigned> sizes,
                           std::vector<unsigned> indices, Step body) {
  return [op, sizes = std::move(sizes), indices = std::move(indices),
          body = std::move(body)](KernelRun &run) {
    SmallVector<int64_t> extents;
    for (unsigned size : sizes)
      extents.push_back(run.sizes[size]);
    if (isTooLarge(extents))
      return run.fail(op, "is a loop of more than " + Twine(maxIterations) + " iterations");
    forEachInAnyOrder(extents, ++run.seed, [&](ArrayRef<int64_t> index) {
      for (auto [to, i] : llvm::zip_equal(indices, index))
        run.registers[to].i = i;
      body(run);
    });
  };
}

FailureOr<Step> KernelCompiler::compileRows(kernel::RowsOp op) {
  FailureOr<Step> body = compile(op.getBody().front());
  if (failed(body))
    return failure();
  return loopInAnyOrder(op, getSizes(op.getExprs()), getRegisters(op.getIndices()), *body);
}

FailureOr<Step> KernelCompiler::compileElements(kernel::ElementsOp op) {
  FailureOr<Step> body = compile(op.getBody().front());
  if (failed(body))
    return failure();
  return loopInAnyOrder(op, getSizes(op.getExprs()), getRegisters(op.getIndices()), *body);
}

/// Folds in several lanes, as on a device. Each lane starts with the identity, and one lane has no
/// elements.
FailureOr<Step> KernelCompiler::compileFold(kernel::FoldOp op) {
  FailureOr<Step> body = compile(op.getBody().front());
  if (failed(body))
    return failure();
  Type type = op.getResult().getType();
  bool isFloat = isa<FloatType>(type);
  return Step([sizes = getSizes(op.getExprs()), indices = getRegisters(op.getIndices()),
               term = getRegister(op.getTerm()), result = getRegister(op.getResult()),
               init = getScalar(op.getInit()), identity = getScalar(op.getIdentity()),
               kind = op.getKind(), isFloat, type, op = op.getOperation(), body = *body,
               rounder = Rounder(op, type, /*isCast=*/false)](KernelRun &run) {
    auto add = [&](Scalar x, Scalar y) {
      Scalar sum = combine(kind, isFloat, x, y);
      if (rounder.hasEffect())
        sum.f = rounder.round(run, sum.f);
      return sum;
    };
    Scalar lanes[3] = {init, init, combine(kind, isFloat, init, identity)};
    SmallVector<int64_t> extents;
    for (unsigned size : sizes)
      extents.push_back(run.sizes[size]);
    if (isTooLarge(extents))
      return run.fail(op, "has more than " + Twine(maxIterations) + " terms");
    unsigned lane = 0;
    Scalar unspecified;
    forEachInAnyOrder(extents, ++run.seed, [&](ArrayRef<int64_t> index) {
      for (auto [to, i] : llvm::zip_equal(indices, index))
        run.registers[to].i = i;
      body(run);
      if (run.registers[term].isUnspecified()) {
        unspecified = run.registers[term];
        return;
      }
      lanes[lane] = add(lanes[lane], run.registers[term]);
      lane = 1 - lane;
    });
    if (unspecified.isUnspecified()) {
      run.registers[result] = unspecified;
      return;
    }
    Scalar all = add(add(lanes[0], lanes[1]), lanes[2]);
    if (!isFloat && !type.isIndex())
      all.i = type.isInteger(1) ? all.i & 1
                                : llvm::SignExtend64(uint64_t(all.i), type.getIntOrFloatBitWidth());
    run.registers[result] = all;
  });
}

FailureOr<Step> KernelCompiler::compileIf(scf::IfOp op) {
  struct Branch {
    Step body;
    std::vector<unsigned> yielded;
  };
  Branch branches[2];
  for (auto [branch, region] : llvm::zip_equal(branches, op->getRegions())) {
    if (region.empty()) {
      branch.body = [](KernelRun &) {};
      continue;
    }
    FailureOr<Step> body = compile(region.front());
    if (failed(body))
      return failure();
    branch = {*body, getRegisters(region.front().getTerminator()->getOperands())};
  }
  return Step([op = op.getOperation(), choice = addChoice(op),
               condition = getRegister(op.getCondition()), then = branches[0],
               otherwise = branches[1], results = getRegisters(op.getResults())](KernelRun &run) {
    if (!run.expectSpecified(op, run.registers[condition], "the condition"))
      return;
    run.choose(choice, run.registers[condition].i);
    const Branch &branch = run.registers[condition].i ? then : otherwise;
    branch.body(run);
    for (auto [to, from] : llvm::zip_equal(results, branch.yielded))
      run.registers[to] = run.registers[from];
  });
}

FailureOr<Step> KernelCompiler::compileFor(scf::ForOp op) {
  FailureOr<Step> body = compile(*op.getBody());
  if (failed(body))
    return failure();
  return Step([lb = getRegister(op.getLowerBound()), ub = getRegister(op.getUpperBound()),
               by = getRegister(op.getStep()), iv = getRegister(op.getInductionVar()),
               inits = getRegisters(op.getInitArgs()), args = getRegisters(op.getRegionIterArgs()),
               yielded = getRegisters(op.getBody()->getTerminator()->getOperands()),
               results = getRegisters(op.getResults()), op = op.getOperation(),
               choice = addChoice(op), body = *body](KernelRun &run) {
    auto &at = run.registers;
    auto move = [&](ArrayRef<unsigned> to, ArrayRef<unsigned> from) {
      SmallVector<Scalar> values;
      for (unsigned i : from)
        values.push_back(at[i]);
      for (auto [i, value] : llvm::zip_equal(to, values))
        at[i] = value;
    };
    move(args, inits);
    for (unsigned bound : {lb, ub, by})
      if (!run.expectSpecified(op, at[bound], "a bound"))
        return;
    if (at[by].i < 1)
      return run.fail(op, "has a step of " + Twine(at[by].i));
    if (at[ub].i > at[lb].i && uint64_t(at[ub].i) - uint64_t(at[lb].i) > maxIterations)
      return run.fail(op, "is a loop of more than " + Twine(maxIterations) + " iterations");
    run.choose(choice, at[lb].i < at[ub].i);
    for (int64_t i = at[lb].i, end = at[ub].i; i < end; i += at[by].i) {
      at[iv].i = i;
      body(run);
      move(args, yielded);
    }
    move(results, args);
  });
}

Step KernelCompiler::compileCheck(kernel::CheckOp op) {
  return [exists = getRegister(op.getExists()), index = getRegister(op.getIndex()),
          size = getRegister(op.getSize()), op = op.getOperation()](KernelRun &run) {
    if (run.expectSpecified(op, run.registers[exists], "the condition") && !run.registers[exists].i)
      run.fail(op, "reports that index " + Twine(run.registers[index].i) + " of " +
                       Twine(run.registers[size].i) + " does not exist");
  };
}

FailureOr<Step> KernelCompiler::compile(Operation *op) {
  if (auto rows = dyn_cast<kernel::RowsOp>(op))
    return compileRows(rows);
  if (auto elements = dyn_cast<kernel::ElementsOp>(op))
    return compileElements(elements);
  if (auto fold = dyn_cast<kernel::FoldOp>(op))
    return compileFold(fold);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return compileIf(branch);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return compileFor(loop);
  if (auto check = dyn_cast<kernel::CheckOp>(op))
    return compileCheck(check);
  // The interpreter runs a row sequentially, so a barrier has no effect.
  if (isa<kernel::BarrierOp>(op))
    return Step([](KernelRun &) {});
  if (auto size = dyn_cast<kernel::SizeOp>(op))
    return Step([from = getSize(size.getExpr()), to = getRegister(size.getResult())](
                    KernelRun &run) { run.registers[to].i = run.sizes[from]; });
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    FailureOr<Access> access = getAccess(op, load.getMemRef(), load.getIndices());
    if (failed(access))
      return failure();
    return Step([access = *access, to = getRegister(load.getResult())](KernelRun &run) {
      int64_t element = access.find(run, /*isLoad=*/true);
      run.registers[to] = element < 0 ? Scalar{} : run.memory[access.argument].load(element);
    });
  }
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    FailureOr<Access> access = getAccess(op, store.getMemRef(), store.getIndices());
    if (failed(access))
      return failure();
    return Step([access = *access, from = getRegister(store.getValueToStore())](KernelRun &run) {
      if (int64_t element = access.find(run, /*isLoad=*/false); element >= 0)
        run.memory[access.argument].store(element, run.registers[from]);
    });
  }
  if (op->getNumResults() == 1)
    if (auto step =
            compileScalar(op, getRegisters(op->getOperands()), getRegister(op->getResult(0)))) {
      bool isCast = isa<arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp>(op);
      if (isa<arith::SelectOp, arith::CmpIOp, arith::CmpFOp>(op))
        step = [step = std::move(*step), choice = addChoice(op),
                outcome =
                    getRegister(isa<arith::SelectOp>(op) ? op->getOperand(0) : op->getResult(0))](
                   KernelRun &run) {
          step(run);
          run.choose(choice, run.registers[outcome].i);
        };
      Rounder rounder(op, op->getResult(0).getType(), isCast);
      if (!rounder.hasEffect())
        return std::move(*step);
      return Step(
          [step = std::move(*step), rounder, at = getRegister(op->getResult(0))](KernelRun &run) {
            step(run);
            run.registers[at].f = rounder.round(run, run.registers[at].f);
          });
    }
  return op->emitError("cannot be run at small sizes: the interpreter does not support this op"),
         failure();
}

LogicalResult KernelCompiler::compile() {
  FailureOr<Step> step = compile(program.function.getBody().front());
  if (failed(step))
    return failure();
  program.step = std::move(*step);
  program.registers = registers.size();
  return success();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

FailureOr<std::unique_ptr<KernelProgram>> KernelProgram::get(kernel::FuncOp function) {
  auto program = std::make_unique<KernelProgram>();
  program->function = function;
  if (failed(KernelCompiler(*program).compile()))
    return failure();
  return program;
}

LogicalResult KernelProgram::run(ArrayRef<MemoryView> memory,
                                 function_ref<int64_t(const SymExpr &)> evaluate, uint64_t seed,
                                 Rounding rounding, bool &reported, Operation **failed,
                                 Narrowings *narrowings, Outcomes *outcomes) const {
  // Kernels compute positions themselves, also in rows with a stride, so they get entire spans.
  SmallVector<MemoryView> spans;
  for (const MemoryView &view : memory)
    spans.push_back(view.getSpan());
  bool mayBeUnspecified = converts || llvm::any_of(memory, [](const MemoryView &view) {
                            return !view.memory->unspecified.empty();
                          });
  if (outcomes)
    outcomes->resize(choices.size());
  KernelRun run{spans,
                {},
                std::vector<Scalar>(registers),
                seed,
                rounding,
                narrowings,
                outcomes,
                mayBeUnspecified,
                nullptr,
                {}};
  for (const SymExpr &size : sizes)
    run.sizes.push_back(evaluate(size));
  step(run);
  reported |= isa_and_nonnull<kernel::CheckOp>(run.failed);
  if (failed)
    *failed = run.failed;
  if (run.failed && !reported)
    return run.failed->emitError() << "run at small sizes, in kernel @"
                                   << kernel::FuncOp(function).getSymName() << ": " << run.why;
  return success();
}

unsigned KernelProgram::countArguments() const { return function->getRegion(0).getNumArguments(); }

bool KernelProgram::isPartlyWritten(unsigned argument) const {
  return kernel::FuncOp(function).isPartiallyWritten(function->getRegion(0).getArgument(argument));
}

int64_t KernelProgram::countRows(function_ref<int64_t(const SymExpr &)> evaluate) const {
  int64_t rows = 1;
  for (const SymExpr &size : kernel::FuncOp(function).getRows().getExprs())
    rows *= std::max<int64_t>(0, evaluate(size));
  return rows;
}
