//===- Modes.cpp - What is asked of kernels -------------------------------===//

#include "Modes.h"
#include "Mutants.h"

#include "tpc/Dialect/RankSizes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace compare;
using llvm::outs;
using llvm::StringRef;

std::optional<Case> compare::drawCase(const Program &program, const Kernel &kernel, uint64_t seed,
                                      const Options &options) {
  auto sizes = Sizes(seed % unsigned(Sizes::NumKinds));
  // Rows of each length have ways of their own.
  if (kernel.launch.shape == mlir::tpc::cuda::Shape::RowByLength && seed % 2)
    sizes = Sizes::Long;
  auto indices = seed / 2 % 2 ? Indices::OneMissing : Indices::Present;
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
// Mistakes
//===----------------------------------------------------------------------===//

namespace {
struct Prepared {
  Case c;
  CpuRun expected;
  GpuRun right;
};
} // namespace

static bool haveSameBits(const Prepared &before, const GpuRun &after) {
  for (auto [i, results] : llvm::enumerate(llvm::zip_equal(before.right.results, after.results))) {
    const CpuRun::Result &own = before.expected.results[i];
    auto &[one, other] = results;
    int64_t size = own.written.empty() ? 1 : one.size() / own.written.size();
    for (size_t at = 0; at < own.written.size(); ++at)
      if (own.written[at] && std::memcmp(&one[at * size], &other[at * size], size))
        return false;
  }
  return true;
}

void compare::seedMistakes(const Program &program, const Kernel &kernel, const Options &options,
                           unsigned most, Tallies &tallies) {
  // Digits of 2/pi that no position of a model needs: checkFunctions() asks for them.
  bool hasFunctions = false;
  kernel.func->walk([&](mlir::Operation *op) {
    hasFunctions |= llvm::isa<mlir::math::SinOp, mlir::math::CosOp, mlir::math::PowFOp>(op);
  });
  if (hasFunctions)
    return;
  std::vector<Prepared> cases;
  auto prepare = [&](uint64_t count) {
    for (uint64_t seed = options.from + cases.size(); cases.size() < count; ++seed) {
      if (seed > options.from + 4 * count)
        return;
      std::optional<Case> c = drawCase(program, kernel, seed, options);
      if (!c)
        continue;
      CpuRun expected = runOnCpu(program, kernel, *c);
      GpuRun right = runOnGpu(program.getPtxModule(), program, kernel, *c, expected);
      if (right.wrong.empty())
        cases.push_back({std::move(*c), std::move(expected), std::move(right)});
    }
  };
  prepare(options.seeds);
  std::vector<Mutant> mutants = makeMutants(getOnly(program.getPtx(), kernel.name));
  // Each kind first once, then again.
  Random random(options.from + std::hash<std::string>()(kernel.name));
  for (size_t i = mutants.size(); i > 1; --i)
    std::swap(mutants[i - 1], mutants[random.below(i)]);
  std::map<std::string, unsigned> seen;
  std::vector<std::pair<unsigned, size_t>> order;
  for (size_t i = 0; i < mutants.size(); ++i)
    order.push_back({seen[mutants[i].kind]++, i});
  llvm::sort(order);
  unsigned done = 0;
  for (auto [round, index] : order) {
    const Mutant &mutant = mutants[index];
    if (done == most)
      break;
    std::string error, by;
    std::optional<ptx::Module> module = ptx::parse(mutant.text, error);
    if (!module)
      continue; // what ptxas would refuse as well
    ++done;
    bool isSame = true;
    auto isCaught = [&](size_t first) {
      for (size_t i = first; i < cases.size(); ++i) {
        uint64_t bound = 20 * cases[i].right.launch.counters.total() + 20000;
        GpuRun run = runOnGpu(*module, program, kernel, cases[i].c, cases[i].expected, bound, true);
        if (!run.wrong.empty()) {
          by = run.launch.findings.empty() ? "comparison"
                                           : std::string(nameOf(run.launch.findings[0].check));
          return true;
        }
        isSame &= haveSameBits(cases[i], run);
      }
      return false;
    };
    bool caught = isCaught(0);
    if (!caught) {
      // What is rare takes more cases.
      size_t first = cases.size();
      prepare(std::max<size_t>(first, 4 * options.seeds));
      caught = isCaught(first < cases.size() ? first : options.seeds);
    }
    Tally &tally = tallies[mutant.kind];
    ++tally.mutants;
    tally.caught += caught;
    tally.equal += !caught && isSame;
    if (caught)
      ++tally.by[by];
    else
      outs() << (isSame ? "the same bits: " : "survived: ") << kernel.name << ": " << mutant.kind
             << ": " << mutant.before << " -> " << (mutant.after.empty() ? "nothing" : mutant.after)
             << "\n";
  }
}

void compare::print(const Tallies &tallies) {
  std::set<std::string> columns;
  Tally all;
  auto add = [&](const Tally &tally) {
    all.mutants += tally.mutants;
    all.caught += tally.caught;
    all.equal += tally.equal;
    for (const auto &[by, count] : tally.by)
      all.by[by] += count;
  };
  for (const auto &[kind, tally] : tallies)
    add(tally);
  outs() << "| mistake | seeded | caught | same bits |";
  for (const auto &[by, count] : all.by)
    outs() << " " << by << " |";
  outs() << "\n|---|---|---|---|";
  for (size_t i = 0; i < all.by.size(); ++i)
    outs() << "---|";
  auto row = [&](StringRef kind, const Tally &tally) {
    outs() << "\n| " << kind << " | " << tally.mutants << " | " << tally.caught << " | "
           << tally.equal << " |";
    for (const auto &[by, count] : all.by) {
      auto own = tally.by.find(by);
      outs() << " " << (own == tally.by.end() ? 0 : own->second) << " |";
    }
  };
  for (const auto &[kind, tally] : tallies)
    row(kind, tally);
  row("all", all);
  outs() << "\n" << tallies.size() << " kinds\n";
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
                            "all={6} shared={7} cycles={8}\n",
                            kernel.name, c->rows, moved, needed,
                            double(moved) / double(std::max<uint64_t>(needed, 1)), bytes, all,
                            counters.sharedRequests, counters.sharedCycles);
    return;
  }
  outs() << "sectors: " << kernel.name << " none\n";
}
