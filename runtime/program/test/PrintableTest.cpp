//===- PrintableTest.cpp - Escaping of text for terminals and JSON --------===//

#include "tpc/printable.h"
#include "gtest/gtest.h"

using tpc::printable;

TEST(Printable, KeepsPrintableText) {
  for (const char *text : {"", "a.b/c d", "größe", "形状", "🤗 x", "a\\x01", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\n\t\x1b[31m\x7f"), "a\\x0a\\x09\\x1b[31m\\x7f");
  EXPECT_EQ(printable("a\n\tb\r", /*lines=*/true), "a\n\tb\\x0d");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u0085\u2028\u202e\u2066"),
            "\\xc2\\x85\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc3(\xe2\x82"), "\\xc3(\\xe2\\x82");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80") << "too long for its value";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
}

TEST(Printable, IsIdempotent) {
  for (int c = 0; c < 256; ++c) {
    std::string once = printable(std::string(1, static_cast<char>(c)) + "x");
    EXPECT_EQ(printable(once), once);
  }
}
