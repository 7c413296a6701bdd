//===- UploadWeights.cpp - Upload of tensor slices by a weight loader -----===//
//
// A slice is a list of factors: indices, each with a stride in the file and a stride in the dense
// result. The host iterates in file order, so that it reads forward and copies contiguous runs,
// without bytes outside the slice, into staging memory. The device reorders and converts them.
//
// Example: the file has [k, n], and the slice [n, k/2] is the transpose of its first k/2 rows. The
// factors are n (stride k/2 in the result, 1 in the file) and k/2 (stride 1 in the result, n in the
// file). The host copies k/2 runs of n elements, and the device transposes them.
//
// The rows of a slice may be apart in device memory, if the slice is some columns of a matrix. Then
// the strides of the factors of its first dimension are multiples of the matrix's width.
//
// The innermost factor in the file may have a stride of a few elements. The host then copies the
// elements between them too, and the device skips these.
//
//===----------------------------------------------------------------------===//

#include "program/UploadWeights.h"
#include "core/DType.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tpc::rt {
namespace {

/// Maximum stride of the innermost factor; the host skips over larger strides.
constexpr int64_t maxSpread = 8;

struct Factor {
  int64_t size, to, from;       ///< strides: `to` in the result, `from` in the file
  std::vector<int64_t> offsets; ///< if not empty, replaces multiples of `from`
  int64_t at(int64_t i) const { return offsets.empty() ? i * from : offsets[i]; }
  /// Approximate distance between the factor's elements in the file.
  int64_t distance() const {
    if (offsets.empty())
      return std::abs(from);
    auto [smallest, largest] = std::minmax_element(offsets.begin(), offsets.end());
    return (*largest - *smallest) / std::max<int64_t>(size - 1, 1);
  }
};

/// Factors in the order of the slice. Empty if the slice has no element.
std::vector<Factor> factorsOf(const LocalView &view, int64_t rowStride, int64_t &first) {
  std::vector<Factor> factors;
  int64_t step = view.count();
  first = view.offset;
  if (step == 0)
    return {};
  const int64_t width = rowStride ? view.shape()[1] : 0;
  if (rowStride)
    step = step / width * rowStride;
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (rowStride && d == 1)
      step = width;
    for (const ViewFactor &own : view.dims[d]) {
      step /= own.size;
      if (own.size == 1) {
        first += own.at(0);
        continue;
      }
      bool continues = !factors.empty() && own.offsets.empty() && factors.back().offsets.empty() &&
                       factors.back().from == own.size * own.stride &&
                       factors.back().to == own.size * step;
      if (continues)
        factors.back() = {factors.back().size * own.size, step, own.stride, {}};
      else
        factors.push_back({own.size, step, own.stride, own.offsets});
    }
  }
  // A single element also needs a factor.
  if (factors.empty())
    factors.push_back({1, 1, 1, {}});
  return factors;
}

/// A box: a range of each factor's index.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
using Box = std::vector<Range>;

/// Splits all indices into boxes of at most max(1, `maxElements`) elements, in order. In all
/// factors except one, a box has a single index or all indices.
template <class Do>
void forEachBox(const std::vector<Factor> &factors, int64_t maxElements, const Do &doBox, size_t f,
                Box &box) {
  int64_t inner = 1;
  for (size_t i = f + 1; i < factors.size(); ++i)
    inner *= factors[i].size;
  int64_t step = std::clamp<int64_t>(maxElements / inner, 1, factors[f].size);
  for (int64_t begin = 0; begin < factors[f].size; begin += step) {
    box[f] = {begin, std::min(begin + step, factors[f].size)};
    if (inner <= maxElements || f + 1 == factors.size())
      doBox(box);
    else
      forEachBox(factors, maxElements, doBox, f + 1, box);
  }
}

template <class Do>
void forEachBox(const std::vector<Factor> &factors, int64_t maxElements, const Do &doBox) {
  Box box;
  for (const Factor &factor : factors)
    box.push_back({0, factor.size});
  forEachBox(factors, maxElements, doBox, 0, box);
}

/// Copies a box from a file, in the order of `factors`.
class Reader {
public:
  Reader(const std::byte *data, int64_t elementBytes, int64_t spread,
         const std::vector<Factor> &factors, const Box &box, std::byte *to)
      : data(data), elementBytes(elementBytes), spread(spread), factors(factors), box(box), to(to) {
  }
  void read(size_t f, int64_t from) {
    const Factor &factor = factors[f];
    bool isLast = f + 1 == factors.size();
    if (isLast && factor.offsets.empty() && factor.from == spread) {
      int64_t bytes = ((box[f].size() - 1) * spread + 1) * elementBytes;
      std::memcpy(to, data + (from + factor.at(box[f].begin)) * elementBytes,
                  static_cast<size_t>(bytes));
      to += box[f].size() * spread * elementBytes;
      return;
    }
    for (int64_t i = box[f].begin; i < box[f].end; ++i) {
      if (!isLast) {
        read(f + 1, from + factor.at(i));
        continue;
      }
      std::memcpy(to, data + (from + factor.at(i)) * elementBytes,
                  static_cast<size_t>(elementBytes));
      to += elementBytes;
    }
  }

private:
  const std::byte *data;
  int64_t elementBytes, spread;
  const std::vector<Factor> &factors;
  const Box &box;
  std::byte *to;
};

} // namespace

void upload(Device &device, WeightLoader &loader, const LocalView &view, tpc_dtype dtype,
            tpc_dtype sourceDtype, const std::byte *data, void *to, int64_t rowStride) {
  int64_t first = 0;
  std::vector<Factor> factors = factorsOf(view, rowStride, first);
  if (factors.empty())
    return;
  std::sort(factors.begin(), factors.end(),
            [](const Factor &a, const Factor &b) { return a.distance() > b.distance(); });
  const Factor &last = factors.back();
  bool isSpread = last.offsets.empty() && last.from > 1 && last.from <= maxSpread;
  int64_t spread = isSpread ? last.from : 1;
  // Dense and in file order: the layout is already the final one.
  bool isInPlace = dtype == sourceDtype && spread == 1;
  for (size_t f = 0; f + 1 < factors.size(); ++f)
    isInPlace &= factors[f].to == factors[f + 1].to * factors[f + 1].size;
  isInPlace &= last.to == 1;
  int64_t elementBytes = sizeOf(sourceDtype), resultBytes = sizeOf(dtype);
  forEachBox(factors, loader.maxBytes() / (elementBytes * spread), [&](const Box &box) {
    int64_t count = spread;
    auto *at = static_cast<std::byte *>(to);
    std::vector<LoadFactor> staged;
    for (size_t f = factors.size(); f-- > 0; count *= box[f].size()) {
      at += box[f].begin * factors[f].to * resultBytes;
      if (box[f].size() > 1)
        staged.push_back({box[f].size(), factors[f].to, count, {}});
    }
    int64_t bytes = count * elementBytes;
    std::byte *written = isInPlace ? device.beginWrite(at, bytes) : loader.begin(bytes);
    Reader(data, elementBytes, spread, factors, box, written).read(0, first);
    if (isInPlace)
      return device.endWrite();
    // Adjacent threads write adjacent elements of the dense slice.
    std::sort(staged.begin(), staged.end(),
              [](const LoadFactor &a, const LoadFactor &b) { return a.to > b.to; });
    loader.put(at, dtype, sourceDtype, staged);
  });
}

void uploadRandom(WeightLoader &loader, const LocalView &view, tpc_dtype dtype,
                  tpc_dtype sourceDtype, const Generator &generator, void *to, int64_t rowStride) {
  int64_t first = 0;
  std::vector<Factor> factors = factorsOf(view, rowStride, first);
  bool isFloat = dtype == TPC_F32 || sourceDtype == TPC_F16 || sourceDtype == TPC_BF16;
  if (factors.empty())
    return;
  if (!isFloat)
    return loader.clear(to, view.count() * sizeOf(dtype));
  bool hasTables = std::any_of(factors.begin(), factors.end(),
                               [](const Factor &factor) { return !factor.offsets.empty(); });
  // A box needs at most as many table entries as it has elements.
  int64_t maxElements = loader.maxElements();
  if (hasTables)
    maxElements = std::min<int64_t>(maxElements, loader.maxBytes() / sizeof(int64_t));
  forEachBox(factors, maxElements, [&](const Box &box) {
    auto *at = static_cast<std::byte *>(to);
    int64_t from = first;
    std::vector<LoadFactor> drawn;
    for (size_t f = 0; f < factors.size(); ++f) {
      const Factor &factor = factors[f];
      at += box[f].begin * factor.to * sizeOf(dtype);
      if (box[f].size() == 1) {
        from += factor.at(box[f].begin);
        continue;
      }
      LoadFactor own{box[f].size(), factor.to, factor.from, {}};
      if (factor.offsets.empty())
        from += factor.at(box[f].begin);
      else
        own.offsets = std::span(factor.offsets).subspan(box[f].begin, box[f].size());
      drawn.push_back(own);
    }
    loader.draw(at, dtype, sourceDtype, generator, from, drawn);
  });
}

} // namespace tpc::rt
