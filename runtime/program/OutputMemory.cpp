//===- OutputMemory.cpp - Reused memory of outputs, pinned for a device ---===//

#include "program/OutputMemory.h"
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace tpc::rt {

struct OutputMemory::Pool {
  struct Block {
    Buffer memory;
    bool isFree;
  };
  std::mutex mutex;
  Pin pin;
  Unpin unpin;
  bool isOpen = true;
  std::vector<Block> blocks;

  void release(const std::byte *data) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = std::find_if(blocks.begin(), blocks.end(),
                              [&](const Block &block) { return block.memory.data() == data; });
    if (isOpen)
      found->isFree = true;
    else
      blocks.erase(found);
  }
};

OutputMemory::OutputMemory(Pin pin, Unpin unpin) : pool(std::make_shared<Pool>()) {
  pool->pin = std::move(pin);
  pool->unpin = std::move(unpin);
}

Buffer OutputMemory::allocate(int64_t bytes) {
  if (bytes < minBytes || requested.insert(bytes).second)
    return Buffer(bytes);
  std::lock_guard<std::mutex> lock(pool->mutex);
  auto lend = [&](Pool::Block &block) {
    block.isFree = false;
    return Buffer::lend(block.memory.data(), bytes,
                        [pool = pool](const std::byte *data) { pool->release(data); });
  };
  for (Pool::Block &block : pool->blocks)
    if (block.isFree && block.memory.size() == bytes)
      return lend(block);
  if (std::count_if(pool->blocks.begin(), pool->blocks.end(), [&](const Pool::Block &block) {
        return block.memory.size() == bytes;
      }) >= maxLent)
    return Buffer(bytes);
  // Sizes that are no longer in use are not kept.
  std::erase_if(pool->blocks, [&](Pool::Block &block) {
    if (block.isFree)
      pool->unpin(block.memory.data());
    return block.isFree;
  });
  Buffer made(bytes);
  if (!pool->pin(made.data(), bytes))
    return made;
  return lend(pool->blocks.emplace_back(Pool::Block{std::move(made), false}));
}

bool OutputMemory::isPinned(const Buffer &buffer) const {
  std::lock_guard<std::mutex> lock(pool->mutex);
  return std::any_of(pool->blocks.begin(), pool->blocks.end(), [&](const Pool::Block &block) {
    return block.memory.data() == buffer.data();
  });
}

void OutputMemory::close(bool unpins) {
  std::lock_guard<std::mutex> lock(pool->mutex);
  for (Pool::Block &block : pool->blocks)
    if (unpins)
      pool->unpin(block.memory.data());
  pool->isOpen = false;
  std::erase_if(pool->blocks, [](const Pool::Block &block) { return block.isFree; });
}

} // namespace tpc::rt
