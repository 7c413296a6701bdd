//===- ShapeSpecTest.cpp - Shape specifications ---------------------------===//

#include "tpc/Driver/ShapeSpec.h"

#include <gtest/gtest.h>

using namespace tpc;

static ShapeBinding parse(std::string_view text) {
  std::string error;
  std::optional<ShapeBinding> binding = parseShape(text, error);
  EXPECT_TRUE(binding) << text << ": " << error;
  return binding.value_or(ShapeBinding());
}

static std::string errorOf(std::string_view text) {
  std::string error;
  EXPECT_FALSE(parseShape(text, error)) << text;
  return error;
}

TEST(ShapeSpec, Binds) {
  EXPECT_EQ(parse(""), ShapeBinding());
  EXPECT_EQ(parse("batch=2,sequence=128"), ShapeBinding({{"batch", 2}, {"sequence", 128}}));
  EXPECT_EQ(parse(" s0=0 , s1=1"), ShapeBinding({{"s0", 0}, {"s1", 1}}));
  EXPECT_EQ(parse("n=2147483648"), ShapeBinding({{"n", int64_t(1) << 31}}));
}

TEST(ShapeSpec, RejectsInvalidText) {
  EXPECT_EQ(errorOf("batch"), "'batch': write the name of a dimension and its size, for example "
                              "batch=2,sequence=128");
  EXPECT_EQ(errorOf("batch=2,"), "'': write the name of a dimension and its size, for example "
                                 "batch=2,sequence=128");
  EXPECT_EQ(errorOf("=2").substr(0, 11), "'=2': write");
  EXPECT_EQ(errorOf("batch=-1"), "'batch=-1': '-1' is not a size; write a whole number, such as 2");
  EXPECT_EQ(errorOf("batch=0x10"),
            "'batch=0x10': '0x10' is not a size; write a whole number, such as 2");
  EXPECT_EQ(errorOf("b=2147483649"), "'b=2147483649': the size is too large: at most 2147483648");
  EXPECT_EQ(errorOf("b=99999999999999999999"),
            "'b=99999999999999999999': the size is too large: at most 2147483648");
  EXPECT_EQ(errorOf("b=1,b=1"), "'b' is given twice");
  EXPECT_EQ(errorOf("a\nb=x"), "'a\\0Ab=x': 'x' is not a size; write a whole number, such as 2");
}
