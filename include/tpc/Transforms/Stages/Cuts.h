//===- Cuts.h - Balanced cuts of a chain ------------------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_STAGES_CUTS_H
#define TPC_TRANSFORMS_STAGES_CUTS_H

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace mlir::tpc {

/// Divides a chain of `pieces` segments into `stages` consecutive non-empty groups. cost(i, j) is
/// the cost of segments [i, j). Returns the first segments of groups 1, 2, …. They minimize the
/// maximum cost. Among all divisions whose maximum is at most 1 + `slack` times that minimum, they
/// minimize the sum of squares of own(i, j) (by default, of the cost). Group g may begin with
/// segment i only if mayBegin(g, i). Returns nothing if there is no such division, as with fewer
/// segments than stages. Takes O(pieces^2 * stages) time.
std::optional<std::vector<size_t>>
chooseCuts(size_t pieces, size_t stages, const std::function<double(size_t, size_t)> &cost,
           double slack = 0, const std::function<double(size_t, size_t)> &own = {},
           const std::function<bool(size_t, size_t)> &mayBegin = {});

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_STAGES_CUTS_H
