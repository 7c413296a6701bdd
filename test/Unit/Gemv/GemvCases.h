//===- GemvCases.h - Interpreted matrix-vector kernels ----------*- C++ -*-===//

#ifndef TPC_TEST_UNIT_GEMV_GEMVCASES_H
#define TPC_TEST_UNIT_GEMV_GEMVCASES_H

#include "Ptx/Ptx.h"
#include "tpc/gemv.h"

#include <string>
#include <vector>

namespace gemv {

using tpc::gemv::Variant;

struct Case {
  Variant variant;
  int64_t k = 8, n = 8;
  int64_t wPadding = 0, outPadding = 0; // elements between rows of w; of residual and result
  bool bias = false, residual = false;
  bool aliased = false; // the residual is the result's memory
  bool wide = false;    // bias, residual and result are f32
  int64_t multiprocessors = 8;
  uint64_t alignment = tpc::gemv::kAccessBytes; // alignment of x and w
  int64_t shift = 0; // elements by which bias, residual and result are off their alignment
  // For fused variants only:
  int32_t norm = TPC_NORM_NONE, activation = TPC_EPILOGUE_NONE;
  bool gated = false, hasShift = false;
  bool wideX = false, wideScale = false; // x; scale and shift are f32
  double largestBias = 1;
  double largestWeight = 1;
  uint64_t seed = 0;  // seed of the operands
  uint64_t order = 0; // seed of the interpreter

  std::string str() const;
};

struct Outcome {
  std::string problem; // empty if there is none
  ptx::Counters counters;
  std::vector<uint32_t> bits; // bits of the result
};

/// Returns all 36 variants.
std::vector<Variant> getVariants();
/// Returns the name of a variant's kernel.
std::string getName(const Variant &variant);
/// Returns the parsed text that contains a variant's kernel.
const ptx::Module &getModule(const Variant &variant);
/// Draws sizes, operands and alignments by seed.
Case drawCase(const Variant &variant, uint64_t seed);

/// Returns the PTX of the variant's type and layout, for dependent launches.
std::string getText(const Variant &variant);

/// Returns cases with each possible number of splits of k.
std::vector<Case> getSplitCases(const Variant &variant);

/// Returns cases with each activation of numbers near 0 and of large ones, for one part of k and
/// for two. None if the variant is not fused.
std::vector<Case> getActivationCases(const Variant &variant);

/// Runs a case and compares its result with sums of doubles. Findings of the interpreter, counters
/// that are not reset, and results outside of the error bound are problems. The operands of row b
/// depend only on the seed and b.
Outcome run(const ptx::Module &module, const Case &made);

} // namespace gemv

#endif // TPC_TEST_UNIT_GEMV_GEMVCASES_H
