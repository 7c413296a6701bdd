//===- Cuts.h - Balanced division of a chain into stages --------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_STAGES_CUTS_H
#define TPC_TRANSFORMS_STAGES_CUTS_H

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace mlir::tpc {

/// Divides a chain of segments into `stages` consecutive non-empty stages. cost(i, j) is the cost
/// of a stage with segments [i, j). Minimizes the maximum cost of a stage. Among all divisions
/// whose maximum is at most 1 + `slack` times the minimum, minimizes the sum of squares of
/// balanceCost(i, j) (default: cost). Stage s may begin with segment i only if mayBegin(s, i).
/// Returns the first segments of stages 1, 2, …; nothing if there is no valid division, for example
/// with fewer segments than stages. Takes O(segments^2 * stages) time.
std::optional<std::vector<size_t>>
chooseCuts(size_t segments, size_t stages, const std::function<double(size_t, size_t)> &cost,
           double slack = 0, const std::function<double(size_t, size_t)> &balanceCost = {},
           const std::function<bool(size_t, size_t)> &mayBegin = {});

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_STAGES_CUTS_H
