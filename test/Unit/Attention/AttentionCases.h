//===- AttentionCases.h - Attention cases for CPU and PTX -------*- C++ -*-===//
//
// A case draws operands by its seed. It runs the runtime's tpc_attention on them and the kernels in
// the PTX interpreter, and compares the results. It uses no LLVM.
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

/// One kernel of the PTX text.
struct Entry {
  std::string name;
  unsigned threads = 0, dynamicShared = 0;
};

struct Kernels {
  Variant variant;
  Entry tiles, split;
};

struct Case {
  int64_t batch = 1, queries = 1, keys = 1, kvHeads = 1, group = 1;
  int64_t offset = 0, window = 0; // causal_offset, and number of keys of a window
  int64_t padding = 0;            // elements between the tokens of q, k and v
  int64_t shift = 0;              // elements by which operands are off their alignment
  bool broadcast = true;          // mask and bias are shared by all batches and heads
  double visible = 0.7;           // fraction of visible entries of masks
  double hiddenRows = 0;          // fraction of mask rows that hide all keys
  int64_t blocks = 0;             // number of blocks of the grid; 0: drawn by seed
  int64_t sequence = -1;          // the only sequence of the batch to compute; -1: all
  uint64_t seed = 0;

  std::string str() const;
};

enum class Way : uint8_t { Tiles, Split };

struct Outcome {
  std::string problem; // empty if there is none
  ptx::Counters counters;
  std::vector<uint8_t> bits; // bits of the result
};

/// Returns variants with all head sizes, all types and all masks. A variant differs from the
/// default in one of these.
std::vector<Variant> getVariants();
/// Draws lengths, offsets, sizes of head groups, strides and masks by seed.
Case drawCase(const Variant &variant, uint64_t seed);

/// Runs a case and compares. The outcome has the interpreter's findings and the differences.
Outcome run(const ptx::Module &module, const Kernels &kernels, const Case &made, Way way);

/// Errors relative to f64 on the CPU, as fractions of the largest element.
struct SlopeErrors {
  double slopes;     // slope * (key - query) is computed by the kernel
  double bias;       // slope * key is an f32 bias, as in graphs without the op
  double difference; // difference between the two
};
SlopeErrors measureSlopes(int64_t keys);

} // namespace attention

#endif
