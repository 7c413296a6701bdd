//===- Matmul.h - Matmul descriptions and the GEMM ------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUBLASLT_MATMUL_H
#define TPC_TEST_SIMULATOR_CUBLASLT_MATMUL_H

#include "Cuda/Private.h"
#include "Types.h"

#include <array>

namespace sim::lt {

struct Desc {
  ComputeType compute = Compute32F;
  DataType scale = F32;
  PointerMode pointerMode = Host;
  Operation transA = OpN, transB = OpN, transC = OpN;
  Epilogue epilogue = Default;
  uint64_t bias = 0;
  int64_t biasBatchStride = 0;
  int32_t biasType = -1; // -1: D's type
};

struct Layout {
  DataType type = F32;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0;
  Order order = Col;
  int32_t batches = 1;
  int64_t stride = 0; // elements between batches
};

struct Preference {
  uint32_t searchMode = 0;
  uint64_t maxWorkspace = 0;
  uint32_t reductions = ~0u;
  std::array<uint32_t, 4> alignment{256, 256, 256, 256}; // bytes, for A, B, C, D
};

unsigned bytesOf(DataType type);

/// D = alpha * op(A) * op(B) + beta * C. A copy of the descriptors, because programs may destroy
/// them.
struct Problem {
  Desc desc;
  std::array<Layout, 4> layouts; // A, B, C, D
  uint64_t m = 0, n = 0, k = 0;

  /// Returns SUCCESS or the library's error, and reports a finding if the program misuses the API.
  static Status make(const Desc &desc, const Layout &a, const Layout &b, const Layout &c,
                     const Layout &d, Problem &made, std::string &why);
  /// Returns the key of the algorithm choice, such as "5x7x20" and the types.
  std::string name() const;
  /// Returns a hash that does not depend on the operands' addresses.
  uint64_t hash() const;
};

/// Contents of a cublasLtMatmulAlgo_t.
struct AlgorithmChoice {
  uint64_t magic, problem, id, workspace;
  std::array<uint32_t, 4> alignment;
  uint32_t chunk; // chunk of k that is summed before it is added to the result
  uint32_t refused;
  double pace; // duration, relative to the fastest algorithm
};
static_assert(sizeof(AlgorithmChoice) == sizeof(Algo));
constexpr uint64_t choiceMagic = 0x7470632d6c740001;

/// Returns the n-th algorithm for a problem; the seed determines it.
AlgorithmChoice choose(const Problem &problem, const Preference &preference, uint64_t seed,
                       unsigned n);

struct Operands {
  std::array<uint64_t, 4> addresses; // A, B, C, D
  float alpha = 1, beta = 0;
  uint64_t alphaAddress = 0, betaAddress = 0; // device addresses; 0: on the host
  uint64_t workspace = 0;
};

std::shared_ptr<Work> makeMatmul(const Problem &problem, const Operands &operands,
                                 const AlgorithmChoice &choice, bool tanhGelu);

} // namespace sim::lt

#endif
