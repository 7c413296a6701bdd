//===- DryRunTest.cpp - Memory of a dry run, in the driver's granularity --===//

#include "cuda/library/DryRunLibraries.h"
#include <gtest/gtest.h>
#include <vector>

using namespace tpc::rt::cuda;

constexpr int64_t page = 2 << 20;

TEST(DryRunMemory, SmallAllocationsSharePages) {
  DryRunMemory memory;
  std::vector<Address> pieces;
  // Each takes 1024 bytes.
  for (int i = 0; i < 8192; ++i)
    pieces.push_back(memory.allocate(513));
  EXPECT_EQ(memory.use.now, 4 * page);
  EXPECT_EQ(memory.use.requested, 8192 * 513);
  pieces.push_back(memory.allocate(1));
  EXPECT_EQ(memory.use.now, 5 * page);
  for (Address piece : pieces)
    memory.release(piece);
  EXPECT_EQ(memory.use.now, 0);
  EXPECT_EQ(memory.use.requested, 0);
  EXPECT_EQ(memory.use.peak, 5 * page);
}

TEST(DryRunMemory, LargeAllocationsHaveOwnPages) {
  DryRunMemory memory;
  Address large = memory.allocate(page / 2), small = memory.allocate(page / 2 - 1);
  EXPECT_EQ(memory.use.now, 2 * page);
  Address apart = memory.allocate(16, /*inPages=*/true);
  EXPECT_EQ(memory.use.now, 3 * page);
  EXPECT_EQ(memory.allocate(page + 1) % page, 0);
  EXPECT_EQ(memory.use.now, 5 * page);
  memory.release(large);
  EXPECT_EQ(memory.use.now, 4 * page);
  memory.release(small);
  EXPECT_EQ(memory.use.now, 3 * page);
  memory.release(apart);
  memory.release(apart); // already freed
  EXPECT_EQ(memory.use.now, 2 * page);
  EXPECT_EQ(memory.use.peak, 5 * page);
}
