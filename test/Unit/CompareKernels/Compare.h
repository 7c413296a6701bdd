//===- Compare.h - Comparison of both targets on one case -----------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_COMPARE_H
#define TPC_TEST_UNIT_COMPAREKERNELS_COMPARE_H

#include "Case.h"

namespace compare {

/// Results on the CPU, and data that bound the error on a GPU.
struct CpuRun {
  struct Result {
    std::vector<uint8_t> bytes;
    std::vector<bool> written; // for each element, whether the kernel wrote it
    bool writesAll = true;
    /// For 16-bit floats: results in f64 without rounding (exact), and the largest distance from
    /// them of results that round only at casts and stores (rounding). For f32, only exact, and
    /// only if a GPU's result differs from the CPU's by more than 1e-5.
    std::vector<double> exact;
    double rounding = 0;
  };
  std::vector<Result> results;
  /// Out-of-bounds indices that the kernel reports, at most one per row.
  std::vector<tpc_status> reports;
};

CpuRun runOnCpu(const Program &program, const Kernel &kernel, const Case &c);

struct GpuRun {
  ptx::Result launch;
  std::vector<std::vector<uint8_t>> results;
  /// Findings, one per line; empty if there are none.
  std::string wrong;
};

/// Runs PTX, which may be a mutant, and compares the results with those of the CPU.
GpuRun runOnGpu(const ptx::Module &module, const Program &program, const Kernel &kernel,
                const Case &c, const CpuRun &expected,
                uint64_t maxInstructions = uint64_t(1) << 32);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_COMPARE_H
