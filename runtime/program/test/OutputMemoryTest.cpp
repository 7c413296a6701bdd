//===- OutputMemoryTest.cpp - Tests of pinned memory of outputs -----------===//

#include "program/OutputMemory.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>
#include <thread>

using namespace tpc::rt;

namespace {

/// Pinned memory of a device.
class Pins {
public:
  bool pin(void *host) { return !refuses && pinned.insert(host).second; }
  void unpin(void *host) {
    if (!pinned.erase(host))
      throw std::logic_error("unpinned memory that is not pinned");
  }
  std::set<void *> pinned;
  bool refuses = false;
};

constexpr int64_t size = OutputMemory::minBytes;

TEST(OutputMemory, IsPinnedFromTheSecondRequestOnAndReused) {
  Pins pins;
  OutputMemory memory([&](void *host, int64_t) { return pins.pin(host); },
                      [&](void *host) { pins.unpin(host); });
  EXPECT_FALSE(memory.isPinned(memory.allocate(size)));
  EXPECT_FALSE(memory.isPinned(memory.allocate(size - 1)));
  EXPECT_FALSE(memory.isPinned(memory.allocate(size - 1))) << "small outputs are never pinned";
  Buffer first = memory.allocate(size), second = memory.allocate(size);
  EXPECT_TRUE(memory.isPinned(first) && memory.isPinned(second));
  EXPECT_NE(first.data(), second.data());
  EXPECT_EQ(pins.pinned, (std::set<void *>{first.data(), second.data()}));
  const std::byte *before = first.data();
  std::thread([own = std::move(first)] {}).join(); // any thread may destroy a buffer
  Buffer third = memory.allocate(size);
  EXPECT_EQ(third.data(), before);
  EXPECT_EQ(pins.pinned.size(), 2u);
  // The caller keeps many results: later ones are not pinned.
  std::vector<Buffer> kept;
  for (int i = 0; i < 6; ++i)
    kept.push_back(memory.allocate(size));
  EXPECT_EQ(std::ssize(pins.pinned), OutputMemory::maxLent);
  EXPECT_FALSE(memory.isPinned(kept.back()));
  // Free memory of another size is not kept.
  kept.clear();
  memory.allocate(2 * size);
  Buffer other = memory.allocate(2 * size);
  EXPECT_TRUE(memory.isPinned(other));
  EXPECT_EQ(pins.pinned, (std::set<void *>{second.data(), third.data(), other.data()}));
  memory.close(/*unpins=*/true);
  EXPECT_TRUE(pins.pinned.empty());
  std::fill_n(second.data(), size, std::byte(1)); // buffers outlive the device
  second = {};
  EXPECT_EQ(third.size(), size);
}

TEST(OutputMemory, IsNotPinnedIfTheDeviceCannot) {
  Pins pins;
  pins.refuses = true;
  OutputMemory memory([&](void *host, int64_t) { return pins.pin(host); },
                      [&](void *host) { pins.unpin(host); });
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(memory.isPinned(memory.allocate(size)));
  memory.close(/*unpins=*/true);
}

/// A failed device may not return from calls.
TEST(OutputMemory, IsNotUnpinnedByAFailedDevice) {
  Pins pins;
  OutputMemory memory([&](void *host, int64_t) { return pins.pin(host); },
                      [&](void *host) { pins.unpin(host); });
  memory.allocate(size);
  Buffer kept = memory.allocate(size);
  memory.close(/*unpins=*/false);
  EXPECT_EQ(pins.pinned.size(), 1u);
  kept = {};
}

} // namespace
