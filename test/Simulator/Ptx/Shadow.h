//===- Shadow.h - who read and wrote which bytes --------------------------===//
//
// For each cell of 1, 2 or 4 bytes the last accesses that may still race with one to come: up to
// two of writes and two of reads. Two are enough: of accesses that nothing orders, two of different
// threads are kept, of different blocks where there are such, and whoever comes next is another
// than one of them. Cells begin with words and become finer at the first access that is narrower.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_SHADOW_H
#define TPC_TEST_SIMULATOR_SHADOW_H

#include <cstdint>
#include <memory>
#include <vector>

namespace ptx {

/// One access: clock (20 bits), thread in its block (10), block (28), flags.
using Record = uint64_t;
constexpr unsigned threadShift = 20, blockShift = 30;
constexpr Record clockMask = (Record(1) << threadShift) - 1;
constexpr Record threadMask = ((Record(1) << blockShift) - 1) & ~clockMask;
constexpr Record blockMask = ((Record(1) << 58) - 1) & ~threadMask & ~clockMask;
constexpr Record validFlag = Record(1) << 58;
constexpr Record atomicFlag = Record(1) << 59;
constexpr Record readOnlyFlag = Record(1)
                                << 60;       // ld.global.nc: no write of this launch may meet it
constexpr Record seenFlag = Record(1) << 63; // in the first record of a kind: counted

struct Cell {
  Record writes[2] = {0, 0};
  Record reads[2] = {0, 0};
  uint16_t writeAt[2] = {0, 0}; // which instruction
  uint16_t readAt[2] = {0, 0};
};

/// The cells of one piece of memory. They are empty at the beginning of each launch (or block, for
/// shared memory), which costs nothing for those that are not touched.
class Shadow {
public:
  static constexpr unsigned pageCells = 512;

  void resize(uint64_t bytes);
  /// Forgets everything if this is another epoch than the last.
  void enter(uint32_t newEpoch) { epoch = newEpoch; }
  unsigned cellShift() const { return shift; }
  /// Cells of at most so many bytes (1 << shift).
  void refine(unsigned newShift);

  Cell &at(uint64_t offset) {
    uint64_t index = offset >> shift;
    Page *page = pages[index / pageCells].get();
    if (!page || page->epoch != epoch)
      page = renew(index / pageCells);
    return page->cells[index % pageCells];
  }

private:
  struct Page {
    uint32_t epoch;
    Cell cells[pageCells];
  };
  Page *renew(uint64_t index);

  std::vector<std::unique_ptr<Page>> pages;
  uint64_t bytes = 0;
  uint32_t epoch = 0;
  unsigned shift = 2;
};

} // namespace ptx

#endif
