//===- SeededFaults.cpp - Seeded faults in kernels ----------------------------===//

#include "Modes.h"
#include "Mutants.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace compare;
using llvm::outs;
using llvm::StringRef;

namespace {
struct Prepared {
  Case c;
  CpuRun expected;
  GpuRun correct;
};

/// Cases of a kernel, generated on request.
class Cases {
public:
  Cases(const Program &program, const Kernel &kernel, const Options &options)
      : program(program), kernel(kernel), options(options), seed(options.from) {}
  /// Returns null at the end.
  const Prepared *get(size_t number);
  GpuRun run(const ptx::Module &module, const Prepared &one) const {
    uint64_t bound = 20 * one.correct.launch.counters.total() + 20000;
    return runOnGpu(module, program, kernel, one.c, one.expected, bound);
  }

private:
  const Program &program;
  const Kernel &kernel;
  const Options &options;
  uint64_t seed;
  std::vector<std::unique_ptr<Prepared>> cases;
};

/// Reason that no run finds a fault: no case reaches the statement, the changed statement has the
/// same effect, results have the same bits, or results differ within the bound.
enum class Survival { NotReached, NoDifference, SameBits, OtherBits };
} // namespace

static const char *nameOf(Survival survival) {
  static constexpr const char *names[] = {"not reached", "no difference", "the same bits",
                                          "other bits"};
  return names[unsigned(survival)];
}

const Prepared *Cases::get(size_t number) {
  for (unsigned attempts = 0; cases.size() <= number && attempts < 20; ++attempts) {
    std::optional<Case> c = drawCase(program, kernel, seed++, options);
    if (!c)
      continue;
    CpuRun expected = runOnCpu(program, kernel, *c);
    GpuRun correct = runOnGpu(program.getPtxModule(), program, kernel, *c, expected);
    if (correct.wrong.empty())
      cases.push_back(
          std::make_unique<Prepared>(std::move(*c), std::move(expected), std::move(correct)));
  }
  return number < cases.size() ? cases[number].get() : nullptr;
}

static bool haveSameBits(const Prepared &before, const GpuRun &after) {
  for (auto [i, results] :
       llvm::enumerate(llvm::zip_equal(before.correct.results, after.results))) {
    const CpuRun::Result &own = before.expected.results[i];
    auto &[one, other] = results;
    int64_t size = own.written.empty() ? 1 : one.size() / own.written.size();
    for (size_t at = 0; at < own.written.size(); ++at)
      if (own.written[at] && std::memcmp(&one[at * size], &other[at * size], size))
        return false;
  }
  return true;
}

/// Whether one of the first `count` cases reaches the `trap` that was inserted into the text.
static bool isTrapped(const std::string &text, Cases &cases, size_t count) {
  std::string error;
  std::optional<ptx::Module> module = ptx::parse(text, error);
  if (!module)
    llvm::report_fatal_error(llvm::Twine("a probe is no PTX: ") + error);
  for (size_t i = 0; i < count; ++i)
    if (const Prepared *one = cases.get(i))
      for (const ptx::Finding &finding : cases.run(*module, *one).launch.findings)
        if (finding.check == ptx::Check::Trap)
          return true;
  return false;
}

static Survival judge(const KernelText &text, const Mutant &mutant, bool isSame, Cases &cases,
                      size_t count) {
  if (!isSame)
    return Survival::OtherBits;
  if (!isTrapped(text.withTrap(mutant.line), cases, count))
    return Survival::NotReached;
  auto probe = text.withTrapForDifference(mutant.line, mutant.after);
  return probe && !isTrapped(*probe, cases, count) ? Survival::NoDifference : Survival::SameBits;
}

/// Orders mutants: first one of each kind, then a second one of each, and so on. Which statement
/// they change is drawn by seed.
static std::vector<Mutant> shuffle(std::vector<Mutant> mutants, Random random) {
  for (size_t i = mutants.size(); i > 1; --i)
    std::swap(mutants[i - 1], mutants[random.below(i)]);
  std::map<std::string, unsigned> seen;
  std::map<unsigned, std::vector<Mutant>> turns;
  for (Mutant &mutant : mutants)
    turns[seen[mutant.kind]++].push_back(std::move(mutant));
  mutants.clear();
  for (auto &[turn, ofEachKind] : turns)
    llvm::move(ofEachKind, std::back_inserter(mutants));
  return mutants;
}

void compare::seedFaults(const Program &program, const Kernel &kernel, const Options &options,
                         unsigned maxFaults, Tallies &tallies) {
  // Kernels with these functions are skipped. Most faults in their range reduction and special
  // cases would be in code that no model's positions reach; checkFunctions() covers it.
  bool hasFunctions = false;
  kernel.func->walk([&](mlir::Operation *op) {
    hasFunctions |= llvm::isa<mlir::math::SinOp, mlir::math::CosOp, mlir::math::PowFOp>(op);
  });
  if (hasFunctions)
    return;
  Cases cases(program, kernel, options);
  KernelText text(program.getPtx(), kernel.name);
  // There are more cases if the row length selects the variant of the kernel. There are still more
  // if a result differed within the bound, because the fault may then be visible in a rare case.
  bool byLength = kernel.launch.shape == mlir::tpc::cuda::Shape::RowByLength;
  const size_t count = (byLength ? 20 : 10) * options.seeds, maxCases = 50 * options.seeds;
  unsigned done = 0;
  for (const Mutant &mutant :
       shuffle(makeMutants(text), Random(options.from + std::hash<std::string>()(kernel.name)))) {
    if (done == maxFaults)
      break;
    std::string error, by, changed = text.with(mutant.line, mutant.after.str());
    std::optional<ptx::Module> module = ptx::parse(changed, error);
    if (!module)
      continue; // faults that ptxas would also reject
    ++done;
    if (llvm::Error early = mlir::tpc::cuda::checkDependentLaunch(changed, kernel.name, {})) {
      llvm::consumeError(std::move(early));
      by = "dependency gate";
    }
    bool isSame = true;
    for (size_t i = 0; i < (isSame ? count : maxCases) && by.empty(); ++i)
      if (const Prepared *one = cases.get(i)) {
        GpuRun run = cases.run(*module, *one);
        isSame = isSame && run.wrong.empty() && haveSameBits(*one, run);
        if (!run.wrong.empty())
          by = run.launch.findings.empty() ? "comparison"
                                           : std::string(nameOf(run.launch.findings[0].check));
      }
    Tally &tally = tallies[mutant.kind];
    ++tally.mutants;
    if (!by.empty()) {
      ++tally.caught;
      ++tally.by[by];
      continue;
    }
    // Tab-separated, because explanations contain commas and colons.
    std::string before = text[mutant.line]->str(), after = mutant.after.str();
    outs() << "left\t" << kernel.name << "\t" << mutant.kind << "\t"
           << nameOf(judge(text, mutant, isSame, cases, count)) << "\t" << text.explain(mutant.line)
           << "\t" << before << "\t" << (after.empty() ? "nothing" : after) << "\n";
  }
}

void compare::print(const Tallies &tallies) {
  std::set<std::string> columns;
  Tally all;
  auto add = [&](const Tally &tally) {
    all.mutants += tally.mutants;
    all.caught += tally.caught;
    for (const auto &[by, count] : tally.by)
      all.by[by] += count;
  };
  for (const auto &[kind, tally] : tallies)
    add(tally);
  outs() << "| fault | seeded | caught | left |";
  for (const auto &[by, count] : all.by)
    outs() << " " << by << " |";
  outs() << "\n|---|---|---|---|";
  for (size_t i = 0; i < all.by.size(); ++i)
    outs() << "---|";
  auto row = [&](StringRef kind, const Tally &tally) {
    outs() << "\n| " << kind << " | " << tally.mutants << " | " << tally.caught << " | "
           << tally.mutants - tally.caught << " |";
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
