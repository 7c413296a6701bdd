//===- Memory.h - Which value lies where, at some point of a program -*- C++ -*-===//
//
// Memory is a set of regions: frames, and what callers, the runtime and the program's data give. In
// a region, a value of the tensor program lies from a byte on, for so many bytes, both expressions.
// Whatever is not known to be disjoint from what is written is forgotten. So an error is only that
// a value is not where it is read, and why.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_MEMORY_H
#define TPC_LIB_VERIFY_BUFFERS_MEMORY_H

#include "Bounds.h"
#include "PartSizes.h"
#include "tpc/Buffer/Buffer.h"

namespace mlir::tpc {

/// A value of the tensor program, or what a collective over several axes has after some of them. Of
/// what is given (an input, a parameter) and was copied: its place, as a value on buffers.
struct Content {
  Value tensor;
  unsigned step = 0; // 0: the value itself
  bool operator==(const Content &o) const { return tensor == o.tensor && step == o.step; }
};

/// A range of bytes.
struct Place {
  Value region;
  ::tpc::SymExpr begin, size;
};

class Memory {
public:
  explicit Memory(Bounds &bounds) : bounds(bounds) {}

  struct Held {
    Place place;
    Content content;
    Operation *writer;
    /// Set by copies: of the content only the bytes from here on.
    std::optional<::tpc::SymExpr> from = {};
  };

  void write(const Place &place, Content content, Operation *writer);
  /// Afterwards what is in one place is in the other as well. `given`: what is not written has its
  /// place for content.
  void copy(const Place &from, const Place &to, bool given, Operation *writer);
  /// What has the bytes of the content from `offset` on in just this place. `isSame`: the content
  /// that is looked for.
  const Held *find(const Place &place, const ::tpc::SymExpr &offset,
                   function_ref<bool(Content)> isSame) const;
  /// Whether nothing was written there, as far as it is known.
  bool isUntouched(const Place &place);
  /// What was there last, for messages.
  const Held *findAny(const Place &place) const;
  bool areDisjoint(const Place &a, const Place &b);
  /// Says where slots of a frame begin, and its size. Only of use: between two of them is what lies
  /// there, so that it is compared with the next one and not with all.
  void setBorders(Value region, ArrayRef<::tpc::SymExpr> borders);
  /// Whether a place is inside of its frame, or of so many bytes.
  bool isInside(const Place &place, const ::tpc::SymExpr &size);
  /// Forgets a region, or values that `isDead` is true of.
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
  /// Where the next slot begins, if the place surely ends before that.
  std::optional<::tpc::SymExpr> getNextBorder(const Place &place);

  Bounds &bounds;
  DenseMap<Value, SmallVector<::tpc::SymExpr>> borders;
  SmallVector<Held> held;
  SmallVector<Value> frames;
};

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_MEMORY_H
