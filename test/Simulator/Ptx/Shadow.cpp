//===- Shadow.cpp - Shadow memory -----------------------------------------===//

#include "Shadow.h"

using namespace ptx;

void Shadow::resize(uint64_t newBytes) {
  bytes = newBytes;
  inUse.clear();
  pages.clear();
  pages.resize((bytes >> shift) / pageCells + 1);
}

Shadow::Page *Shadow::renew(uint64_t index) {
  if (!pages[index])
    pages[index] = std::make_unique<Page>();
  else
    *pages[index] = Page();
  pages[index]->epoch = epoch;
  inUse.push_back(index);
  return pages[index].get();
}

void Shadow::refine(unsigned newShift) {
  if (newShift >= shift)
    return;
  std::vector<std::unique_ptr<Page>> coarse = std::move(pages);
  unsigned oldShift = shift;
  shift = newShift;
  inUse.clear();
  pages.clear();
  pages.resize((bytes >> shift) / pageCells + 1);
  for (uint64_t page = 0; page < coarse.size(); ++page) {
    if (!coarse[page] || coarse[page]->epoch != epoch)
      continue;
    for (uint64_t cell = 0; cell < pageCells; ++cell) {
      uint64_t from = (page * pageCells + cell) << oldShift;
      for (uint64_t offset = from; offset < from + (uint64_t(1) << oldShift) && offset < bytes;
           offset += uint64_t(1) << shift)
        at(offset) = coarse[page]->cells[cell];
    }
  }
}

void Shadow::release() {
  for (auto &page : pages)
    page.reset();
  inUse.clear();
  epoch = 0;
}
