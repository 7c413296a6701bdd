//===- PreallocatedCaches.cpp - Proof of steps on preallocated caches -----===//

#include "PreallocatedCaches.h"

#include "Chunks.h"
#include "EmptyCaches.h"
#include "FlatProgram.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;
using ::tpc::SymExpr;

static BlockArgument findInput(func::FuncOp main, StringRef name) {
  for (BlockArgument argument : main.getArguments()) {
    auto inputName = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (inputName && inputName.getValue() == name)
      return argument;
  }
  return {};
}

namespace {
/// Clamped indices of tokens, min(index, size). Caches have capacity for all real tokens, so the
/// clamp does not change the indices of real tokens.
class ClampedIndices {
public:
  ClampedIndices(func::FuncOp main, const PreallocatedStep &step)
      : main(main), lengths(findInput(main, step.lengths)) {
    // capacity = length of the cache + tokens of the step + a non-negative number
    sizes[step.capacity] =
        SymExpr::symbol("#past") + SymExpr::symbol(step.tokens) + SymExpr::symbol("#free");
  }

  /// Replaces the clamped indices by the indices.
  void release() {
    for (auto op : llvm::make_early_inc_range(main.getOps<MinOp>()))
      for (unsigned i : {0, 1}) {
        std::optional<SymExpr> index = findLargest(op->getOperand(i), 0);
        std::optional<SymExpr> bound = findSize(op->getOperand(1 - i));
        if (!index || !bound || op->getOperand(i).getType() != op.getType())
          continue;
        std::optional<int64_t> lowest = (*bound - *index).substitute(sizes).lowerBound();
        if (!lowest || *lowest < 0)
          continue;
        op.getResult().replaceAllUsesWith(op->getOperand(i));
        op.erase();
        break;
      }
  }

private:
  static std::optional<SymExpr> findSize(Value value) {
    Operation *op = value.getDefiningOp();
    while (op && op->hasTrait<MovementOpInterface::Trait>())
      op = op->getOperand(0).getDefiningOp();
    auto size = dyn_cast_or_null<SizeOp>(op);
    return size ? std::optional(size.getExpr()) : std::nullopt;
  }

  /// Returns an upper bound of an index that is a sum of iotas, lengths of caches and constants.
  std::optional<SymExpr> findLargest(Value value, unsigned depth) const {
    if (value == lengths)
      return SymExpr::symbol("#past");
    Operation *op = value.getDefiningOp();
    if (!op || depth > maxDepth || !isa<IntegerType>(elementTypeOf(value)))
      return std::nullopt;
    if (auto iota = dyn_cast<IotaOp>(op))
      return getSizes(iota.getResult())[iota.getDim()] - 1;
    if (op->hasTrait<MovementOpInterface::Trait>())
      return findLargest(op->getOperand(0), depth + 1);
    if (auto add = dyn_cast<AddOp>(op)) {
      auto a = findLargest(add.getLhs(), depth + 1), b = findLargest(add.getRhs(), depth + 1);
      return a && b ? std::optional(*a + *b) : std::nullopt;
    }
    std::optional<double> number = findNumber(value);
    return number ? std::optional(SymExpr(int64_t(*number))) : std::nullopt;
  }

  static constexpr unsigned maxDepth = 16;
  func::FuncOp main;
  Value lengths;
  std::map<std::string, SymExpr> sizes;
};
} // namespace

/// Replaces an input, which has a number for each sequence, by `number` for all sequences.
static void fixInput(func::FuncOp main, StringRef name, const SymExpr &number) {
  BlockArgument input = findInput(main, name);
  if (!input)
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(&main.front());
  auto scalar = RankedTensorType::get({}, elementTypeOf(input));
  Value size = SizeOp::create(builder, input.getLoc(), scalar, number);
  input.replaceAllUsesWith(ExpandOp::create(builder, input.getLoc(), input.getType(), size));
  (void)main.eraseArgument(input.getArgNumber());
}

LogicalResult generation::provePreallocated(ModuleOp reference, ModuleOp step,
                                            const PreallocatedStep &symbols) {
  func::FuncOp main = getMain(step), other = getMain(reference);
  BlockArgument lengths = findInput(main, symbols.lengths);
  if (!lengths || rankOf(lengths) != 1)
    return main.emitError() << "there is no input '" << symbols.lengths
                            << "', the number of tokens in caches for each sequence";
  if (symbols.last)
    return main.emitError("cannot be proved: it returns only the last token");
  ClampedIndices(main, symbols).release();
  if (std::optional<std::string> batch = getSymbolName(getSizes(lengths)[0])) {
    if (failed(ChunkProver::forRows(main, *batch).run()))
      return failure();
    replaceSymbol(main, *batch, 1);
    replaceSymbol(other, *batch, 1);
  } else if (!getSizes(lengths)[0].isConstant(1)) {
    return main.emitError() << "cannot be proved: a batch of " << getSizes(lengths)[0].str()
                            << " sequences";
  }
  if (failed(ChunkProver(main, symbols).run()))
    return failure();
  // Results do not depend on the capacity (proved before), so the number of tokens is used.
  replaceSymbol(main, symbols.capacity, SymExpr::symbol(symbols.tokens));
  fixInput(main, symbols.lengths, 0);
  fixInput(main, symbols.counts, SymExpr::symbol(symbols.tokens));
  auto past = StepSymbols::lookup(reference);
  return proveEmpty(reference, step, past ? past->past : std::string("#none"));
}
