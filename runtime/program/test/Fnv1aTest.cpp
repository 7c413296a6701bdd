//===- Fnv1aTest.cpp - FNV-1a against published test vectors --------------===//

#include "tpc/fnv1a.h"
#include "gtest/gtest.h"

using namespace tpc;

// From the authors' list of test vectors.
TEST(Fnv1a, MatchesTestVectors) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, BytesAreUnsigned) {
  EXPECT_EQ(fnv1a("\xff"), fnv1a(kFnv1aBasis, 255));
  EXPECT_NE(fnv1a("\xff"), fnv1a("\x7f"));
}

TEST(Fnv1a, DigitsHaveLeadingZeros) {
  EXPECT_EQ(toHexDigits(0x0123456789abcdefu), "0123456789abcdef");
  EXPECT_EQ(toHexDigits(0xf), "000000000000000f");
}
