//===- BreakLinesTest.cpp - Line breaking of printed IR -------------------===//

#include "PrintProgram.h"

#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

static std::string broken(llvm::StringRef text, unsigned width = 20) {
  std::string result;
  llvm::raw_string_ostream os(result);
  tpc::breakLines(text, width, os);
  return result;
}

TEST(BreakLines, KeepsShortLines) {
  for (const char *text : {"", "\n", "a, b, c", "a, b, c\n\n  d\n", "01234567890, 2345678"})
    EXPECT_EQ(broken(text), text);
}

TEST(BreakLines, BreaksAfterCommasAndBeforeTypes) {
  EXPECT_EQ(broken("%0 = op %a, %b, %c, %d"), "%0 = op %a, %b, %c,\n    %d");
  EXPECT_EQ(broken("  %0 = op %a1 %b1 : t"), "  %0 = op %a1 %b1\n      : t");
  EXPECT_EQ(broken("%0 = op %a : t1 -> t2"), "%0 = op %a : t1\n    -> t2");
}

TEST(BreakLines, EveryLineButTheLastIsFull) {
  std::string text = "f(";
  for (int i = 0; i < 30; ++i)
    text += "a" + std::to_string(i) + ", ";
  text += "b)\n";
  std::string result = broken(text);
  for (llvm::StringRef rest = result; !rest.empty();) {
    auto [line, more] = rest.split('\n');
    EXPECT_LE(line.size(), 20u);
    EXPECT_TRUE(more.empty() || line.size() > 10u) << line.str();
    rest = more;
  }
  // Nothing but spaces has changed.
  llvm::erase_if(text, isspace);
  llvm::erase_if(result, isspace);
  EXPECT_EQ(result, text);
}

TEST(BreakLines, BreaksOutsideOfBrackets) {
  EXPECT_EQ(broken("f(a, b0000, c), g(d, e)"), "f(a, b0000, c),\n    g(d, e)");
  EXPECT_EQ(broken("x : t<[a, b]>, t<[c, d]>"), "x : t<[a, b]>,\n    t<[c, d]>");
  // The arrow is not a bracket.
  EXPECT_EQ(broken("(a) -> (b), (c) -> (d), e"), "(a) -> (b), (c)\n    -> (d), e");
}

TEST(BreakLines, StringsAndCommentsStayWhole) {
  EXPECT_EQ(broken("a = \"b, c, d, e, f, g, h\", i"), "a =\n    \"b, c, d, e, f, g, h\",\n    i");
  EXPECT_EQ(broken("a, \"b\\\", c, d, e, f, g, h\", i"),
            "a,\n    \"b\\\", c, d, e, f, g, h\",\n    i");
  EXPECT_EQ(broken("^bb0: // a comment, which is long"), "^bb0:\n    // a comment, which is long");
}

TEST(BreakLines, KeepsLinesWithoutBreakPoints) {
  EXPECT_EQ(broken("0123456789012345678901234"), "0123456789012345678901234");
  EXPECT_EQ(broken("0123456789012345678901234 a"), "0123456789012345678901234\n    a");
}
