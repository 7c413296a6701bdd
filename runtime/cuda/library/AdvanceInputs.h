//===- AdvanceInputs.h - Kernel that advances step inputs -----------------===//

#ifndef TPC_RT_CUDA_LIBRARY_ADVANCEINPUTS_H
#define TPC_RT_CUDA_LIBRARY_ADVANCEINPUTS_H

#include "core/SamplingRequest.h"
#include <cstdint>
#include <string>

namespace tpc::rt::cuda {

inline constexpr const char *advanceInputsName = "tpc_advance_inputs";
std::string advanceInputsKernel();

/// Launch parameters; one thread per row.
struct AdvanceInputsLaunch {
  static constexpr unsigned threads = 128;

  // Kernel parameters, in order. Shifts: 2 or 3, for elements of 4 or 8 bytes.
  uint64_t best, settings, tokens, lengths, windowLengths;
  uint32_t rows, rowBytes, tokenShift, lengthShift, windowShift, lastToken;

  /// `best`: the sampled tokens, as delivered by Device::sample.
  AdvanceInputsLaunch(const SamplingRequest &request, uint64_t best)
      : best(best), settings(reinterpret_cast<uint64_t>(request.settings)),
        tokens(reinterpret_cast<uint64_t>(request.advanced.tokens)),
        lengths(reinterpret_cast<uint64_t>(request.advanced.lengths)),
        windowLengths(reinterpret_cast<uint64_t>(request.advanced.windowLengths)),
        rows(static_cast<uint32_t>(request.rows)),
        rowBytes(static_cast<uint32_t>(request.settingsBytes)),
        tokenShift(shiftOf(request.advanced.tokenBytes)),
        lengthShift(shiftOf(request.advanced.lengthBytes)),
        windowShift(shiftOf(request.advanced.windowBytes)),
        lastToken(static_cast<uint32_t>(request.advanced.lastToken)) {}

  int64_t blocks() const { return (int64_t(rows) + threads - 1) / threads; }

  template <class Visit> void forEachParameter(Visit visit) {
    visit(best), visit(settings), visit(tokens), visit(lengths), visit(windowLengths);
    visit(rows), visit(rowBytes), visit(tokenShift), visit(lengthShift), visit(windowShift);
    visit(lastToken);
  }

private:
  static uint32_t shiftOf(int32_t bytes) { return bytes == 4 ? 2 : 3; }
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_ADVANCEINPUTS_H
