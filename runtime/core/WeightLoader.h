//===- WeightLoader.h - Weight conversion and packing on the device -------===//
//
// The host passes elements in file format and file order, or the seed of random numbers; the device
// writes each to its destination.
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

/// A loop index: its extent, and its strides in destination and source.
struct LoadFactor {
  int64_t size, to, from;
  /// If not empty, offsets of the source elements instead of a stride. Only for `draw`.
  std::span<const int64_t> offsets;
};

/// Random numbers that are functions of the element's index (program/RandomWeights.h).
struct Generator {
  uint64_t key;
  float mean, scale;
};

/// Loader of one device; the thread of its rank calls it. Calls may be deferred, but run in order.
class WeightLoader {
public:
  virtual ~WeightLoader();
  /// Maximum number of bytes that the host writes at a time, including tables of offsets.
  virtual int64_t maxBytes() const = 0;
  /// Maximum number of random elements generated at a time.
  virtual int64_t maxElements() const { return 1 << 28; }

  /// Returns the address to which the host writes `bytes` of a file's elements.
  virtual std::byte *begin(int64_t bytes) = 0;
  /// Ends the write: to[sum of index * to] = written[sum of index * from], as `dtype`, which is
  /// `source` or f32.
  virtual void put(void *to, int32_t dtype, int32_t source,
                   std::span<const LoadFactor> factors) = 0;
  /// to[sum of index * to] = random number first + sum of index * from, rounded as in a file of
  /// type `source`.
  virtual void draw(void *to, int32_t dtype, int32_t source, const Generator &generator,
                    int64_t first, std::span<const LoadFactor> factors) = 0;
  virtual void clear(void *to, int64_t bytes) = 0;

  /// Makes right operands of matmuls from dense rows, which must outlive them. They are adjacent
  /// columns: a row has the sum of their widths.
  virtual std::vector<std::shared_ptr<Matrix>>
  matricesOf(const void *rows, int64_t k, std::span<const int64_t> widths, int32_t dtype) = 0;
  std::shared_ptr<Matrix> matrixOf(const void *rows, int64_t k, int64_t n, int32_t dtype) {
    return matricesOf(rows, k, {&n, 1}, dtype)[0];
  }
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_WEIGHTLOADER_H
