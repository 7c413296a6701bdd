//===- Case.cpp - Random sizes and operands of a kernel -------------------===//

#include "Case.h"

#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Dialect/RankSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::tpc;
using namespace compare;

double Random::normal() {
  double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

int64_t Case::evaluate(const SymExpr &size, const EnvLayout &layout) const {
  auto value = substituteNumbers(size, layout.grid).evaluate(values);
  if (!value)
    llvm::report_fatal_error(llvm::Twine("a size has no value: ") + size.str());
  return *value;
}

std::string Case::str() const {
  std::string text = "seed " + std::to_string(seed) + ", blocks " + std::to_string(blocks);
  for (const auto &[name, value] : values)
    text += ", " + name + "=" + std::to_string(value);
  return text;
}

bool compare::hasIndices(const Kernel &kernel) {
  return llvm::any_of(kernel.func.getBody().getArguments(), [](BlockArgument argument) {
    Type element = cast<MemRefType>(argument.getType()).getElementType();
    return element.isInteger() && !element.isInteger(1);
  });
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

namespace {
class Drawing {
public:
  Drawing(const Program &program, const Kernel &kernel, uint64_t seed, const Limits &limits)
      : program(program), layout(program.getLayout()), kernel(kernel), limits(limits),
        random(seed ^ std::hash<std::string>()(kernel.name)) { // each kernel has other numbers
    c.seed = seed;
  }
  std::optional<Case> draw(Sizes sizes, Indices indices);

private:
  bool drawSizes(Sizes sizes);
  void setRankOfWholeChunks();
  bool setSizes(Sizes sizes);
  bool setLength(int64_t &symbol);
  int64_t countElements(BlockArgument memory);
  /// Whether all sizes are within limits.
  bool fits();
  /// Whether the model is valid for these sizes.
  bool isAllowed();
  /// Total number of loop iterations.
  int64_t countWork();
  void fill(Tensor &tensor, double share, int64_t limit);
  bool fillOperands(Indices indices);
  /// Outcome of the case in the reference interpreter.
  enum class Outcome { Good, Missing, Bad };
  Outcome tryOut();
  int64_t evaluate(const SymExpr &size) { return c.evaluate(size, layout); }
  /// Minimum number of elements of dimensions that indices address.
  int64_t getSmallestTable();

  const Program &program;
  const EnvLayout &layout;
  const Kernel &kernel;
  const Limits &limits;
  Random random;
  Case c;
  /// Whether sizes are outside of the model's limits, so that indices derived from them are out of
  /// bounds.
  bool beyond = false;
  bool isLong = false, aligned = false, beyondRanks = false;
};
} // namespace

/// Result of getSmallestTable() for kernels without indices from operands.
static constexpr int64_t kNoIndex = int64_t(1) << 40;

int64_t Drawing::getSmallestTable() {
  int64_t least = kNoIndex;
  auto consider = [&](Value size) {
    if (auto op = size.getDefiningOp<kernel::SizeOp>())
      if (auto value = substituteNumbers(op.getExpr(), layout.grid).evaluate(c.values))
        least = std::min(least, *value);
  };
  kernel.func->walk([&](kernel::CheckOp check) { consider(check.getSize()); });
  // A store may be guarded by a comparison of an index, as an append to a cache is.
  kernel.func->walk([&](memref::StoreOp store) {
    if (auto guard = dyn_cast<scf::IfOp>(store->getParentOp()))
      if (auto compare = guard.getCondition().getDefiningOp<arith::CmpIOp>())
        consider(compare.getRhs());
  });
  return least;
}

static int64_t getProduct(ArrayRef<SymExpr> sizes, llvm::function_ref<int64_t(SymExpr)> evaluate) {
  int64_t all = 1;
  for (const SymExpr &size : sizes)
    all *= std::max<int64_t>(0, evaluate(size));
  return all;
}

int64_t Drawing::countWork() {
  auto value = [&](SymExpr size) { return evaluate(size); };
  int64_t ofRow = 1;
  kernel.func->walk([&](Operation *op) {
    SmallVector<SymExpr> sizes;
    if (auto elements = dyn_cast<kernel::ElementsOp>(op))
      sizes = elements.getExprs();
    else if (auto fold = dyn_cast<kernel::FoldOp>(op))
      sizes = fold.getExprs();
    else
      return;
    int64_t own = getProduct(sizes, value);
    for (Operation *at = op->getParentOp(); at; at = at->getParentOp())
      if (auto elements = dyn_cast<kernel::ElementsOp>(at))
        own *= getProduct(elements.getExprs(), value);
      else if (auto fold = dyn_cast<kernel::FoldOp>(at))
        own *= getProduct(fold.getExprs(), value);
    ofRow += own;
  });
  c.rows = getProduct(kernel.func.getRows().getExprs(), value);
  return ofRow * c.rows;
}

bool Drawing::isAllowed() {
  auto constraints = program.getModule()->getAttrOfType<ArrayAttr>(kConstraintsAttr);
  if (!constraints)
    return true;
  return llvm::all_of(constraints.getAsRange<DictionaryAttr>(), [&](DictionaryAttr constraint) {
    auto value = constraint.getAs<SymExprAttr>("expr").getExpr().evaluate(c.values);
    auto min = constraint.getAs<IntegerAttr>("min"), max = constraint.getAs<IntegerAttr>("max");
    return !value || ((!min || *value >= min.getInt()) && (!max || *value <= max.getInt()));
  });
}

/// Returns the number of elements of an operand or result, including those between its rows.
int64_t Drawing::countElements(BlockArgument memory) {
  auto value = [&](SymExpr s) { return evaluate(s); };
  SmallVector<SymExpr> sizes = kernel.func.getSizesOf(memory);
  auto rows = kernel.func.getRowStride(memory);
  int64_t all = getProduct(sizes, value);
  if (!rows || all == 0)
    return all;
  int64_t width = getProduct(ArrayRef(sizes).drop_front(rows->dims), value);
  return (all / width - 1) * value(rows->stride) + width;
}

bool Drawing::fits() {
  for (BlockArgument memory : kernel.func.getBody().getArguments())
    if (countElements(memory) > limits.elements)
      return false;
  // At least a few long rows.
  auto length = kernel.launch.elementsPerRow.asConstant();
  return countWork() <= (isLong || (length && *length > 1024) ? 3 : 1) * limits.work;
}

bool Drawing::setSizes(Sizes sizes) {
  const auto &symbols = layout.symbols;
  for (const std::string &symbol : symbols)
    switch (sizes) {
    case Sizes::One:
    case Sizes::Empty:
      c.values[symbol] = 1;
      break;
    case Sizes::Even:
      c.values[symbol] = random.below(2) ? 2 + 2 * random.below(6) : 8 << random.below(2);
      break;
    case Sizes::Odd:
      c.values[symbol] = 1 + 2 * random.below(6);
      break;
    case Sizes::Long:
    case Sizes::Many:
      c.values[symbol] = 1 + random.below(3);
      break;
    default:
      c.values[symbol] = random.below(14);
    }
  if (symbols.empty())
    return fits();
  int64_t &chosen = c.values[symbols[random.below(symbols.size())]];
  if (beyond) {
    chosen = getSmallestTable() + 1 + random.below(2) * random.below(40);
    return fits();
  }
  switch (sizes) {
  case Sizes::Empty:
    chosen = 0;
    return fits() && isAllowed();
  case Sizes::Long: // the kernel must also be correct beyond the model's limits
    return setLength(chosen) && fits();
  case Sizes::Many: {
    int64_t most = chosen;
    for (chosen = 4; chosen < 100000 && fits() && isAllowed(); chosen = 2 * most)
      most = chosen;
    chosen = most + random.below(most);
    if (!fits() || !isAllowed())
      chosen = most;
    return fits() && isAllowed();
  }
  default:
    return fits() && isAllowed();
  }
}

/// Chooses the length of long rows. If the length selects the variant of the kernel, the cases take
/// the variants in turn: a warp, or a block with or without the row in registers. Rows have whole
/// chunks, aligned or not, or end with a partial chunk.
bool Drawing::setLength(int64_t &symbol) {
  struct Range {
    int64_t least, most;
  };
  static constexpr Range ranges[] = {{193, 256}, {3585, 4096}, {4097, 5200}};
  int64_t turn = c.seed / 2, way = (turn + turn / 4) % 4;
  bool byLength = !kernel.launch.elementsPerRow.isConstant();
  // In every fourth case, the row ends at each of the elements that a thread of a block computes.
  static constexpr int64_t lasts[] = {4, 2, 5, 3, 6, 1};
  constexpr int64_t threads = 512;
  int64_t before = threads * lasts[turn / 16 % std::size(lasts)];
  Range chosen{65, 4096};
  if (byLength)
    chosen = turn % 4 < 3 ? ranges[turn % 4] : Range{before + 1, before + threads};
  else if (random.below(2) == 0)
    chosen = ranges[2];
  const auto &[least, most] = chosen;
  aligned = byLength && way < 2;
  symbol = least + random.below(most - least + 1);
  int64_t length = evaluate(kernel.launch.elementsPerRow);
  // Some cases have the longest row of this variant, or the shortest row of the next.
  int64_t atEnd = byLength && turn % 4 < 2 ? turn / 16 % 4 : 0;
  if (atEnd == 1 || atEnd == 3)
    symbol += most + atEnd / 2 - length;
  else if (byLength ? way < (turn % 4 == 3 ? 2 : 3) : random.below(2))
    symbol -= length % 8;
  length = evaluate(kernel.launch.elementsPerRow);
  return least - 8 < length && length <= most + 1;
}

/// Chooses a rank beyond the grid whose rows are whole chunks of 16 bytes, if the row length
/// depends on the rank and no rank of the grid has such rows. The kernel's code for them must be
/// correct too.
void Drawing::setRankOfWholeChunks() {
  constexpr int64_t chunk = 8, most = 64;
  for (StringAttr axis : layout.axes()) {
    std::string name = "rank." + axis.str();
    std::optional<int64_t> found;
    for (int64_t rank = 0; rank < most && !found; ++rank) {
      std::map<std::string, int64_t> values{{name, rank}}; // size of this dimension alone
      auto length = substituteNumbers(kernel.launch.elementsPerRow, layout.grid).evaluate(values);
      if (length && *length > 0 && *length % chunk == 0)
        found = rank;
    }
    if (found && *found >= layout.axisSize(axis)) {
      c.values[name] = *found;
      beyondRanks = true;
    }
  }
}

bool Drawing::drawSizes(Sizes sizes) {
  for (StringAttr axis : layout.axes())
    c.values["rank." + axis.str()] = random.below(layout.axisSize(axis));
  if (c.seed % 3 == 2 && !hasIndices(kernel) && !kernel.launch.elementsPerRow.isConstant())
    setRankOfWholeChunks();
  c.values["rank.mb"] = random.below(layout.axisSize("mb"));
  for (unsigned attempt = 0; attempt < 40; ++attempt) {
    beyond = beyond && attempt < 20;
    if (setSizes(sizes))
      return true;
  }
  // The requested sizes are impossible, so the smallest possible ones are drawn.
  for (unsigned attempt = 0; attempt < 200; ++attempt) {
    for (const std::string &symbol : layout.symbols)
      c.values[symbol] = random.below(2 + attempt / 20);
    if (fits() && isAllowed())
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Draws the elements of an operand. `share` is the fraction of floats that are special values.
/// Integers are in [-limit, limit).
void Drawing::fill(Tensor &tensor, double share, int64_t limit) {
  // Kinds of values, each of which reveals a fault:
  //   * large values: a missing guard against overflow of exp;
  //   * values far apart: a wrong maximum;
  //   * rising values: missing last elements of a row;
  //   * small values: a missing epsilon in a root.
  // A faulty maximum could return its identity, so all values are far from it. Their distance from
  // the mean is large enough that it is not rounding error.
  struct Numbers {
    double scale, shift, step;
  };
  static constexpr Numbers kinds[] = {{1, 0, 0},    {3000, 0, 0}, {6, 0, 0},   {10, -150, 0},
                                      {1e-3, 0, 0}, {30, 0, 0},   {1, 0, 100}, {3000, 0, 0}};
  // setLength() repeats after four cases. Without `turn / 8`, rows of one length would always have
  // the same two kinds of values.
  uint64_t turn = c.seed / 2;
  const auto &[scale, shift, step] = kinds[(turn + turn / 8) % std::size(kinds)];
  // The largest f16 is 65504.
  double rise = step && getElementBytes(tensor.type) == 2 ? 16 : step;
  // Fraction of ordinary numbers that are replaced by numbers near the ends of exp's range.
  double ofEnds = (scale == 1 || scale == 6) && !shift && !step && c.seed % 3 == 1 ? 0.1 : 0;
  static constexpr double special[] = {0., -0., INFINITY, -INFINITY, NAN, 1e-41, -3e-39};
  bool isFloat = isa<FloatType>(tensor.type);
  // Each row rises separately: for numbers with a large common offset, f32 has no meaningful mean
  // to compare.
  int64_t ofRow = evaluate(kernel.launch.elementsPerRow), most = 4000,
          length = ofRow > 1 ? std::min(ofRow, most) : most, parts = 1;
  for (StringAttr axis : layout.axes())
    parts = std::max(parts, layout.axisSize(axis));
  for (int64_t i = 0; i < tensor.elements; ++i) {
    lowered::Scalar value;
    if (isFloat)
      value.f = random.uniform() < share ? special[random.below(std::size(special))]
                : random.uniform() < ofEnds
                    ? (random.below(2) ? 1 : -1) * (80 + 12 * random.uniform())
                    : random.normal() * scale + shift + rise * double(i % length);
    else if (tensor.type.isInteger(1))
      value.i = random.below(2);
    else
      value.i = (random.below(limit) >> (limit < kNoIndex ? 0 : random.below(40))) -
                (random.below(4) ? 0 : limit);
    if (!isFloat && !tensor.type.isInteger(1) && !random.below(6)) // offset of a rank's shard
      value.i = llvm::divideCeil(limit * random.below(parts), parts) - random.below(2);
    tensor.content.store(i, value);
  }
}

static lowered::MemoryView makeView(const Tensor &tensor, bool rounds) {
  return {std::make_shared<lowered::Memory>(tensor.bytes(), rounds), 0, tensor.elements,
          tensor.type};
}

Drawing::Outcome Drawing::tryOut() {
  ScopedDiagnosticHandler quiet(kernel.func.getContext(), [](Diagnostic &) { return success(); });
  auto run = lowered::KernelProgram::get(kernel.func);
  if (failed(run))
    return Outcome::Bad;
  std::vector<lowered::MemoryView> memory;
  for (const Tensor &operand : c.operands)
    memory.push_back(operand.content);
  for (const Tensor &result : c.results)
    memory.push_back(makeView(result, true));
  bool reported = false;
  if (failed((*run)->run(
          memory, [&](const SymExpr &s) { return evaluate(s); }, c.seed, lowered::Rounding::Casts,
          reported)))
    return Outcome::Bad;
  return reported ? Outcome::Missing : Outcome::Good;
}

bool Drawing::fillOperands(Indices indices) {
  double share = c.seed % 5 == 4 ? 0.02 : 0;
  // ONNX does not define the integer of a float that is out of range: GPUs saturate, and x86
  // returns the minimum.
  kernel.func->walk([&](Operation *op) {
    if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
      share = 0;
  });
  auto fillAll = [&](int64_t limit) {
    for (Tensor &operand : c.operands)
      fill(operand, share, limit);
  };
  if (!hasIndices(kernel)) {
    fillAll(kNoIndex);
    return (isAllowed() && !beyond && !beyondRanks) || tryOut() != Outcome::Bad;
  }
  // Only the kernel determines which integers are valid. So ranges are reduced until one is.
  int64_t limit = getSmallestTable();
  Outcome outcome = Outcome::Bad;
  int64_t limits[] = {limit, limit, std::max<int64_t>(1, limit / 2), 8, 4, 2, 1, 1};
  for (int64_t most : limits) {
    fillAll(std::max<int64_t>(1, most));
    outcome = tryOut();
    if (outcome == Outcome::Good)
      break;
  }
  if (indices == Indices::Present || outcome != Outcome::Good)
    return outcome != Outcome::Bad;
  std::vector<Tensor *> integers;
  for (Tensor &operand : c.operands)
    if (operand.elements && operand.type.isInteger() && !operand.type.isInteger(1))
      integers.push_back(&operand);
  if (integers.empty())
    return true;
  // One index is out of bounds, or a random number of them. With several, it is unspecified which
  // row reports.
  Tensor &operand = *integers[random.below(integers.size())];
  std::map<int64_t, lowered::Scalar> before;
  for (int64_t count = random.below(2) ? 1 : 1 + random.below(operand.elements); count; --count) {
    int64_t at = random.below(operand.elements);
    before.try_emplace(at, operand.content.load(at));
  }
  for (int64_t value : {limit, -limit - 1, limit + random.below(1000), int64_t(1) << 40}) {
    for (const auto &[at, index] : before)
      operand.content.store(at, {.i = random.below(3) ? value : -value - 1});
    if (tryOut() != Outcome::Bad)
      return true;
  }
  for (const auto &[at, index] : before)
    operand.content.store(at, index);
  return true;
}

std::optional<Case> Drawing::draw(Sizes sizes, Indices indices) {
  if (indices == Indices::SomeMissing && c.seed / 4 % 2)
    beyond = getSmallestTable() < kNoIndex;
  isLong = sizes == Sizes::Long;
  if (!drawSizes(sizes))
    return std::nullopt;
  for (const std::string &symbol : layout.symbols)
    c.env.push_back(c.values[symbol]);
  for (StringAttr axis : layout.axes())
    c.env.push_back(c.values["rank." + axis.str()]);
  c.env.push_back(c.values["rank.mb"]);
  unsigned numOperands = kernel.func.getOperandMemory().size();
  // All arguments are aligned, or one has a smaller alignment, or all alignments are random.
  auto arguments = kernel.func.getBody().getArguments();
  int64_t alignment = aligned ? 0 : random.below(3), notAligned = random.below(arguments.size());
  for (BlockArgument memory : arguments) {
    Tensor tensor;
    tensor.type = cast<MemRefType>(memory.getType()).getElementType();
    tensor.elements = countElements(memory);
    unsigned own = getElementBytes(tensor.type);
    if (alignment == 2)
      tensor.alignment = own << random.below(3);
    else if (alignment == 1 && memory.getArgNumber() == notAligned)
      tensor.alignment = own << random.below(llvm::Log2_32(16 / own));
    bool isOperand = memory.getArgNumber() < numOperands;
    if (isOperand)
      tensor.content = makeView(tensor, true);
    (isOperand ? c.operands : c.results).push_back(std::move(tensor));
  }
  c.blocks = random.below(4) ? 1 + random.below(4) : 1 + random.below(9);
  if (!fillOperands(indices))
    return std::nullopt;
  return std::move(c);
}

std::optional<Case> compare::draw(const Program &program, const Kernel &kernel, Sizes sizes,
                                  Indices indices, uint64_t seed, const Limits &limits) {
  return Drawing(program, kernel, seed, limits).draw(sizes, indices);
}
