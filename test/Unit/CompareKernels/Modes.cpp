//===- Modes.cpp - What is asked of kernels -------------------------------===//

#include "Modes.h"

#include "tpc/Dialect/RankSizes.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace compare;
using llvm::outs;
using llvm::StringRef;

std::optional<Case> compare::drawCase(const Program &program, const Kernel &kernel, uint64_t seed,
                                      const Options &options) {
  auto sizes = Sizes(seed % unsigned(Sizes::NumKinds));
  // Rows of each length have ways of their own, most where a warp or a block does them.
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
  totals.without += !ran;
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

/// Whether there is more of it where there are more rows.
static bool isOfRows(const Kernel &kernel, unsigned argument) {
  std::set<std::string> rows = getSymbols(kernel.func.getRows().getExprs());
  mlir::Value memory = kernel.func.getBody().getArgument(argument);
  return llvm::any_of(getSymbols(kernel.func.getSizesOf(memory)),
                      [&](const std::string &name) { return rows.count(name); });
}

// Operands that a row has its part of are read once; what all rows read (weights) stays in caches,
// and requests say nothing about it.
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
    uint64_t moved = 0, needed = 0, bytes = 0, all = 0;
    auto add = [&](const std::string &name, unsigned argument) {
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
      needed += llvm::divideCeil(traffic.distinctReadBytes, 32) +
                llvm::divideCeil(traffic.distinctWrittenBytes, 32);
    };
    for (size_t i = 0; i < c->operands.size(); ++i)
      add("operand " + std::to_string(i), i);
    for (size_t i = 0; i < c->results.size(); ++i)
      add("result " + std::to_string(i), c->operands.size() + i);
    const ptx::Counters &counters = run.launch.counters;
    outs() << llvm::formatv("sectors: {0} rows={1} moved={2} needed={3} ratio={4:f2} bytes={5} "
                            "all={6} shared={7} conflicts={8}\n",
                            kernel.name, c->rows, moved, needed,
                            double(moved) / double(std::max<uint64_t>(needed, 1)), bytes, all,
                            counters.sharedRequests, counters.sharedConflicts);
    return;
  }
  outs() << "sectors: " << kernel.name << " none\n";
}
