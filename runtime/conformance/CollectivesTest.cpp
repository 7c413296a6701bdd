//===- CollectivesTest.cpp - Collectives against the reference ------------===//

#include "Harness.h"
#include "OnDevice.h"
#include "Reference.h"
#include "core/DType.h"
#include "core/Half.h"
#include "tpc/async.h"
#include <algorithm>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

class Collectives : public WorldTest {};

constexpr int32_t allTypes[] = {TPC_F32, TPC_F64, TPC_F16, TPC_BF16, TPC_I8,
                                TPC_I16, TPC_I32, TPC_I64, TPC_BOOL, TPC_U8};

/// Calls `fn` with an unsigned integer of the type's size. Such integers stand for elements that
/// are only copied.
template <typename Fn> void withCarrier(int32_t dtype, Fn fn) {
  switch (sizeOf(dtype)) {
  case 1:
    return fn(uint8_t());
  case 2:
    return fn(uint16_t());
  case 4:
    return fn(uint32_t());
  default:
    return fn(uint64_t());
  }
}

template <typename Fn> void withReducible(Fn fn) {
  fn(TPC_F32, float());
  fn(TPC_F64, double());
  fn(TPC_I32, int32_t());
  fn(TPC_I64, int64_t());
}

constexpr tpc_reduction reductions[] = {TPC_SUM, TPC_MAX, TPC_MIN};

/// Tested shapes [outer, n, inner]; the last ones exceed the staging buffers.
struct Shape {
  int64_t outer, n, inner;
};
constexpr Shape shapes[] = {{1, 0, 4},  {0, 3, 2},  {1, 3, 0},   {1, 1, 1},    {2, 1, 3},
                            {1, 2, 1},  {1, 3, 5},  {3, 5, 2},   {1, 7, 64},   {4, 8, 1},
                            {2, 13, 7}, {1, 50, 3}, {1, 64, 96}, {3, 37, 129}, {1, 301, 128}};

/// Tests a separate output buffer, then in-place reduction.
template <typename T>
void checkAllReduce(tpc_context &ctx, uint32_t axes, int32_t dtype, tpc_reduction reduction,
                    int64_t count) {
  uint64_t seed = static_cast<uint64_t>(count) * 31 + reduction;
  std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
  std::vector<T> before(count);
  Sums<T> expected;
  for (int64_t i = 0; i < count; ++i) {
    before[i] = valueOf<T>(seed, ctx.rank, i);
    expected.add(reduction, seed, members, i);
  }
  OnDevice<T> in(ctx, before), out(ctx, std::vector<T>(count, T(77)));
  auto check = [&](const OnDevice<T> &result) {
    EXPECT_TRUE(expected.matches(result.read(), sumsInRankOrder(ctx)))
        << "rank " << ctx.rank << " axes " << axes << " " << spellType(dtype) << " count " << count;
  };
  tpc_all_reduce(&ctx, axes, dtype, reduction, in.data(), out.data(), count);
  check(out);
  EXPECT_TRUE(sameBits(in.read(), before)) << "the input was changed";
  tpc_all_reduce(&ctx, axes, dtype, reduction, in.data(), in.data(), count);
  check(in);
}

} // namespace

TEST_P(Collectives, AllReduce) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (int64_t count : {0, 1, 2, 3, 7, 16, 17, 1000, 5003, 40001})
        for (tpc_reduction reduction : reductions)
          withReducible([&](int32_t dtype, auto type) {
            if (count > 5003 && reduction != TPC_SUM)
              return;
            checkAllReduce<decltype(type)>(ctx, axes, dtype, reduction, count);
          });
  });
}

/// Several operations in flight, waited for in any order; other collectives of the same group, and
/// computation on other tensors, in between.
TEST_P(Collectives, AsyncAllReduces) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (int64_t count : {int64_t(0), int64_t(1000), int64_t(20000)})
        for (bool inPlace : {false, true}) {
          constexpr int operations = 6;
          if (count == 20000 && axes != ctx.grid.allAxes())
            continue;
          std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
          std::vector<Sums<float>> expected(operations);
          std::vector<std::unique_ptr<OnDevice<float>>> in, out;
          std::vector<int32_t> tokens;
          for (int op = 0; op < operations; ++op) {
            uint64_t seed = static_cast<uint64_t>(count) * 31 + op;
            std::vector<float> before(count);
            for (int64_t i = 0; i < count; ++i) {
              before[i] = valueOf<float>(seed, ctx.rank, i);
              expected[op].add(TPC_SUM, seed, members, i);
            }
            in.push_back(std::make_unique<OnDevice<float>>(ctx, before));
            out.push_back(std::make_unique<OnDevice<float>>(ctx, std::vector<float>(count, 77)));
          }
          auto wait = [&](int op) {
            tpc_wait(&ctx, tokens[op]);
            EXPECT_TRUE(
                expected[op].matches((inPlace ? in : out)[op]->read(), sumsInRankOrder(ctx)))
                << "rank " << ctx.rank << " axes " << axes << " count " << count << " " << op;
          };
          for (int op = 0; op < operations; ++op) {
            tokens.push_back(tpc_all_reduce_start(&ctx, axes, TPC_F32, TPC_SUM, in[op]->data(),
                                                  inPlace ? in[op]->data() : out[op]->data(),
                                                  count));
            if (op == 2)
              wait(1);
            if (op == 3)
              checkAllReduce<float>(ctx, axes, TPC_F32, TPC_SUM, 100);
          }
          for (int op : {5, 0, 4, 2, 3})
            wait(op);
        }
  });
}

/// More operations than a transport has entries for, at most a few of them in flight.
TEST_P(Collectives, ManyAsyncAllReduces) {
  onAllRanks([](tpc_context &ctx) {
    uint32_t axes = ctx.grid.allAxes();
    int members = static_cast<int>(membersOf(ctx.grid, ctx.rank, axes).size());
    constexpr int64_t count = 9000;
    std::vector<std::unique_ptr<OnDevice<int32_t>>> data;
    for (int i = 0; i < 4; ++i)
      data.push_back(std::make_unique<OnDevice<int32_t>>(ctx, std::vector<int32_t>(count, 1)));
    std::vector<int32_t> tokens(4);
    int32_t expected = 1;
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 4; ++i)
        tokens[i] = tpc_all_reduce_start(&ctx, axes, TPC_I32, TPC_SUM, data[i]->data(),
                                         data[i]->data(), count);
      for (int i = 0; i < 4; ++i)
        tpc_wait(&ctx, tokens[i]);
      expected = static_cast<int32_t>(static_cast<uint32_t>(expected) * members);
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(data[i]->read(), std::vector<int32_t>(count, expected)) << "round " << round;
    }
  });
}

TEST_P(Collectives, AllGather) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (Shape shape : shapes)
        for (int32_t dtype : allTypes)
          withCarrier(dtype, [&](auto type) {
            using T = decltype(type);
            std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
            auto parts = indicesOf(shape.n, sizesOf(ctx.grid, axes));
            // The tensor differs between groups, so that gathering from another group is detected.
            uint64_t owner = members[0];
            std::vector<T> whole, mine;
            for (int64_t o = 0; o < shape.outer; ++o)
              for (int64_t j = 0; j < shape.n; ++j)
                for (int64_t i = 0; i < shape.inner; ++i)
                  whole.push_back(valueOf<T>(5, owner, (o * shape.n + j) * shape.inner + i));
            size_t me = std::find(members.begin(), members.end(), ctx.rank) - members.begin();
            for (int64_t o = 0; o < shape.outer; ++o)
              for (int64_t j : parts[me])
                for (int64_t i = 0; i < shape.inner; ++i)
                  mine.push_back(whole[(o * shape.n + j) * shape.inner + i]);
            OnDevice<T> in(ctx, mine), out(ctx, whole.size());
            tpc_all_gather(&ctx, axes, dtype, in.data(), out.data(), shape.outer, shape.n,
                           shape.inner);
            EXPECT_TRUE(sameBits(out.read(), whole))
                << "rank " << ctx.rank << " axes " << axes << " " << spellType(dtype) << " shape "
                << shape.outer << "x" << shape.n << "x" << shape.inner;
          });
  });
}

TEST_P(Collectives, ReduceScatter) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (Shape shape : shapes)
        for (tpc_reduction reduction : reductions)
          withReducible([&](int32_t dtype, auto type) {
            using T = decltype(type);
            std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
            auto parts = indicesOf(shape.n, sizesOf(ctx.grid, axes));
            size_t me = std::find(members.begin(), members.end(), ctx.rank) - members.begin();
            std::vector<T> whole(shape.outer * shape.n * shape.inner);
            Sums<T> expected;
            for (size_t i = 0; i < whole.size(); ++i)
              whole[i] = valueOf<T>(9, ctx.rank, i);
            for (int64_t o = 0; o < shape.outer; ++o)
              for (int64_t j : parts[me])
                for (int64_t i = 0; i < shape.inner; ++i)
                  expected.add(reduction, 9, members, (o * shape.n + j) * shape.inner + i);
            OnDevice<T> in(ctx, whole), out(ctx, expected.size());
            tpc_reduce_scatter(&ctx, axes, dtype, reduction, in.data(), out.data(), shape.outer,
                               shape.n, shape.inner);
            EXPECT_TRUE(expected.matches(out.read(), sumsInRankOrder(ctx)))
                << "rank " << ctx.rank << " axes " << axes << " " << spellType(dtype) << " shape "
                << shape.outer << "x" << shape.n << "x" << shape.inner;
          });
  });
}

// Small integers: sums are exact in any order and in each type.
TEST_P(Collectives, HalvesAreReduced) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (int32_t dtype : {TPC_F16, TPC_BF16})
        for (tpc_reduction reduction : reductions)
          for (int64_t each : {1, 7, 300}) {
            std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
            auto count = each * static_cast<int64_t>(members.size());
            auto bitsOf = [&](int64_t number) {
              auto value = static_cast<float>(number);
              return dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value);
            };
            auto numberOf = [](int rank, int64_t i) { return (i * i + 3 * rank) % 11 - 5; };
            std::vector<uint16_t> mine, expected;
            for (int64_t i = 0; i < count; ++i) {
              mine.push_back(bitsOf(numberOf(ctx.rank, i)));
              int64_t all = numberOf(members[0], i);
              for (size_t member = 1; member < members.size(); ++member) {
                int64_t next = numberOf(members[member], i);
                all = reduction == TPC_SUM   ? all + next
                      : reduction == TPC_MAX ? std::max(all, next)
                                             : std::min(all, next);
              }
              expected.push_back(bitsOf(all));
            }
            OnDevice<uint16_t> in(ctx, mine), out(ctx, mine.size());
            tpc_all_reduce(&ctx, axes, dtype, reduction, in.data(), out.data(), count);
            EXPECT_TRUE(sameBits(out.read(), expected))
                << "rank " << ctx.rank << " axes " << axes << " " << spellType(dtype);
            size_t me = std::find(members.begin(), members.end(), ctx.rank) - members.begin();
            auto first = expected.begin() + static_cast<int64_t>(me) * each;
            OnDevice<uint16_t> part(ctx, static_cast<size_t>(each));
            tpc_reduce_scatter(&ctx, axes, dtype, reduction, in.data(), part.data(), 1, count, 1);
            EXPECT_TRUE(sameBits(part.read(), std::vector<uint16_t>(first, first + each)))
                << "rank " << ctx.rank << " axes " << axes << " " << spellType(dtype);
          }
  });
}

TEST_P(Collectives, AllToAll) {
  struct Sizes {
    int64_t outer, a, middle, b, inner;
  };
  constexpr Sizes all[] = {{1, 4, 1, 4, 1}, {2, 5, 3, 7, 2}, {1, 1, 1, 1, 3},  {1, 2, 2, 9, 1},
                           {0, 3, 1, 3, 1}, {1, 0, 1, 3, 1}, {1, 3, 2, 0, 1},  {1, 3, 0, 3, 1},
                           {3, 8, 1, 6, 5}, {1, 1, 4, 8, 2}, {2, 64, 1, 48, 9}};
  onAllRanks([&](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid))
      for (const Sizes &s : all)
        for (int32_t splitFirst : {0, 1})
          for (int32_t dtype : {TPC_F32, TPC_I8, TPC_BF16, TPC_I64})
            withCarrier(dtype, [&](auto type) {
              using T = decltype(type);
              std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
              size_t me = std::find(members.begin(), members.end(), ctx.rank) - members.begin();
              std::vector<int64_t> sizes = sizesOf(ctx.grid, axes);
              auto partsA = indicesOf(s.a, sizes), partsB = indicesOf(s.b, sizes);
              auto wholeA = indicesOf(s.a, {}), wholeB = indicesOf(s.b, {});
              auto select = [&](const std::vector<int64_t> &as, const std::vector<int64_t> &bs) {
                std::vector<T> values;
                for (int64_t o = 0; o < s.outer; ++o)
                  for (int64_t a : as)
                    for (int64_t m = 0; m < s.middle; ++m)
                      for (int64_t b : bs)
                        for (int64_t i = 0; i < s.inner; ++i)
                          values.push_back(
                              valueOf<T>(3, members[0],
                                         (((o * s.a + a) * s.middle + m) * s.b + b) * s.inner + i));
                return values;
              };
              std::vector<T> gatheredB = select(partsA[me], wholeB[0]);
              std::vector<T> gatheredA = select(wholeA[0], partsB[me]);
              const std::vector<T> &expected = splitFirst ? gatheredB : gatheredA;
              OnDevice<T> in(ctx, splitFirst ? gatheredA : gatheredB), out(ctx, expected.size());
              tpc_all_to_all(&ctx, axes, dtype, in.data(), out.data(), s.outer, s.a, s.middle, s.b,
                             s.inner, splitFirst);
              EXPECT_TRUE(sameBits(out.read(), expected))
                  << "rank " << ctx.rank << " axes " << axes << " sizes " << s.outer << " " << s.a
                  << " " << s.middle << " " << s.b << " " << s.inner << " first " << splitFirst;
            });
  });
}

TEST_P(Collectives, Broadcast) {
  onAllRanks([](tpc_context &ctx) {
    for (uint32_t axes : masksOf(ctx.grid)) {
      std::vector<int> members = membersOf(ctx.grid, ctx.rank, axes);
      for (int64_t count : {0, 1, 5, 1000, 70001})
        for (size_t root = 0; root < members.size(); ++root)
          for (int32_t dtype : {TPC_F64, TPC_U8}) {
            if (count > 1000 && dtype == TPC_F64)
              continue;
            withCarrier(dtype, [&](auto type) {
              using T = decltype(type);
              std::vector<T> mine(count), expected(count);
              for (int64_t i = 0; i < count; ++i) {
                mine[i] = valueOf<T>(4, ctx.rank, i);
                expected[i] = valueOf<T>(4, members[root], i);
              }
              OnDevice<T> data(ctx, mine);
              tpc_broadcast(&ctx, axes, dtype, data.data(), count, root);
              EXPECT_TRUE(sameBits(data.read(), expected))
                  << "rank " << ctx.rank << " axes " << axes << " root " << root;
            });
          }
    }
  });
}

TEST_P(Collectives, NanAndSignedZero) {
  onAllRanks([](tpc_context &ctx) {
    uint32_t axes = ctx.grid.allAxes();
    int last = ctx.worldSize() - 1;
    // A NaN of any rank reaches all ranks.
    for (int32_t reduction : {TPC_SUM, TPC_MAX, TPC_MIN})
      for (int owner = 0; owner <= last; ++owner) {
        OnDevice<float> value(ctx, {ctx.rank == owner ? NAN : float(ctx.rank)}), out(ctx, 1);
        tpc_all_reduce(&ctx, axes, TPC_F32, reduction, value.data(), out.data(), 1);
        EXPECT_TRUE(std::isnan(out.read()[0])) << "reduction " << reduction << " owner " << owner;
      }
    // Integer overflow wraps, as in generated code.
    OnDevice<int64_t> big(ctx, {ctx.rank == 0 ? INT64_MAX : 1}), sum(ctx, 1);
    tpc_all_reduce(&ctx, axes, TPC_I64, TPC_SUM, big.data(), sum.data(), 1);
    EXPECT_EQ(sum.read()[0], static_cast<int64_t>(uint64_t(INT64_MAX) + last));
  });
}

TPC_INSTANTIATE_WORLDS(Collectives, 12);
// Under a launcher of 32 ranks there are no instances.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Collectives);
