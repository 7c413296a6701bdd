//===- Memory.h - Symbolic contents of memory -------------------*- C++ -*-===//
//
// Memory is a set of regions: frames, and memory of callers, the runtime and constants. An entry
// states that a range of a region, with symbolic offset and size, contains a value of the tensor
// program. A write invalidates every entry that is not proved to be disjoint from it. Every fault
// therefore appears as a read whose range does not contain the expected value.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_MEMORY_H
#define TPC_LIB_VERIFY_BUFFERS_MEMORY_H

#include "Bounds.h"
#include "PartSizes.h"
#include "tpc/Buffer/Buffer.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::tpc {

/// Content of a memory range: a value of the tensor program, or the intermediate value after some
/// steps of a collective over several axes. For copies of an input or a parameter: the source
/// region.
struct Content {
  Value tensor;
  unsigned step = 0; // 0: the final value
  /// Micro-batch of a value that events of a schedule compute; -1 for other values.
  int64_t microBatch = -1;
  bool operator==(const Content &o) const {
    return tensor == o.tensor && step == o.step && microBatch == o.microBatch;
  }
};

/// Bytes [first, first + width) of each row of `stride` bytes.
struct RowPart {
  ::tpc::SymExpr first, width, stride;
  bool operator==(const RowPart &o) const {
    return first == o.first && width == o.width && stride == o.stride;
  }
};

/// A range of bytes in a region, or a part of each row of such a range.
struct MemoryRange {
  Value region;
  ::tpc::SymExpr begin, size;
  std::optional<RowPart> rows = {};
  bool operator==(const MemoryRange &o) const {
    return region == o.region && begin == o.begin && size == o.size && rows == o.rows;
  }
};

class Memory {
public:
  explicit Memory(Bounds &bounds) : bounds(bounds) {}

  struct Entry {
    MemoryRange range;
    Content content;
    Operation *writer;
    /// Set by copies: offset in the content at which the entry's bytes begin.
    std::optional<::tpc::SymExpr> from = {};
    /// Offset of the next slot, if the range is proved to end before it.
    std::optional<::tpc::SymExpr> nextBorder = {};
  };

  void write(const MemoryRange &range, Content content, Operation *writer);
  /// Copies the contents of one range to another. `given`: the source is an input or a parameter;
  /// its unwritten bytes have the source region as content.
  void copy(const MemoryRange &from, const MemoryRange &to, bool given, Operation *writer);
  /// Returns an entry with a content that `isSame` accepts, whose bytes from `offset` on are in
  /// this range; null if there is none.
  const Entry *find(const MemoryRange &range, const ::tpc::SymExpr &offset,
                    function_ref<bool(Content)> isSame) const;
  /// Returns whether the range is proved to be unwritten.
  bool isUntouched(const MemoryRange &range);
  /// Returns the last entry that begins where the range does, for error messages.
  const Entry *findAny(const MemoryRange &range) const;
  bool areDisjoint(const MemoryRange &a, const MemoryRange &b);
  /// Sets the offsets of a frame's slots, and its size. An optimization: a slot is compared with
  /// the next border instead of all other slots.
  void setBorders(Value region, ArrayRef<::tpc::SymExpr> borders);
  /// Returns whether a range is within `size` bytes.
  bool isInside(const MemoryRange &range, const ::tpc::SymExpr &size);
  /// Invalidates the contents of a region, or values for which `isDead` is true.
  void forget(Value region);
  void forgetRegions(function_ref<bool(Value region)> isDead);
  void forget(function_ref<bool(Value tensor)> isDead);

  void enter(Value frame) { frames.push_back(frame); }
  bool isTop(Value frame) const { return !frames.empty() && frames.back() == frame; }
  bool isLive(Value frame) const { return llvm::is_contained(frames, frame); }
  void leave() {
    forget(frames.back());
    frames.pop_back();
  }
  size_t getDepth() const { return frames.size(); }

private:
  /// Returns the offset of the next slot if the range is proved to end before it.
  std::optional<::tpc::SymExpr> getNextBorder(const MemoryRange &range);
  /// `nextA`, `nextB`: results of getNextBorder.
  bool areDisjoint(const MemoryRange &a, const std::optional<::tpc::SymExpr> &nextA,
                   const MemoryRange &b, const std::optional<::tpc::SymExpr> &nextB);
  /// Erases the entries that are not proved to be disjoint from a range.
  void invalidate(const MemoryRange &range, const std::optional<::tpc::SymExpr> &next);

  Bounds &bounds;
  DenseMap<Value, SmallVector<::tpc::SymExpr>> borders;
  /// Results of getNextBorder: nearest border after an offset, by the offset's text.
  DenseMap<Value, llvm::StringMap<std::optional<::tpc::SymExpr>>> nextBorders;
  SmallVector<Entry> entries;
  SmallVector<Value> frames;
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_MEMORY_H
