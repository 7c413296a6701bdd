//===- Shadow.h - Shadow memory: last readers and writers of bytes --------===//
//
// A cell of 1, 2 or 4 bytes has the last accesses that may race with later ones: up to two writes
// and two reads. Two are enough. Of unordered accesses, two of different threads are recorded (of
// different blocks, if possible), and the thread of a later access differs from at least one of
// them. Cells first have 4 bytes; the first narrower access divides them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_SHADOW_H
#define TPC_TEST_SIMULATOR_PTX_SHADOW_H

#include "Backing.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace ptx {

/// An access: clock (20 bits), thread in its block (10 bits), block (28 bits), and flags.
using Record = uint64_t;
constexpr unsigned threadShift = 20, blockShift = 30;
constexpr Record clockMask = (Record(1) << threadShift) - 1;
constexpr Record threadMask = ((Record(1) << blockShift) - 1) & ~clockMask;
constexpr Record blockMask = ((Record(1) << 58) - 1) & ~threadMask & ~clockMask;
constexpr Record validFlag = Record(1) << 58;
constexpr Record atomicFlag = Record(1) << 59;
constexpr Record readOnlyFlag = Record(1)
                                << 60; // ld.global.nc: conflicts with any write of this launch
constexpr Record asyncFlag = Record(1) << 61; // of a cp.async that its thread has not waited for
constexpr Record seenFlag = Record(1) << 63;  // counted, in the first record of a kind

struct Cell {
  Record writes[2] = {0, 0};
  Record reads[2] = {0, 0};
  uint16_t writeAt[2] = {0, 0}; // instruction of the access
  uint16_t readAt[2] = {0, 0};
};

/// Cells of one memory region. They are reset at the beginning of each launch or, for shared
/// memory, of each block. Cells that were not accessed cost nothing.
class Shadow {
public:
  static constexpr unsigned pageCells = 512;

  void resize(uint64_t bytes);
  /// Resets all cells if the epoch is new.
  void enter(uint32_t newEpoch) {
    if (newEpoch == epoch)
      return;
    epoch = newEpoch;
    inUse.clear();
  }
  unsigned cellShift() const { return shift; }
  /// Divides cells, so that they have at most 1 << newShift bytes.
  void refine(unsigned newShift);

  Cell &at(uint64_t offset) {
    uint64_t index = offset >> shift;
    Page *page = pages[index / pageCells].get();
    if (!page || page->epoch != epoch)
      page = renew(index / pageCells);
    return page->cells[index % pageCells];
  }

  /// Calls f(from, to, read, written) for disjoint ranges that were accessed since the epoch began.
  template <class F> void forTouched(F f) const {
    for (uint64_t page : inUse) {
      uint64_t from = page * pageCells;
      const Cell *cells = pages[page]->cells;
      for (unsigned i = 0; i < pageCells;) {
        bool read = cells[i].reads[0] & seenFlag, written = cells[i].writes[0] & seenFlag;
        unsigned end = i + 1;
        while (end < pageCells && bool(cells[end].reads[0] & seenFlag) == read &&
               bool(cells[end].writes[0] & seenFlag) == written)
          ++end;
        if (read || written)
          f((from + i) << shift, std::min((from + end) << shift, bytes), read, written);
        i = end;
      }
    }
  }
  /// Frees the memory that is kept for later epochs, and resets all cells.
  void release();

private:
  struct Page {
    uint32_t epoch;
    Cell cells[pageCells];
    static void *operator new(size_t bytes) { return takePiece(bytes); }
    static void operator delete(void *page, size_t bytes) { givePiece(page, bytes); }
  };
  Page *renew(uint64_t index);

  std::vector<std::unique_ptr<Page>> pages;
  std::vector<uint64_t> inUse; // pages of this epoch
  uint64_t bytes = 0;
  uint32_t epoch = 0;
  unsigned shift = 2;
};

} // namespace ptx

#endif
