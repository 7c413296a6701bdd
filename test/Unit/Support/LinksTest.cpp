//===- LinksTest.cpp - Link costs -----------------------------------------===//

#include "tpc/Support/Links.h"

#include <gtest/gtest.h>

using namespace tpc;

// Compares with the definition: an axis crosses nodes if some group has members in two nodes.
TEST(Links, CrossesNodesMatchesTheDefinition) {
  for (int64_t stride : {1, 2, 3, 4, 6})
    for (int64_t size : {1, 2, 3, 4, 8})
      for (int64_t outer : {1, 2, 3, 5})
        for (int64_t node = 1; node <= 40; ++node) {
          int64_t world = stride * size * outer;
          bool expected = false;
          for (int64_t rank = 0; rank < world; ++rank) {
            int64_t coordinate = rank / stride % size;
            int64_t first = rank - coordinate * stride;
            expected |= rank / node != first / node;
          }
          EXPECT_EQ(crossesNodes(stride, size, world, node), expected)
              << stride << " " << size << " " << world << " " << node;
        }
  EXPECT_FALSE(crossesNodes(1, 8, 64, 0)); // one node
}

TEST(Links, Seconds) {
  Link link{1, 0.5};
  EXPECT_EQ(getSeconds(link, Transfer::Send, 2, 8), 1 + 4);
  EXPECT_EQ(getSeconds(link, Transfer::AllGather, 4, 8), 3 + 3);
  EXPECT_EQ(getSeconds(link, Transfer::ReduceScatter, 4, 8), 3 + 3);
  EXPECT_EQ(getSeconds(link, Transfer::AllToAll, 4, 8), 3 + 3);
  EXPECT_EQ(getSeconds(link, Transfer::CollectivePermute, 4, 8), 1 + 4);
  EXPECT_EQ(getSeconds(link, Transfer::AllReduce, 4, 8), 6 + 6);
  EXPECT_EQ(getSeconds(link, Transfer::Broadcast, 5, 8), 3 + 4);
  EXPECT_EQ(getSentBytes(Transfer::AllReduce, 4, 8), 12);
  // A single rank has no communication.
  EXPECT_EQ(getSeconds(link, Transfer::AllReduce, 1, 8), 0);
  EXPECT_EQ(getSeconds(link, Transfer::Broadcast, 1, 8), 0);
}

TEST(Links, Names) {
  Transfer transfer;
  EXPECT_TRUE(parseTransfer("reduce_scatter", transfer));
  EXPECT_EQ(transfer, Transfer::ReduceScatter);
  EXPECT_FALSE(parseTransfer("gather", transfer));
}
