//===- GemvFaultsTest.cpp - Seeded faults in matrix-vector kernels ------===//

#include "GemvCases.h"
#include "Mutants.h"

#include "cuda/library/GemvText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Regex.h"

#include <gtest/gtest.h>

using namespace gemv;

namespace {

/// Faults that change no result, by kind and explanation.
struct Equivalent {
  const char *kind, *explanation, *reason;
};
constexpr Equivalent equivalents[] = {
    {"^a shuffle of (another kind|parts of a warp)$", "^shuffle",
     "the lane that stores this sum gets the same addend; other lanes do not use theirs"},
    {"^a condition turned round$", "^lt\\(thread, [0-9]+\\) for and$",
     "threads beyond the results have the same results"},
    {"^a (branch never taken|bound off by one)$",
     "^(branch if )?ge\\(one of \\(0 or .*parameter 7, 2\\)\\)( for bra)?$",
     "the branch skips the rest of a row; each access of the rest is guarded, too"},
    {"^a (branch never taken|bound off by one)$",
     "^(branch if )?gt\\(shr\\(add\\(parameter (8|10), 63\\), 6\\), blocks\\)( for bra)?$",
     "there are at least as many blocks as ranges"},
    {"^a branch never taken$", "^return if ge\\(or\\(.*shl\\(block, [0-9]+\\)\\), parameter 8\\)$",
     "warps beyond the last row then compute the last row, and store nothing"},
    {"^a wrong constant$",
     "^choose\\(gtf\\(mulf\\(one of .*, neg\\(…\\)\\), 0f42B17217\\), 0f42B17217",
     "in erf: the negative of a square is below the bound"},
    {"^a wrong identity$", "^0f00000000 for addf, cvt, st$",
     "the sum of no split, which is not used"},
    {"^a wrong identity$", "^0f00000000 for fmaf, mov$", "values of a missing access are not used"},
};

bool isEquivalent(const std::string &kind, const std::string &explanation) {
  for (const Equivalent &one : equivalents)
    if (llvm::Regex(one.kind).match(kind) && llvm::Regex(one.explanation).match(explanation))
      return true;
  return false;
}

/// Inserts each `stride`-th fault. Some case must find it, unless it changes no result.
void expectFound(const Variant &variant, size_t stride) {
  compare::KernelText text(
      tpc::rt::cuda::gemvText(variant.element, variant.transposed, variant.fused),
      getName(variant));
  std::vector<Case> cases;
  auto draw = [&](uint64_t begin, uint64_t end) {
    for (uint64_t seed = begin; seed < end; ++seed)
      cases.push_back(drawCase(variant, 31 * seed + 3));
  };
  draw(0, 40);
  llvm::append_range(cases, getActivationCases(variant));
  llvm::append_range(cases, getSplitCases(variant));
  if (variant.fused)
    draw(40, 320);
  unsigned seeded = 0, found = 0, equal = 0;
  std::vector<compare::Mutant> mutants = compare::makeMutants(text);
  for (size_t i = 0; i < mutants.size(); i += stride) {
    const compare::Mutant &mutant = mutants[i];
    std::string error;
    auto module = ptx::parse(text.with(mutant.line, mutant.after.str()), error);
    if (!module)
      continue; // ptxas would reject it as well
    ++seeded;
    // GemvStatic.LoadsAreWide finds loads through the read-only cache.
    bool isFound = mutant.after.is("ld.global.nc");
    for (const Case &made : cases)
      isFound = isFound || !run(*module, made).problem.empty();
    found += isFound;
    std::string explanation = text.explain(mutant.line);
    if (isFound)
      continue;
    if (isEquivalent(mutant.kind, explanation))
      ++equal;
    else
      std::printf("left\t%s\t%s\t%s\t%s\t%s\n", getName(variant).c_str(), mutant.kind.c_str(),
                  explanation.c_str(), text[mutant.line]->str().c_str(),
                  mutant.after.str().c_str());
  }
  std::printf("%s: %u of %u seeded faults found, %u change no result\n", getName(variant).c_str(),
              found, seeded, equal);
  EXPECT_GE(seeded, 25u);
  EXPECT_GE((found + equal) * 100, seeded * 99);
  EXPECT_LE(equal * 10, seeded);
}

TEST(GemvFaults, AreFound) {
  const char *level = std::getenv("TPC_TESTS");
  size_t stride = level && std::string_view(level) == "long" ? 1 : 26;
  expectFound({TPC_BF16, false, 2}, stride);
  expectFound({TPC_F32, true, 3}, stride);
  expectFound({TPC_BF16, false, 2, true}, stride);
}

} // namespace
