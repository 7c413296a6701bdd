//===- CopyRows.cpp - Strided copies within a GPU -------------------------===//

#include "cuda/library/CopyRows.h"
#include "cuda/library/Block.h"

namespace tpc::rt::cuda {

/// Maximum pitch that the driver accepts.
constexpr int64_t maxPitch = (int64_t(1) << 31) - 1;

void copyRows(const Driver &driver, Stream stream, const Device::Rows &copy, const char *what) {
  Address from = addressOf(copy.from), to = addressOf(copy.to);
  auto width = static_cast<size_t>(copy.bytes), rows = static_cast<size_t>(copy.count);
  if (rows > 1 && copy.fromStride <= maxPitch && copy.toStride <= maxPitch) {
    Copy2D rectangle{};
    rectangle.fromType = rectangle.toType = deviceMemory;
    rectangle.fromDevice = from;
    rectangle.toDevice = to;
    rectangle.fromPitch = static_cast<size_t>(copy.fromStride);
    rectangle.toPitch = static_cast<size_t>(copy.toStride);
    rectangle.width = width;
    rectangle.height = rows;
    return driver.check(driver.cuMemcpy2DAsync_v2(&rectangle, stream), what);
  }
  for (int64_t row = 0; row < copy.count; ++row)
    driver.check(driver.cuMemcpyDtoDAsync_v2(to + static_cast<Address>(row * copy.toStride),
                                             from + static_cast<Address>(row * copy.fromStride),
                                             width, stream),
                 what);
}

} // namespace tpc::rt::cuda
