//===- Memory.h - Symbolic contents of memory -------------------*- C++ -*-===//
//
// Memory is a set of regions: frames, and memory from callers, the runtime and the program's data.
// A region contains values of the tensor program, each at an offset and of a size that are
// expressions. A write invalidates every value that is not known to be disjoint from it. The only
// error is therefore that a value is not where it is read, with the reason.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_MEMORY_H
#define TPC_LIB_VERIFY_BUFFERS_MEMORY_H

#include "Bounds.h"
#include "PartSizes.h"
#include "tpc/Buffer/Buffer.h"

namespace mlir::tpc {

/// A value of the tensor program, or the result of the first steps of a collective over several
/// axes. For copies of given memory (an input, a parameter): the region copied from.
struct Content {
  Value tensor;
  unsigned step = 0; // 0: the value itself
  bool operator==(const Content &o) const { return tensor == o.tensor && step == o.step; }
};

/// A range of bytes in a region.
struct MemoryRange {
  Value region;
  ::tpc::SymExpr begin, size;
};

class Memory {
public:
  explicit Memory(Bounds &bounds) : bounds(bounds) {}

  struct Entry {
    MemoryRange place;
    Content content;
    Operation *writer;
    /// Set by copies: the entry has the bytes of the content from here on.
    std::optional<::tpc::SymExpr> from = {};
  };

  void write(const MemoryRange &place, Content content, Operation *writer);
  /// Copies the contents of one range to another. `given`: the source is given memory; what is not
  /// written has its region for content.
  void copy(const MemoryRange &from, const MemoryRange &to, bool given, Operation *writer);
  /// Returns the entry with the bytes of a content from `offset` on in exactly this range; null if
  /// there is none. `isSame`: matches the content.
  const Entry *find(const MemoryRange &place, const ::tpc::SymExpr &offset,
                    function_ref<bool(Content)> isSame) const;
  /// Returns whether the range is known not to have been written.
  bool isUntouched(const MemoryRange &place);
  /// Returns the last content of the range, for messages.
  const Entry *findAny(const MemoryRange &place) const;
  bool areDisjoint(const MemoryRange &a, const MemoryRange &b);
  /// Sets the offsets of a frame's slots, and its size. This only speeds up comparisons: a slot is
  /// compared with the next border instead of all others.
  void setBorders(Value region, ArrayRef<::tpc::SymExpr> borders);
  /// Returns whether a range is within `size` bytes.
  bool isInside(const MemoryRange &place, const ::tpc::SymExpr &size);
  /// Invalidates the contents of a region, or values for which `isDead` is true.
  void forget(Value region);
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
  std::optional<::tpc::SymExpr> getNextBorder(const MemoryRange &place);

  Bounds &bounds;
  DenseMap<Value, SmallVector<::tpc::SymExpr>> borders;
  SmallVector<Entry> entries;
  SmallVector<Value> frames;
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_MEMORY_H
