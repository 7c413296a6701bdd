//===- AttentionCases.h - Attention cases for CPU and PTX -------*- C++ -*-===//
//
// A case draws operands by its seed, runs tpc_attention of the runtime and the kernels in the
// interpreter, and compares. No LLVM in it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_UNIT_ATTENTION_ATTENTIONCASES_H
#define TPC_TEST_UNIT_ATTENTION_ATTENTIONCASES_H

#include "Ptx/Ptx.h"
#include "tpc/attention.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attention {

using tpc::attention::Kernel;
using tpc::attention::Variant;

/// One entry point.
struct Entry {
  std::string name;
  unsigned threads = 0, dynamicShared = 0;
};

struct Kernels {
  Variant variant;
  Entry tiles, split, combine;
};

struct Case {
  int64_t batch = 1, queries = 1, keys = 1, kvHeads = 1, group = 1;
  int64_t offset = 0, window = 0; // of the causal mask
  int64_t padding = 0;            // elements between the tokens of q, k and v
  int64_t shift = 0;              // elements by which operands are off their alignment
  bool broadcast = true;          // mask and bias are those of all batches and heads
  double visible = 0.7;           // of masks
  double hiddenRows = 0;          // of the mask's rows
  uint64_t seed = 0;

  std::string str() const;
};

enum class Way : uint8_t { Tiles, Split };

struct Outcome {
  std::string problem; // empty: none
  ptx::Counters counters;
};

/// All head sizes, types and masks that there are, each with some other.
std::vector<Variant> getVariants();
/// Lengths, offsets, groups, strides and masks, by seed.
Case drawCase(const Variant &variant, uint64_t seed);

/// Runs and compares. Findings of the interpreter are problems.
Outcome run(const ptx::Module &module, const Kernels &kernels, const Case &made, Way way);

/// Errors of the CPU against f64, relative to the largest element.
struct SlopeErrors {
  double slopes;     // slope * (key - query) is computed by the kernel
  double bias;       // slope * key is a bias of f32, as graphs without the op have it
  double difference; // of these two
};
SlopeErrors measureSlopes(int64_t keys);

} // namespace attention

#endif
