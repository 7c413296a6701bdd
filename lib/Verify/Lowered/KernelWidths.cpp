//===- KernelWidths.cpp - Ranges of index arithmetic ----------------------===//
//
// Runs at small sizes do not detect overflow at large sizes. Therefore an interval analysis
// computes the range of each index of a kernel at the largest sizes that constraints allow. Index
// arithmetic must fit in 64 bits. An index may be narrowed only if the tensor function has integers
// of that width. Loaded values are unrestricted: their arithmetic wraps, like the arithmetic of
// tensor ops.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"
#include "SizeRanges.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Quantized.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using equivalence::Interval;
using equivalence::Wide;
using ::tpc::SymExpr;

namespace {
/// Interval of an integer. `isIndex`: it is computed from indices and sizes alone.
struct Known {
  Interval range;
  bool isIndex = false;
};

class KernelRanges {
public:
  /// `trustsChecks`: rows that a tpc_kernel.check has checked are within their table.
  KernelRanges(kernel::FuncOp function, func::FuncOp tensors, SizeRanges &sizes,
               bool trustsChecks = false);
  LogicalResult run();
  /// Returns the result of a comparison if it is the same for all values in the operands'
  /// intervals.
  std::optional<bool> decide(arith::CmpIOp comparison) const;
  /// Returns whether a loop has no iterations.
  bool isEmpty(scf::ForOp loop) const {
    return get(loop.getUpperBound()).range.high <= get(loop.getLowerBound()).range.low;
  }

private:
  LogicalResult visit(Block &block);
  LogicalResult visit(Operation *op);
  LogicalResult visitFor(scf::ForOp loop);
  LogicalResult visitArithmetic(Operation *op, Interval range);
  LogicalResult visitNarrowing(Operation *op);
  LogicalResult setIndices(Block::BlockArgListType indices, ArrayRef<SymExpr> sizes);
  static Known anyOf(Type type) {
    unsigned bits = type.isIndex() ? 64 : type.isInteger() ? type.getIntOrFloatBitWidth() : 1;
    return {{Wide(-(__int128(1) << (bits - 1))), Wide((__int128(1) << (bits - 1)) - 1)}, false};
  }
  Known get(Value value) const {
    auto it = known.find(value);
    return it == known.end() ? anyOf(value.getType()) : it->second;
  }
  static Interval join(Interval a, Interval b) {
    return {std::min(a.low, b.low), std::max(a.high, b.high)};
  }
  static bool contains(Interval outer, Interval inner) {
    return outer.low <= inner.low && inner.high <= outer.high;
  }
  InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") in kernel @" << function.getSymName() << ": ";
  }

  kernel::FuncOp function;
  SizeRanges &sizes;
  bool trustsChecks;
  DenseMap<Value, Known> known;
  /// Widths of integers in the tensor function, and widths of results of its casts to integers.
  std::set<unsigned> widths, castWidths;
  /// Casts of the tensor function to fewer bits, by width, and widths of such casts in the kernel.
  std::map<unsigned, CastOp> narrowings;
  std::set<unsigned> narrowed;
  bool castsFloats = false;
  /// Integer types whose bits the tensor function combines.
  DenseSet<Type> bits;
  /// Float types of the tensor function, and types in which kernels compute with them.
  DenseSet<Type> floats;
};
} // namespace

KernelRanges::KernelRanges(kernel::FuncOp function, func::FuncOp tensors, SizeRanges &sizes,
                           bool trustsChecks)
    : function(function), sizes(sizes), trustsChecks(trustsChecks) {
  auto note = [&](Type type) {
    if (auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type)))
      widths.insert(integer.getWidth());
    if (auto number = dyn_cast<FloatType>(getElementTypeOrSelf(type))) {
      floats.insert(number);
      if (number.getWidth() == 16)
        floats.insert(Float32Type::get(type.getContext()));
    }
  };
  llvm::for_each(tensors.getArgumentTypes(), note);
  tensors.walk([&](Operation *op) {
    llvm::for_each(op->getResultTypes(), note);
    if (isa<AndOp, OrOp, XorOp>(op))
      bits.insert(IntegerType::get(op->getContext(),
                                   getElementTypeOrSelf(op->getResult(0)).getIntOrFloatBitWidth()));
    if (isa<PowOp>(op)) { // of integers, in f64
      castsFloats = true;
      floats.insert(Float64Type::get(op->getContext()));
    }
    // Bits of a byte are selected in 32 bits.
    if (auto dequantize = dyn_cast<DequantizeOp>(op); dequantize && dequantize.getBits() < 8)
      castWidths.insert(32);
    if (auto cast = dyn_cast<CastOp>(op))
      if (auto to = dyn_cast<IntegerType>(getElementTypeOrSelf(cast.getType()))) {
        castWidths.insert(to.getWidth());
        // Lowering folds casts of constants and of results of other casts.
        auto from = dyn_cast<IntegerType>(getElementTypeOrSelf(cast.getOperand()));
        if (from && 1 < to.getWidth() && to.getWidth() < from.getWidth() &&
            !isa_and_nonnull<CastOp, ConstantOp, SizeOp>(cast.getOperand().getDefiningOp()))
          narrowings.try_emplace(to.getWidth(), cast);
        castsFloats |= isa<FloatType>(getElementTypeOrSelf(cast.getOperand()));
      }
  });
}

LogicalResult KernelRanges::run() {
  if (failed(visit(function.getBody().front())))
    return failure();
  // Without the cast, only numbers that do not fit would differ, and runs at small sizes have no
  // such numbers.
  for (auto [width, cast] : narrowings)
    if (!narrowed.count(width))
      return fail(function) << "does not narrow integers to i" << width << ", as '"
                            << getSourceName(cast->getLoc()) << "' (" << cast->getName()
                            << ") of its tensor function does";
  return success();
}

LogicalResult KernelRanges::setIndices(Block::BlockArgListType indices, ArrayRef<SymExpr> exprs) {
  for (auto [index, size] : llvm::zip_equal(indices, exprs)) {
    Wide last = sizes.get(size).high + Wide(-1);
    known[index] = {{Wide(0), std::max(Wide(0), last)}, true};
  }
  return success();
}

LogicalResult KernelRanges::visitArithmetic(Operation *op, Interval range) {
  Known any = anyOf(op->getResult(0).getType());
  bool isIndex =
      llvm::all_of(op->getOperands(), [&](Value operand) { return get(operand).isIndex; });
  if (contains(any.range, range)) {
    known[op->getResult(0)] = {range, isIndex};
    return success();
  }
  if (!isIndex)
    return success();
  return fail(op) << "an index is from " << range.low.str() << " to " << range.high.str()
                  << " at the largest sizes, which exceeds " << op->getResult(0).getType()
                  << "; constrain its sizes (symbols without a constraint are taken to be up to "
                  << SizeRanges::symbolMax << ")";
}

/// Checks a cast to fewer bits.
LogicalResult KernelRanges::visitNarrowing(Operation *op) {
  Known from = get(op->getOperand(0));
  Type type = op->getResult(0).getType();
  unsigned width = type.getIntOrFloatBitWidth();
  narrowed.insert(width);
  if (castWidths.count(width))
    return success(); // a cast on tensors
  if (!widths.count(width))
    return fail(op) << "narrows " << op->getOperand(0).getType() << " to " << type
                    << ", but its tensor function has no value of i" << width;
  if (!from.isIndex)
    return success();
  Interval all = anyOf(type).range;
  if (!contains(all, from.range) && !contains({Wide(0), all.high + all.high}, from.range))
    return fail(op) << "narrows an index from " << from.range.low.str() << " to "
                    << from.range.high.str() << " to " << type;
  known[op->getResult(0)] = from;
  return success();
}

LogicalResult KernelRanges::visitFor(scf::ForOp loop) {
  Known begin = get(loop.getLowerBound()), end = get(loop.getUpperBound());
  if (begin.isIndex && end.isIndex)
    known[loop.getInductionVar()] = {
        {begin.range.low, std::max(begin.range.low, end.range.high + Wide(-1))}, true};
  return visit(*loop.getBody());
}

LogicalResult KernelRanges::visit(Operation *op) {
  if (isa<kernel::RowsOp, kernel::ElementsOp, kernel::FoldOp>(op)) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<kernel::RowsOp, kernel::ElementsOp, kernel::FoldOp>([&](auto loop) {
          return failure(failed(setIndices(loop.getIndices(), loop.getExprs())) ||
                         failed(visit(loop.getBody().front())));
        })
        .Default([](Operation *) { return failure(); });
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region &region : branch->getRegions())
      if (!region.empty() && failed(visit(region.front())))
        return failure();
    for (auto [i, result] : llvm::enumerate(branch.getResults()))
      if (result.getType().isIntOrIndex()) {
        Known then = get(branch.thenYield().getOperand(i)),
              otherwise = get(branch.elseYield().getOperand(i));
        known[result] = {join(then.range, otherwise.range), then.isIndex && otherwise.isIndex};
      }
    return success();
  }
  if (auto check = dyn_cast<kernel::CheckOp>(op); check && trustsChecks) {
    auto below = check.getExists().getDefiningOp<arith::CmpIOp>();
    if (Known size = get(check.getSize()); below && size.isIndex)
      known[below.getLhs()] = {{Wide(0), std::max(Wide(0), size.range.high + Wide(-1))}, true};
    return success();
  }
  if (auto size = dyn_cast<kernel::SizeOp>(op)) {
    known[size.getResult()] = {sizes.get(size.getExpr()), true};
    return success();
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op) && !castsFloats)
    return fail(op) << "casts a float to an integer, which its tensor function does not";
  if (op->getNumResults() == 1 && isa<FloatType>(op->getResult(0).getType()) &&
      !floats.contains(op->getResult(0).getType()))
    return fail(op) << "computes in " << op->getResult(0).getType()
                    << ", but its tensor function has no such value";
  if (op->getNumResults() != 1 || !op->getResult(0).getType().isIntOrIndex())
    return success();
  Value result = op->getResult(0);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue())) {
      Wide n(integer.getValue().getSExtValue());
      known[result] = {{n, n}, true};
    }
    return success();
  }
  if (result.getType().isInteger(1))
    return success();
  Known x = op->getNumOperands() > 0 ? get(op->getOperand(0)) : Known();
  Known y = op->getNumOperands() > 1 ? get(op->getOperand(1)) : Known();
  Interval a = x.range, b = y.range;
  auto negate = [](Interval i) { return Interval{Wide(-i.high.get()), Wide(-i.low.get())}; };
  auto set = [&](Interval range, bool isIndex) {
    known[result] = {range, isIndex};
    return success();
  };
  bool both = x.isIndex && y.isIndex, positive = a.low >= Wide(0) && b.low >= Wide(0);
  __int128 divisor = std::max<__int128>(1, b.low.get());
  Wide maxRemainder = std::max(Wide(0), b.high + Wide(-1));
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::AddIOp) { return visitArithmetic(op, a + b); })
      .Case([&](arith::SubIOp) { return visitArithmetic(op, a + negate(b)); })
      .Case([&](arith::MulIOp) { return visitArithmetic(op, a * b); })
      .Case<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>([&](auto) {
        return positive ? set({Wide(0), Wide(a.high.get() / divisor)}, both) : success();
      })
      .Case([&](arith::RemUIOp) {
        return b.low >= Wide(0)
                   ? set({Wide(0), positive ? std::min(a.high, maxRemainder) : maxRemainder}, both)
                   : success();
      })
      .Case([&](arith::RemSIOp) {
        return positive ? set({Wide(0), std::min(a.high, maxRemainder)}, both) : success();
      })
      .Case<arith::MinSIOp>(
          [&](auto) { return set({std::min(a.low, b.low), std::min(a.high, b.high)}, both); })
      .Case<arith::MaxSIOp>(
          [&](auto) { return set({std::max(a.low, b.low), std::max(a.high, b.high)}, both); })
      .Case([&](arith::SelectOp select) {
        Known then = get(select.getTrueValue()), otherwise = get(select.getFalseValue());
        return set(join(then.range, otherwise.range), then.isIndex && otherwise.isIndex);
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp,
            arith::TruncIOp>([&](auto) -> LogicalResult {
        auto bitsOf = [](Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); };
        if (bitsOf(result.getType()) < bitsOf(op->getOperand(0).getType()))
          return visitNarrowing(op);
        // Unsigned casts preserve only non-negative values.
        bool keeps = isa<arith::IndexCastOp, arith::ExtSIOp>(op) || a.low >= Wide(0);
        return keeps ? set(a, x.isIndex) : success();
      })
      .Case<arith::AndIOp, arith::OrIOp, arith::XOrIOp>([&](auto) -> LogicalResult {
        if (bits.contains(result.getType()))
          return success();
        return fail(op) << "computes with the bits of " << result.getType()
                        << ", which no op on tensors does";
      })
      .Default([](Operation *) { return success(); });
}

LogicalResult KernelRanges::visit(Block &block) {
  for (Operation &op : block)
    if (failed(visit(&op)))
      return failure();
  return success();
}

std::optional<bool> KernelRanges::decide(arith::CmpIOp comparison) const {
  using P = arith::CmpIPredicate;
  Known x = get(comparison.getLhs()), y = get(comparison.getRhs());
  if (!x.isIndex || !y.isIndex)
    return std::nullopt;
  Interval a = x.range, b = y.range;
  bool isSigned = false;
  auto compare = [](bool holds, bool fails) {
    return holds ? std::optional(true) : fails ? std::optional(false) : std::nullopt;
  };
  switch (comparison.getPredicate()) {
  case P::eq:
    return compare(a.low == a.high && b.low == b.high && a.low == b.low,
                   a.high < b.low || b.high < a.low);
  case P::ne:
    return compare(a.high < b.low || b.high < a.low,
                   a.low == a.high && b.low == b.high && a.low == b.low);
  case P::slt:
  case P::sle:
  case P::sgt:
  case P::sge:
    isSigned = true;
    break;
  default:
    break;
  }
  if (!isSigned && (a.low < Wide(0) || b.low < Wide(0)))
    return std::nullopt;
  switch (comparison.getPredicate()) {
  case P::slt:
  case P::ult:
    return compare(a.high < b.low, b.high <= a.low);
  case P::sle:
  case P::ule:
    return compare(a.high <= b.low, b.high < a.low);
  case P::sgt:
  case P::ugt:
    return compare(b.high < a.low, a.high <= b.low);
  default:
    return compare(b.high <= a.low, a.high < b.low);
  }
}

DenseMap<Operation *, bool> lowered::findDecided(kernel::FuncOp function, func::FuncOp tensors,
                                                 SizeRanges &sizes) {
  DenseMap<Operation *, bool> decided;
  KernelRanges ranges(function, tensors, sizes, /*trustsChecks=*/true);
  ScopedDiagnosticHandler quiet(function.getContext(), [](Diagnostic &) { return success(); });
  if (succeeded(ranges.run()))
    function.walk([&](Operation *op) {
      auto comparison = dyn_cast<arith::CmpIOp>(op);
      if (std::optional<bool> result = comparison ? ranges.decide(comparison) : std::nullopt)
        decided[op] = *result;
      if (auto loop = dyn_cast<scf::ForOp>(op); loop && ranges.isEmpty(loop))
        decided[op] = false;
    });
  return decided;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static void collect(Attribute attr, SmallVectorImpl<Attribute> &exprs) {
  if (isa<buffer::ExprAttr, buffer::ExtentAttr>(attr))
    exprs.push_back(attr);
  else if (auto array = dyn_cast<ArrayAttr>(attr))
    for (Attribute each : array)
      collect(each, exprs);
}

/// Returns a divisor in an expression that can be 0 on some rank, or nothing.
static std::optional<SymExpr> findZeroDivisor(const SymExpr &expr, SizeRanges &sizes) {
  for (const SymExpr::Term &term : expr.getTerms())
    for (const SymExpr::Atom &atom : term.atoms) {
      if (atom.kind == SymExpr::AtomKind::Symbol)
        continue;
      const auto &[first, second] = *atom.args;
      for (const SymExpr &operand : {first, second})
        if (std::optional<SymExpr> found = findZeroDivisor(operand, sizes))
          return found;
      bool divides =
          atom.kind == SymExpr::AtomKind::FloorDiv || atom.kind == SymExpr::AtomKind::Mod;
      if (divides && sizes.get(second, /*canBeEmpty=*/true).low < Wide(1))
        return second;
    }
  return std::nullopt;
}

/// Checks that sizes and offsets, which host code computes in 64 bits, do not overflow or divide by
/// 0.
static LogicalResult checkBuffers(buffer::FuncOp function, SizeRanges &sizes,
                                  DenseSet<Attribute> &checked) {
  WalkResult result = function.walk([&](Operation *op) {
    SmallVector<Attribute> exprs;
    for (NamedAttribute attr : op->getAttrs())
      collect(attr.getValue(), exprs);
    for (Attribute attr : exprs) {
      if (!checked.insert(attr).second)
        continue;
      auto extent = dyn_cast<buffer::ExtentAttr>(attr);
      SymExpr expr =
          extent ? extent.getElements().getExpr() : cast<buffer::ExprAttr>(attr).getExpr();
      Interval range = sizes.get(expr);
      if (range.low.fits64() && range.high.fits64()) {
        std::optional<SymExpr> divisor = findZeroDivisor(expr, sizes);
        if (!divisor)
          continue;
        op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << "): '"
                        << expr.str() << "' divides by '" << divisor->str()
                        << "', which can be 0 at some sizes or on some ranks";
        return WalkResult::interrupt();
      }
      op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << "): '"
                      << expr.str() << "' is up to " << range.high.str()
                      << " at the largest sizes, which exceeds 64 bits; constrain its sizes "
                         "(symbols without a constraint are taken to be up to "
                      << SizeRanges::symbolMax << ")";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult lowered::checkWidths(ModuleOp program) {
  SizeRanges sizes(program);
  if (ModuleOp library = kernel::getKernels(program))
    for (auto function : library.getOps<kernel::FuncOp>()) {
      FailureOr<func::FuncOp> tensors = getTensors(program, function);
      if (failed(tensors) || failed(KernelRanges(function, *tensors, sizes).run()))
        return failure();
    }
  DenseSet<Attribute> checked;
  for (auto function : program.getOps<buffer::FuncOp>())
    if (failed(checkBuffers(function, sizes, checked)))
      return failure();
  return success();
}
