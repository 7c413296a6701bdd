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
    /// For 16-bit floats: values without rounding, and the error of a computation in f64 that
    /// rounds. For f32, computed only if a GPU differs by more than 1e-5.
    std::vector<double> exact;
    double rounding = 0;
  };
  std::vector<Result> results;
  /// Indices that rows report, at most one per row; empty if all are in bounds.
  std::vector<tpc_status> reports;
};

CpuRun runOnCpu(const Program &program, const Kernel &kernel, const Case &c);

struct GpuRun {
  ptx::Result launch;
  std::vector<std::vector<uint8_t>> results;
  /// Findings, one per line; empty if there are none.
  std::string wrong;
};

/// Runs PTX, in which there may be a fault, and compares the results.
GpuRun runOnGpu(const ptx::Module &module, const Program &program, const Kernel &kernel,
                const Case &c, const CpuRun &expected,
                uint64_t maxInstructions = uint64_t(1) << 32);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_COMPARE_H
