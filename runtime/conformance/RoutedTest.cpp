//===- RoutedTest.cpp - Exchange of tokens against the reference ----------===//

#include "Harness.h"
#include "OnDevice.h"
#include "Reference.h"
#include "core/DType.h"
#include "core/Half.h"
#include <algorithm>
#include <bit>
#include <cmath>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

class Routed : public WorldTest {};

/// n parts of `rows` rows each; [before | experts | after] are the columns of a row.
struct Sizes {
  int64_t n, rows, before, experts, after;
  int64_t width() const { return before + experts + after; }
};
constexpr Sizes all[] = {{1, 1, 1, 1, 0},   {3, 2, 4, 3, 0},    {5, 1, 0, 5, 3},  {2, 7, 33, 40, 2},
                         {0, 3, 2, 2, 0},   {4, 0, 2, 2, 0},    {7, 13, 5, 9, 1}, {6, 3, 64, 8, 0},
                         {1, 600, 3, 2, 0}, {9, 37, 130, 17, 0}};

enum class Routing { Random, OneExpert, LastExpert, None, All };
constexpr Routing routings[] = {Routing::Random, Routing::OneExpert, Routing::LastExpert,
                                Routing::None, Routing::All};

bool isSelected(Routing routing, const Sizes &s, int64_t row, int64_t expert) {
  switch (routing) {
  case Routing::Random:
    return mix(static_cast<uint64_t>(row * 1009 + expert)) % 4 == 0;
  case Routing::OneExpert:
    return expert == 0;
  case Routing::LastExpert:
    return expert == s.experts - 1 && row % 3 != 0;
  case Routing::None:
    return false;
  case Routing::All:
    return true;
  }
  return false;
}

/// Elements of a type, as integers with their bits.
struct F32 {
  using Bits = uint32_t;
  static constexpr int32_t dtype = TPC_F32;
  static Bits of(float x) { return std::bit_cast<uint32_t>(x); }
  static float value(Bits x) { return std::bit_cast<float>(x); }
};
struct F16 {
  using Bits = uint16_t;
  static constexpr int32_t dtype = TPC_F16;
  static Bits of(float x) { return floatToHalf(x); }
  static float value(Bits x) { return halfToFloat(x); }
};
struct BF16 {
  using Bits = uint16_t;
  static constexpr int32_t dtype = TPC_BF16;
  static Bits of(float x) { return floatToBfloat(x); }
  static float value(Bits x) { return bfloatToFloat(x); }
};

/// An element of a token or of a result, of either sign and different magnitudes.
float drawn(uint64_t seed, uint64_t owner, int64_t index) {
  uint64_t bits = mix(mix(seed * 1000003 + owner) + static_cast<uint64_t>(index));
  return static_cast<float>(static_cast<int64_t>(bits % 4001) - 2000) /
         static_cast<float>(1 << bits / 4001 % 12);
}

std::vector<int64_t> expertsOf(const tpc_context &ctx, int rank, int64_t count,
                               const std::vector<int32_t> &split) {
  std::vector<int64_t> experts(count);
  std::iota(experts.begin(), experts.end(), 0);
  std::vector<int64_t> at = ctx.grid.coordinatesOf(rank);
  for (int32_t axis : split) {
    std::vector<int64_t> kept;
    const auto parts = indicesOf(std::ssize(experts), {ctx.grid.axes()[axis].size});
    for (int64_t i : parts[at[axis]])
      kept.push_back(experts[i]);
    experts = kept;
  }
  return experts;
}

int64_t countedBytes(tpc_context &ctx, CollectiveKind kind) {
  int64_t bytes = 0;
  for (const Counters::Row &row : ctx.counters.rows(ctx.grid))
    bytes += row.kind == kind ? row.bytes : 0;
  return bytes;
}

template <typename Type> class Case {
  using Bits = typename Type::Bits;

public:
  Case(tpc_context &ctx, uint32_t axes, const Sizes &s, Routing routing)
      : ctx(ctx), s(s), axes(axes), group(ctx.group(axes)), routing(routing) {
    for (int32_t axis = 0; axis < ctx.grid.numAxes(); ++axis)
      if (axes >> axis & 1)
        split.push_back(axis);
    for (int member = 0; member < group.size(); ++member) {
      Part part = group.part(s.n, member);
      std::vector<int64_t> &rows = rowsOf.emplace_back(part.size * s.rows);
      std::iota(rows.begin(), rows.end(), part.offset * s.rows);
    }
  }

  void checkDispatch() {
    const std::vector<int64_t> &own = rowsOf[group.index];
    std::vector<Bits> in, expected;
    for (int64_t row : own)
      for (int64_t c = 0; c < s.width(); ++c)
        in.push_back(element(row, c));
    std::vector<int64_t> mine = expertsOf(ctx, ctx.rank, s.experts, split);
    for (int64_t row = 0; row < s.n * s.rows; ++row) {
      bool isReceived = usedOf(row, mine) > 0;
      for (int64_t c = 0; c < s.width(); ++c) {
        int64_t expert = c - s.before;
        bool isWeight = expert >= 0 && expert < s.experts;
        bool isKept = isWeight ? isSelected(routing, s, row, expert) &&
                                     std::count(mine.begin(), mine.end(), expert)
                               : isReceived;
        expected.push_back(isKept ? element(row, c) : Bits(0));
      }
    }
    int64_t bytes = 0;
    for (int member = 0; member < group.size(); ++member) {
      if (member == group.index)
        continue;
      std::vector<int64_t> theirs = expertsOf(ctx, group.ranks[member], s.experts, split);
      int64_t elements = 0;
      for (int64_t row : own)
        if (int64_t used = usedOf(row, theirs))
          elements += s.width() - s.experts + used;
      bytes += (std::ssize(own) * std::ssize(theirs) + 7) / 8 +
               elements * static_cast<int64_t>(sizeof(Bits));
    }
    OnDevice<Bits> from(ctx, in), to(ctx, expected.size());
    std::vector<int32_t> list = split;
    list.push_back(-1);
    ctx.counters.reset();
    tpc_dispatch(&ctx, axes, Type::dtype, from.data(), to.data(), s.n, s.rows * s.width(),
                 s.width(), s.before, s.experts, list.data());
    EXPECT_TRUE(sameBits(to.read(), expected)) << describe("dispatch");
    EXPECT_EQ(countedBytes(ctx, CollectiveKind::Dispatch), bytes) << describe("dispatch");
  }

  /// Rows of results are 0 if no expert of the rank is selected.
  void checkCombine() {
    const std::vector<int64_t> &own = rowsOf[group.index];
    std::vector<Bits> in, expected;
    std::vector<int64_t> mine = expertsOf(ctx, ctx.rank, s.experts, split);
    for (int64_t row = 0; row < s.n * s.rows; ++row)
      for (int64_t c = 0; c < s.width(); ++c)
        in.push_back(usedOf(row, mine) ? result(ctx.rank, row, c) : Bits(0));
    for (int64_t row : own)
      for (int64_t c = 0; c < s.width(); ++c) {
        float sum = 0;
        for (int member : group.ranks)
          if (usedOf(row, expertsOf(ctx, member, s.experts, split)))
            sum += Type::value(result(member, row, c));
        expected.push_back(Type::of(sum));
      }
    int64_t bytes = 0;
    for (int member = 0; member < group.size(); ++member) {
      if (member == group.index)
        continue;
      bytes += (std::ssize(rowsOf[member]) + 7) / 8;
      for (int64_t row : rowsOf[member])
        bytes += usedOf(row, mine) ? s.width() * static_cast<int64_t>(sizeof(Bits)) : 0;
    }
    OnDevice<Bits> from(ctx, in), to(ctx, expected.size());
    ctx.counters.reset();
    tpc_combine(&ctx, axes, Type::dtype, from.data(), to.data(), s.n, s.rows * s.width(),
                s.width());
    EXPECT_TRUE(sameBits(to.read(), expected)) << describe("combine");
    EXPECT_EQ(countedBytes(ctx, CollectiveKind::Combine), bytes) << describe("combine");
  }

private:
  /// Weights of experts that are not selected are 0 or -0.
  Bits element(int64_t row, int64_t c) const {
    int64_t expert = c - s.before;
    if (expert < 0 || expert >= s.experts)
      return Type::of(drawn(1, 0, row * s.width() + c));
    if (isSelected(routing, s, row, expert))
      return row % 11 == 7
                 ? Type::of(NAN)
                 : Type::of(0.5f + static_cast<float>(row % 5) + static_cast<float>(expert) / 64);
    return Type::of(row % 2 ? -0.0f : 0.0f);
  }
  /// The last column alone is not 0 in some rows.
  Bits result(int rank, int64_t row, int64_t c) const {
    if (row % 5 == 3)
      return Type::of(c + 1 == s.width() ? 3.0f + static_cast<float>(rank) : -0.0f);
    return Type::of(drawn(2, static_cast<uint64_t>(rank), row * s.width() + c));
  }
  int64_t usedOf(int64_t row, const std::vector<int64_t> &experts) const {
    return std::count_if(experts.begin(), experts.end(),
                         [&](int64_t expert) { return isSelected(routing, s, row, expert); });
  }
  std::string describe(const char *what) const {
    return std::string(what) + " of " + spellType(Type::dtype) + ": rank " +
           std::to_string(ctx.rank) + " axes " + std::to_string(axes) + " sizes " +
           std::to_string(s.n) + " " + std::to_string(s.rows) + " " + std::to_string(s.before) +
           " " + std::to_string(s.experts) + " " + std::to_string(s.after) + " routing " +
           std::to_string(static_cast<int>(routing));
  }

  tpc_context &ctx;
  const Sizes s;
  const uint32_t axes;
  const Group &group;
  const Routing routing;
  std::vector<int32_t> split;
  std::vector<std::vector<int64_t>> rowsOf;
};

} // namespace

TEST_P(Routed, DispatchAndCombine) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (const Sizes &s : all)
        for (Routing routing : routings) {
          if (s.n * s.rows > 100 && routing != Routing::Random)
            continue;
          auto check = [&](auto type) {
            Case<decltype(type)> one(ctx, axes, s, routing);
            one.checkDispatch();
            one.checkCombine();
          };
          check(F32());
          if (routing == Routing::Random || routing == Routing::LastExpert) {
            check(F16());
            check(BF16());
          }
        }
  });
}

/// Each axis splits the experts that the previous ones left.
TEST_P(Routed, ExpertsOverAllAxes) {
  onAllRanks([](tpc_context &ctx) {
    for (const Sizes &s : {Sizes{3, 2, 4, 7, 1}, Sizes{7, 3, 37, 170, 0}}) {
      auto check = [&](auto type) {
        Case<decltype(type)> one(ctx, ctx.grid.allAxes(), s, Routing::Random);
        one.checkDispatch();
        one.checkCombine();
      };
      check(F32());
      check(F16());
      check(BF16());
    }
  });
}

TPC_INSTANTIATE_WORLDS(Routed, 6);
// Under a launcher of 32 ranks there are no instances.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Routed);
