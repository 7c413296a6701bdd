//===- Modes.cpp - Modes of tpc-compare-kernels ---------------------------===//

#include "Modes.h"

#include "tpc/Dialect/RankSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace compare;
using llvm::outs;
using llvm::StringRef;

std::optional<Case> compare::drawCase(const Program &program, const Kernel &kernel, uint64_t seed,
                                      const Options &options) {
  auto sizes = Sizes(seed % unsigned(Sizes::NumKinds));
  // The row length selects the kernel's variant. Most variants are for rows of a warp or a block.
  bool byLength = kernel.launch.shape == mlir::tpc::cuda::Shape::RowByLength;
  if (!kernel.launch.elementsPerRow.isConstant() && seed % (byLength ? 2 : 4) == 1)
    sizes = Sizes::Long;
  auto indices = seed / 2 % 2 ? Indices::SomeMissing : Indices::Present;
  return draw(program, kernel, sizes, indices, seed, options.limits);
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

void compare::compareKernel(const Program &program, const Kernel &kernel, StringRef input,
                            const Options &options, Totals &totals) {
  unsigned ran = 0, reported = 0;
  for (uint64_t seed = options.from; seed < options.from + options.seeds; ++seed) {
    std::optional<Case> c = drawCase(program, kernel, seed, options);
    if (!c)
      continue;
    CpuRun expected = runOnCpu(program, kernel, *c);
    GpuRun run = runOnGpu(program.getPtxModule(), program, kernel, *c, expected);
    ++ran;
    reported += !expected.reports.empty();
    if (run.wrong.empty())
      continue;
    ++totals.wrong;
    outs() << input << ": " << kernel.name << " (" << kernel.node << "), " << c->str() << ":\n"
           << run.wrong;
    break;
  }
  if (!ran)
    outs() << input << ": " << kernel.name << ": no case is small enough\n";
  totals.cases += ran;
  totals.withoutCases += !ran;
  if (options.verbose)
    outs() << input << ": " << kernel.name << ": " << ran << " cases, " << reported
           << " with a missing index\n";
}

//===----------------------------------------------------------------------===//
// Sectors
//===----------------------------------------------------------------------===//

static std::set<std::string> getSymbols(llvm::ArrayRef<SymExpr> sizes) {
  std::set<std::string> all, own;
  for (const SymExpr &size : sizes)
    size.collectSymbols(all);
  for (const std::string &name : all)
    if (!mlir::tpc::getNamedSize(name))
      own.insert(name);
  return own;
}

/// Whether the argument's size grows with the number of rows.
static bool isOfRows(const Kernel &kernel, unsigned argument) {
  std::set<std::string> rows = getSymbols(kernel.func.getRows().getExprs());
  mlir::Value memory = kernel.func.getBody().getArgument(argument);
  return llvm::any_of(getSymbols(kernel.func.getSizesOf(memory)),
                      [&](const std::string &name) { return rows.count(name); });
}

/// Whether a value is computed from an index.
static bool isOf(mlir::Value value, mlir::Value index) {
  if (!index)
    return false;
  if (value == index)
    return true;
  mlir::Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](mlir::Value v) { return isOf(v, index); });
}

namespace {
/// Access pattern of a kernel in one memory: consecutive elements, also from row to row;
/// consecutive elements of the last dimension only; or single elements.
enum class Order { Rows, Last, Single };
} // namespace

static Order getOrder(const Kernel &kernel, mlir::Value memory) {
  auto order = Order::Single;
  bool ofElements = false;
  bool isInOrder = kernel.launch.shape == mlir::tpc::cuda::Shape::Elements;
  kernel.func->walk([&](mlir::Operation *op) {
    mlir::ValueRange indices;
    if (auto load = dyn_cast<mlir::memref::LoadOp>(op); load && load.getMemref() == memory)
      indices = load.getIndices();
    else if (auto store = dyn_cast<mlir::memref::StoreOp>(op); store && store.getMemref() == memory)
      indices = store.getIndices();
    else
      return;
    llvm::SmallVector<mlir::Value> loops(kernel.func.getRows().getIndices());
    auto elements = op->getParentOfType<mlir::tpc::kernel::ElementsOp>();
    if (elements)
      llvm::append_range(loops, elements.getIndices());
    size_t next = 0;
    for (mlir::Value index : indices)
      if (auto *at = llvm::find(llvm::drop_begin(loops, next), index); at != loops.end())
        isInOrder &= size_t(at - loops.begin()) == next, next = at - loops.begin() + 1;
      else
        isInOrder &= isa_and_nonnull<mlir::arith::ConstantOp>(index.getDefiningOp());
    isInOrder &= elements && next == loops.size();
    for (mlir::Value index : indices)
      ofElements |=
          elements &&
          isOf(index, elements.getIndices().empty() ? nullptr : elements.getIndices().back());
    mlir::Operation *inner = op->getParentOp();
    for (; inner != kernel.func; inner = inner->getParentOp())
      if (isa<mlir::tpc::kernel::ElementsOp, mlir::tpc::kernel::FoldOp>(inner) &&
          inner->getRegion(0).getNumArguments() && !indices.empty() &&
          isOf(indices.back(), inner->getRegion(0).getArguments().back()))
        order = Order::Last;
  });
  if (order == Order::Single && ofElements)
    return kernel.launch.shape == mlir::tpc::cuda::Shape::Tiles ? Order::Last : Order::Rows;
  return isInOrder ? Order::Rows : order;
}

/// Returns the number of sectors that contain `bytes` bytes of a memory. If rows access separate
/// ranges of it, the sectors of each range count.
static uint64_t countNeeded(const Case &c, const Program &program, const Kernel &kernel,
                            unsigned argument, const Tensor &tensor, uint64_t bytes) {
  constexpr uint64_t sector = 32;
  uint64_t piece = mlir::tpc::getElementBytes(tensor.type);
  auto sizes = kernel.func.getSizesOf(kernel.func.getBody().getArgument(argument));
  Order order = getOrder(kernel, kernel.func.getBody().getArgument(argument));
  if (order == Order::Rows || sizes.empty())
    return llvm::divideCeil(bytes, sector);
  if (order == Order::Last)
    piece *= std::max<int64_t>(c.evaluate(sizes.back(), program.getLayout()), 1);
  uint64_t sum = 0, numPieces = uint64_t(tensor.bytes()) / piece;
  for (uint64_t i = 0; i < numPieces; ++i)
    sum += ((i + 1) * piece - 1) / sector - i * piece / sector + 1;
  // If only a part of a tensor is read, its sectors count in proportion.
  return std::max(llvm::divideCeil(bytes, sector),
                  llvm::divideCeil(sum * bytes, std::max<uint64_t>(tensor.bytes(), 1)));
}

// The counters count the sectors of all requests, as if there were no cache. So `moved` excludes
// operands that all rows read (weights): a GPU reads them from its cache. `needed`: sectors that
// contain the accessed bytes, if rows access separate ranges; `together`: if all rows accessed one
// range.
void compare::countSectors(const Program &program, const Kernel &kernel, const Options &options) {
  for (uint64_t seed = options.from; seed < options.from + 60; ++seed) {
    std::optional<Case> c =
        draw(program, kernel, Sizes::Even, Indices::Present, seed, options.limits);
    if (!c || c->rows < 2 || llvm::any_of(c->results, [](const Tensor &t) { return !t.elements; }))
      continue;
    CpuRun expected = runOnCpu(program, kernel, *c);
    for (Tensor &tensor : c->operands)
      tensor.alignment = 256;
    for (Tensor &tensor : c->results)
      tensor.alignment = 256;
    GpuRun run = runOnGpu(program.getPtxModule(), program, kernel, *c, expected);
    if (!run.wrong.empty() || !expected.reports.empty())
      continue;
    uint64_t moved = 0, needed = 0, together = 0, bytes = 0, all = 0;
    auto add = [&](const std::string &name, unsigned argument, const Tensor &tensor) {
      auto it = run.launch.counters.allocations.find(name);
      if (it == run.launch.counters.allocations.end())
        return;
      const ptx::Traffic &traffic = it->second;
      uint64_t own = traffic.readSectors + traffic.writtenSectors;
      all += own;
      if (!isOfRows(kernel, argument))
        return;
      moved += own;
      bytes += traffic.distinctReadBytes + traffic.distinctWrittenBytes;
      for (uint64_t part : {traffic.distinctReadBytes, traffic.distinctWrittenBytes}) {
        together += llvm::divideCeil(part, 32);
        if (part)
          needed += countNeeded(*c, program, kernel, argument, tensor, part);
      }
    };
    for (size_t i = 0; i < c->operands.size(); ++i)
      add("operand " + std::to_string(i), i, c->operands[i]);
    for (size_t i = 0; i < c->results.size(); ++i)
      add("result " + std::to_string(i), c->operands.size() + i, c->results[i]);
    const ptx::Counters &counters = run.launch.counters;
    outs() << llvm::formatv("sectors: {0} rows={1} moved={2} needed={3} ratio={4:f2} bytes={5} "
                            "all={6} together={7} shared={8} conflicts={9}\n",
                            kernel.name, c->rows, moved, needed,
                            double(moved) / double(std::max<uint64_t>(needed, 1)), bytes, all,
                            together, counters.sharedRequests, counters.sharedConflicts);
    return;
  }
  outs() << "sectors: " << kernel.name << " none\n";
}
