//===- Cuts.h - Where to cut a chain ----------------------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_STAGES_CUTS_H
#define TPC_TRANSFORMS_STAGES_CUTS_H

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace mlir::tpc {

/// Divides a chain of `pieces` pieces into `stages` consecutive groups, none of
/// them empty. cost(i, j) is that of pieces [i, j). Returns where groups 1, 2, …
/// begin, such that the largest cost is as small as possible and, among all whose largest cost
/// is at most 1 + `slack` times that, the sum of squares of own(i, j) (by default, of the
/// cost). Group g may begin with piece i only if mayBegin(g, i). Nothing if there is no way, as
/// with fewer pieces than stages. Takes O(pieces^2 * stages) time.
std::optional<std::vector<size_t>>
chooseCuts(size_t pieces, size_t stages, const std::function<double(size_t, size_t)> &cost,
           double slack = 0, const std::function<double(size_t, size_t)> &own = {},
           const std::function<bool(size_t, size_t)> &mayBegin = {});

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_STAGES_CUTS_H
