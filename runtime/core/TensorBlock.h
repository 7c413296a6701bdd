//===- TensorBlock.h - Block of a tensor that one rank sends to another ---===//
//
// In each dimension the block has runs of indices that are contiguous in the sender's and the
// receiver's tensor. The block consists of all combinations of these runs. A message contains the
// block densely, in row-major order.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_TENSORBLOCK_H
#define TPC_RT_CORE_TENSORBLOCK_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace tpc::rt {

/// Strided copy of `rows` blocks of `width` bytes.
struct StridedCopy {
  int64_t from, to, width, rows, fromStride, toStride;
};

class TensorBlock {
public:
  /// Location of the block: the sender's tensor, the receiver's tensor, or a message.
  enum Side { Source, Target, Message };
  /// Run of indices in the two tensors.
  struct Run {
    int64_t source, target, size;
  };
  struct Dim {
    std::vector<Run> runs;
    int64_t source, target; ///< bytes from one index to the next
  };

  /// Empty block.
  TensorBlock() = default;
  /// `element`: number of contiguous bytes at each combination of indices.
  TensorBlock(std::vector<Dim> dims, int64_t element) : dims(std::move(dims)), element(element) {}

  int64_t bytes() const {
    int64_t bytes = element;
    for (const Dim &dim : dims)
      bytes *= sizeOf(dim);
    return bytes;
  }

  /// Calls `use(from, to, bytes)` for each contiguous range, with its offsets in source and
  /// destination.
  template <typename Fn> void forEachCopy(Side from, Side to, Fn use) const {
    forEachBox(from, to, [&](const Box &box) { loop(box, 0, box.begin, use); });
  }
  /// Returns the same ranges as strided copies.
  std::vector<StridedCopy> copies(Side from, Side to) const;

  void copyThrough(void *target, const void *source) const { move(target, Target, source, Source); }
  void pack(void *message, const void *source) const { move(message, Message, source, Source); }
  void unpack(void *target, const void *message) const { move(target, Target, message, Message); }

private:
  using Pair = std::array<int64_t, 2>; // values for source and destination
  /// One combination: a run of each dimension.
  struct Box {
    struct Loop {
      int64_t size;
      Pair strides;
    };
    std::vector<Loop> loops; ///< outermost first
    Pair begin;
    int64_t width;
  };

  static int64_t sizeOf(const Dim &dim) {
    int64_t size = 0;
    for (const Run &run : dim.runs)
      size += run.size;
    return size;
  }

  void move(void *to, Side toSide, const void *from, Side fromSide) const {
    forEachCopy(fromSide, toSide, [&](int64_t source, int64_t target, int64_t size) {
      std::memcpy(static_cast<char *>(to) + target, static_cast<const char *>(from) + source,
                  static_cast<size_t>(size));
    });
  }

  template <typename Fn> static void loop(const Box &box, size_t depth, const Pair &at, Fn &use) {
    if (depth == box.loops.size())
      return use(at[0], at[1], box.width);
    const Box::Loop &loop = box.loops[depth];
    for (int64_t i = 0; i < loop.size; ++i)
      TensorBlock::loop(box, depth + 1, {at[0] + i * loop.strides[0], at[1] + i * loop.strides[1]},
                        use);
  }

  template <typename Fn> void forEachBox(Side from, Side to, Fn use) const {
    if (bytes() == 0)
      return;
    size_t count = dims.size();
    std::vector<int64_t> message(count + 1, element); // bytes of one index, and of all indices
    for (size_t d = count; d-- > 0;)
      message[d] = message[d + 1] * sizeOf(dims[d]);
    auto stride = [&](size_t d, Side side) {
      return side == Source ? dims[d].source : side == Target ? dims[d].target : message[d + 1];
    };
    std::vector<size_t> chosen(count, 0);
    std::vector<int64_t> before(count, 0); // numbers of indices in earlier runs
    Box box;
    for (;;) {
      box.loops.clear();
      box.begin = {0, 0};
      box.width = element;
      // Dimensions that are contiguous on both sides are merged into the element or into the next
      // inner loop.
      for (size_t d = count; d-- > 0;) {
        const Run &run = dims[d].runs[chosen[d]];
        auto first = [&](Side side) {
          return side == Source ? run.source : side == Target ? run.target : before[d];
        };
        Pair strides = {stride(d, from), stride(d, to)};
        box.begin[0] += first(from) * strides[0];
        box.begin[1] += first(to) * strides[1];
        if (run.size == 1)
          continue;
        if (box.loops.empty() && strides == Pair{box.width, box.width}) {
          box.width *= run.size;
          continue;
        }
        if (!box.loops.empty()) {
          Box::Loop &inner = box.loops.back();
          if (strides == Pair{inner.size * inner.strides[0], inner.size * inner.strides[1]}) {
            inner.size *= run.size;
            continue;
          }
        }
        box.loops.push_back({run.size, strides});
      }
      std::reverse(box.loops.begin(), box.loops.end());
      use(box);
      size_t d = count;
      for (; d > 0; --d) {
        before[d - 1] += dims[d - 1].runs[chosen[d - 1]].size;
        if (++chosen[d - 1] < dims[d - 1].runs.size())
          break;
        chosen[d - 1] = 0;
        before[d - 1] = 0;
      }
      if (d == 0)
        return;
    }
  }

  std::vector<Dim> dims;
  int64_t element = 0;
};

inline std::vector<StridedCopy> TensorBlock::copies(Side from, Side to) const {
  std::vector<StridedCopy> list;
  forEachBox(from, to, [&](Box box) {
    // A strided copy covers the longest loop.
    auto longest =
        std::max_element(box.loops.begin(), box.loops.end(),
                         [](const Box::Loop &a, const Box::Loop &b) { return a.size < b.size; });
    Box::Loop rows{1, {box.width, box.width}};
    if (longest != box.loops.end()) {
      rows = *longest;
      box.loops.erase(longest);
    }
    auto use = [&](int64_t source, int64_t target, int64_t width) {
      list.push_back({source, target, width, rows.size, rows.strides[0], rows.strides[1]});
    };
    loop(box, 0, box.begin, use);
  });
  return list;
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_TENSORBLOCK_H
