//===- Reference.h - Reference implementation of collectives --------------===//
//
// Simple by design; shares only the definition of a group with the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_REFERENCE_H
#define TPC_RT_CONFORMANCE_REFERENCE_H

#include "core/Grid.h"
#include "tpc/runtime.h"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

namespace tpc::rt::conformance {

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Returns element `index` of a rank's tensor. Magnitudes of floats differ so much that results
/// depend on the order of additions.
template <typename T> T valueOf(uint64_t seed, uint64_t owner, int64_t index) {
  uint64_t bits = mix(mix(seed * 1000003 + owner) + static_cast<uint64_t>(index));
  if constexpr (std::is_floating_point_v<T>) {
    // Scales by 2^-20 to 2^19; std::ldexp would dominate the suite's run time.
    double unit = static_cast<double>(bits >> 11) / 4503599627370496.0 - 1.0;
    return static_cast<T>(unit * static_cast<double>(uint64_t(1) << bits % 40) / 1048576.0);
  } else {
    return static_cast<T>(bits);
  }
}

/// Returns the indices of a dimension of `n` that each member of a group has. Each axis in turn
/// splits the rank's indices into ranges whose sizes differ by at most one, larger ones first.
inline std::vector<std::vector<int64_t>> indicesOf(int64_t n, const std::vector<int64_t> &axes) {
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int64_t>> parts{all};
  for (int64_t axis : axes) {
    std::vector<std::vector<int64_t>> finer;
    for (const auto &part : parts) {
      size_t next = 0, remaining = part.size();
      for (int64_t c = 0; c < axis; ++c) {
        size_t size = (remaining + axis - c - 1) / (axis - c);
        finer.emplace_back(part.begin() + next, part.begin() + next + size);
        next += size;
        remaining -= size;
      }
    }
    parts = finer;
  }
  return parts;
}

/// Returns the sizes of a mask's axes, the one with the largest stride first.
inline std::vector<int64_t> sizesOf(const Grid &grid, uint32_t axes) {
  std::vector<int64_t> sizes;
  for (int i = grid.numAxes() - 1; i >= 0; --i)
    if (axes & (uint32_t(1) << i))
      sizes.push_back(grid.axes()[i].size);
  return sizes;
}

/// Returns the members of a rank's group, by comparing the coordinates of all ranks.
inline std::vector<int> membersOf(const Grid &grid, int rank, uint32_t axes) {
  auto coordinate = [&](int of, int axis) {
    for (int i = 0; i < axis; ++i)
      of /= static_cast<int>(grid.axes()[i].size);
    return of % static_cast<int>(grid.axes()[axis].size);
  };
  std::vector<int> members;
  for (int other = 0; other < grid.numRanks(); ++other) {
    bool same = true;
    for (int axis = 0; axis < grid.numAxes(); ++axis)
      if (!(axes & (uint32_t(1) << axis)))
        same &= coordinate(other, axis) == coordinate(rank, axis);
    if (same)
      members.push_back(other);
  }
  return members;
}

template <typename T> T combine(tpc_reduction reduction, T a, T b) {
  switch (reduction) {
  case TPC_SUM:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  case TPC_MAX:
    return b > a ? b : a;
  case TPC_MIN:
    return b < a ? b : a;
  }
  return a;
}

/// Reduces element `index` of all members' tensors, in ascending rank order.
template <typename T>
T reduced(tpc_reduction reduction, uint64_t seed, const std::vector<int> &members, int64_t index) {
  T value = valueOf<T>(seed, members[0], index);
  for (size_t i = 1; i < members.size(); ++i)
    value = combine(reduction, value, valueOf<T>(seed, members[i], index));
  return value;
}

/// Elements of reduced tensors, with error bounds for sums in any order.
template <typename T> class Sums {
public:
  void add(tpc_reduction reduction, uint64_t seed, const std::vector<int> &members, int64_t index) {
    values.push_back(reduced<T>(reduction, seed, members, index));
    double magnitude = 0;
    if (reduction == TPC_SUM && std::is_floating_point_v<T>)
      for (int member : members)
        magnitude += std::abs(static_cast<double>(valueOf<T>(seed, member, index)));
    // Each of n - 1 additions has a relative error of at most half an epsilon, in both orders.
    bounds.push_back(static_cast<double>(members.size() - 1) * magnitude *
                     static_cast<double>(std::numeric_limits<T>::epsilon()));
  }
  size_t size() const { return values.size(); }
  bool matches(const std::vector<T> &result, bool inRankOrder) const {
    if (inRankOrder)
      return result.size() == values.size() &&
             (result.empty() ||
              !std::memcmp(result.data(), values.data(), result.size() * sizeof(T)));
    for (size_t i = 0; i < std::min(values.size(), result.size()); ++i)
      if (!(result[i] == values[i] ||
            std::abs(static_cast<double>(result[i]) - static_cast<double>(values[i])) <= bounds[i]))
        return false;
    return result.size() == values.size();
  }

private:
  std::vector<T> values;
  std::vector<double> bounds;
};

template <typename T> bool sameBits(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() &&
         (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(T)));
}

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_REFERENCE_H
