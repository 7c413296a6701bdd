//===- WeightLoader.h - weights that a device converts and packs itself ---------===//
//
// The host hands over elements as files have them, in the order of the file, or what numbers are
// drawn from; the device puts each where it belongs.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_WEIGHTLOADER_H
#define TPC_RT_CORE_WEIGHTLOADER_H

#include "tpc/runtime.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tpc::rt {

class Matrix;

/// An index: how many values it has, and how far apart elements of the next one are, where they are
/// put and where they are from.
struct LoadFactor {
  int64_t size, to, from;
  /// If there are any, elements are from these instead: only of what is drawn.
  std::span<const int64_t> offsets;
};

/// Numbers as a function of places (program/RandomWeights.h).
struct Generator {
  uint64_t key;
  float mean, scale;
};

/// Of one device, on its rank's thread. What it is told may be done later, in that order.
class WeightLoader {
public:
  virtual ~WeightLoader();
  /// That the host writes at a time; tables of offsets are among them.
  virtual int64_t mostBytes() const = 0;
  /// That are drawn at a time.
  virtual int64_t mostElements() const { return 1 << 28; }

  /// The host writes `bytes` of a file's elements to the address that begin returns.
  virtual std::byte *begin(int64_t bytes) = 0;
  /// Ends that: to[sum of index * to] is what was written at [sum of index * from], as `dtype`. If
  /// that is another type than `source`, it is f32.
  virtual void put(void *to, int32_t dtype, int32_t source,
                   std::span<const LoadFactor> factors) = 0;
  /// to[sum of index * to] is number first + sum of index * from, as a file of `source` has it.
  virtual void draw(void *to, int32_t dtype, int32_t source, const Generator &generator,
                    int64_t first, std::span<const LoadFactor> factors) = 0;
  virtual void clear(void *to, int64_t bytes) = 0;

  /// A right side of products over dense rows, which outlive it.
  virtual std::shared_ptr<Matrix> matrixOf(const void *rows, int64_t k, int64_t n,
                                           int32_t dtype) = 0;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WEIGHTLOADER_H
