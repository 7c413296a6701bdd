//===- BlockOrder.cpp - Order between blocks by fences --------------------===//

#include "BlockOrder.h"

#include <algorithm>

using namespace ptx;

BlockOrder::SeenPointer BlockOrder::merge(const SeenPointer &a, const SeenPointer &b) {
  if (!a || a == b)
    return b;
  if (!b)
    return a;
  auto merged = std::make_shared<Seen>(*a);
  for (const auto &[block, bounds] : *b) {
    std::vector<uint32_t> &to = (*merged)[block];
    to.resize(bounds.size());
    for (size_t i = 0; i < bounds.size(); ++i)
      to[i] = std::max(to[i], bounds[i]);
  }
  return merged;
}

void BlockOrder::fence(unsigned thread, uint64_t block, std::vector<uint32_t> bounds) {
  Thread &self = own[thread];
  self.acquired = merge(self.acquired, self.read);
  self.read = nullptr;
  auto published = std::make_shared<Seen>();
  (*published)[block] = std::move(bounds);
  self.published = merge(self.acquired, published);
}

void BlockOrder::access(unsigned thread, uint64_t address, bool reads, bool writes) {
  Thread &self = own[thread];
  auto found = released.find(address);
  if (reads && found != released.end())
    self.read = merge(self.read, found->second);
  if (!writes)
    return;
  if (!reads) // a write begins a release sequence, an update continues it
    released[address] = self.published;
  else if (self.published)
    released[address] = merge(self.published, found != released.end() ? found->second : nullptr);
}

void BlockOrder::join(const std::vector<unsigned> &threads) {
  SeenPointer all;
  for (unsigned thread : threads)
    all = merge(all, own[thread].acquired);
  if (all)
    for (unsigned thread : threads)
      own[thread].acquired = all;
}
