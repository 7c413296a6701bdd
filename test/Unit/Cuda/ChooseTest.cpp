//===- ChooseTest.cpp - The runtime's kernels that choose tokens ----------===//
//
// In the interpreter, bit by bit what the host chooses of the same logits (generate/Score.h).
//
//===----------------------------------------------------------------------===//

#include "core/Half.h"
#include "cuda/library/ChooseKernels.h"
#include "generate/Score.h"

#include "tpc/Conversion/Cuda/Cuda.h"

#include "Ptx/Ptx.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace tpc::rt;
using cuda::ChooseLaunch;

namespace {

ptx::Module parse(const std::string &text) {
  std::string error;
  auto parsed = ptx::parse(text, error);
  EXPECT_TRUE(parsed) << error;
  return parsed.value_or(ptx::Module());
}

const ptx::Module &kernels() {
  static const ptx::Module module = parse(cuda::chooseKernels());
  return module;
}

/// What is special in rows of logits.
enum class Kind : uint8_t { Plain, Tied, Far, Zeros, Negative, Infinite, Lowest, NoNumbers, Last };

struct Rows {
  int32_t dtype = TPC_F32;
  int64_t count = 1, first = 0;
  std::vector<float> logits; ///< as they are in memory
  std::vector<RowChoice> settings;

  static float rounded(int32_t dtype, float x) {
    return dtype == TPC_F16    ? halfToFloat(floatToHalf(x))
           : dtype == TPC_BF16 ? bfloatToFloat(floatToBfloat(x))
                               : x;
  }

  Rows(int32_t dtype, int64_t count, int64_t first, int64_t rows, uint64_t seed)
      : dtype(dtype), count(count), first(first) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 3);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (int64_t row = 0; row < rows; ++row) {
      auto kind = static_cast<Kind>(random() % static_cast<uint64_t>(Kind::Last));
      for (int64_t i = 0; i < count; ++i) {
        float x = normal(random);
        bool rarely = random() % 17 == 0;
        if (kind == Kind::Tied)
          x = std::round(x);
        else if (kind == Kind::Far)
          x *= 1000;
        else if (kind == Kind::Zeros)
          x = rarely ? -1e-42f : random() % 2 ? 0.0f : -0.0f;
        else if (kind == Kind::Negative)
          x = -1 - std::abs(x);
        else if (kind == Kind::Infinite)
          x = rarely ? (random() % 3 ? -infinity : infinity) : x;
        else if (kind == Kind::Lowest)
          x = rarely ? x : -infinity;
        else if (kind == Kind::NoNumbers)
          x = rarely ? (random() % 2 ? NAN : -NAN) : x;
        logits.push_back(rounded(dtype, x));
      }
      const float temperatures[] = {1, 0.7f, 1.3f, 0.01f, 50};
      RowChoice own{random() % 5 != 0,
                    random() % 3 != 0,
                    temperatures[random() % 5],
                    static_cast<uint32_t>(random()),
                    random(),
                    random() % 7};
      if (!own.isDrawn)
        own.temperature = 1;
      settings.push_back(own);
    }
  }

  std::vector<int64_t> expected() const {
    std::vector<int64_t> best;
    for (size_t row = 0; row < settings.size(); ++row) {
      const RowChoice &own = settings[row];
      Draw draw{own.seed, own.sequence, own.position};
      Ranked largest = nobody;
      for (int64_t i = 0; own.isWanted && i < count; ++i) {
        float score = logits[row * size_t(count) + size_t(i)] / own.temperature;
        int64_t token = first + i;
        largest =
            std::max(largest, rank(own.isDrawn ? perturbed(score, draw.of(token)) : score, token));
      }
      best.push_back(largest);
    }
    return best;
  }

  /// Empty where the checkers have found something.
  std::vector<int64_t> run(uint64_t seed, const ptx::Module &module) const {
    ptx::Memory memory(seed);
    int64_t bytes = dtype == TPC_F32 ? 4 : 2;
    std::vector<uint8_t> stored;
    for (float x : logits) {
      uint16_t half = dtype == TPC_F16 ? floatToHalf(x) : floatToBfloat(x);
      auto *from = reinterpret_cast<const uint8_t *>(bytes == 4 ? static_cast<void *>(&x) : &half);
      stored.insert(stored.end(), from, from + bytes);
    }
    auto put = [&](const auto &list, const char *name) {
      size_t size = list.size() * sizeof(list[0]);
      uint64_t at = memory.allocate(size, name);
      EXPECT_TRUE(memory.copyIn(at, list.data(), size));
      memory.setReadOnly(at);
      return at;
    };
    Choice choice{reinterpret_cast<void *>(put(stored, "logits")),
                  dtype,
                  std::ssize(settings),
                  count,
                  first,
                  reinterpret_cast<const RowChoice *>(put(settings, "settings"))};
    uint64_t at = memory.allocate(settings.size() * 8, "best");
    std::vector<ptx::Argument> arguments;
    ChooseLaunch(choice, at).forEachParameter([&](auto value) {
      arguments.push_back(ptx::Argument::of(value));
    });
    ptx::Result result = ptx::launch(
        module, cuda::chooseKernel(dtype), arguments, memory,
        {.grid = {uint32_t(settings.size())}, .block = {ChooseLaunch::threads}, .seed = seed});
    if (!result.clean())
      return {};
    std::vector<int64_t> best(settings.size());
    EXPECT_TRUE(memory.copyOut(best.data(), at, best.size() * 8));
    return best;
  }
};

TEST(ChooseKernels, AreForAllGpus) {
  std::string text = cuda::chooseKernels();
  EXPECT_EQ(llvm::toString(mlir::tpc::cuda::checkRounding(text)), "");
  EXPECT_NE(text.find(".target sm_80\n"), std::string::npos);
  EXPECT_EQ(kernels().kernels().size(), std::size(cuda::chooseNames));
  EXPECT_EQ(cuda::chooseKernel(TPC_F64), nullptr);
}

TEST(ChooseKernels, ChooseWhatTheHostDoes) {
  uint64_t seed = 0;
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16})
    for (int64_t count : {1, 2, 3, 5, 31, 151, 1000, 2047, 2048, 5001})
      for (int64_t first : {0, 1, 2, 151, 50257}) {
        Rows rows(dtype, count, first, 6, ++seed);
        EXPECT_EQ(rows.run(seed, kernels()), rows.expected())
            << "type " << dtype << ", " << count << " tokens from " << first << ", seed " << seed;
      }
}

/// Scores that are all the same, so that draws alone decide.
Rows evenRows() {
  Rows rows(TPC_F32, 70, 3, 400, 1);
  rows.logits.assign(rows.logits.size(), 0.5f);
  for (size_t i = 0; i < rows.settings.size(); ++i)
    rows.settings[i] = {1, 1, 1, uint32_t(i), 5, 6};
  return rows;
}

/// A bound that were too narrow would leave out who is to be drawn.
TEST(ChooseKernels, LeaveOutNobody) {
  Rows rows = evenRows();
  std::vector<int64_t> expected = rows.expected();
  EXPECT_EQ(rows.run(1, kernels()), expected);
  std::set<int64_t> drawn;
  for (int64_t one : expected)
    drawn.insert(tokenOf(one));
  EXPECT_GE(drawn.size(), 65u);
}

/// This comparison can fail.
TEST(ChooseKernels, MistakesAreFound) {
  const std::string text = cuda::chooseKernels();
  // The cheap ones first.
  std::vector<Rows> all;
  for (int64_t seed = 1; seed < 6; ++seed)
    all.emplace_back(TPC_F32, 30 * seed, seed % 4, 20, seed);
  all.emplace_back(TPC_F32, 5001, 2, 60, 6);
  all.push_back(evenRows());
  auto isFound = [&](const ptx::Module &module) {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].run(i, module) != all[i].expected())
        return true;
    return false;
  };
  EXPECT_FALSE(isFound(kernels()));
  const std::pair<std::string, std::string> mistakes[] = {
      {"bar.sync 0;", ""},
      {"st.shared.u64 [%r1], %best", "st.shared.u64 [%r0], %best"},
      {"shfl.sync.bfly.b32 %low, %low, 8", "shfl.sync.bfly.b32 %low, %low, 4"},
      {"ld.shared.u64 %ranked, [%r0+120]", "ld.shared.u64 %ranked, [%r0+112]"},
      {"max.s64 %best, %best, %ranked", "min.s64 %best, %best, %ranked"},
      {"not.b32 %low, %token", "mov.b32 %low, %token"},
      {"add.rn.f32 %f0, %score, 0f00000000", "mov.f32 %f0, %score"},
      {"shr.s32 %r0, %key, 31", "shr.u32 %r0, %key, 31"},
      {"div.rn.f32 %score, %score, %temperature", "mul.rn.f32 %score, %score, %temperature"},
      {"sub.rn.f32 %bound, %bound, ", "add.rn.f32 %bound, %bound, "},
      {"setp.lt.f32 %p1, %bound, %floor", "setp.gt.f32 %p1, %bound, %floor"},
      {"@%p2 add.s32 %n, %n, 1;", ""},
      {"neg.f64 %d0, %d0", "abs.f64 %d0, %d0"},
      {"0xCD9E8D57", "0xCD9E8D55"},
      {"0xBB67AE85", "0xBB67AE87"},
      {"mov.b32 %c1, %position", "mov.b32 %c1, %sequence0"},
      {"mov.b32 %c3, %sequence1", "mov.b32 %c3, %sequence0"},
      {"add.u32 %last, %end, 3", "mov.u32 %last, %end"},
      {"setp.lt.u32 %p1, %token, %first", "setp.lt.u32 %p1, %token, 0"},
      {"add.u32 %quad, %quad, 512", "add.u32 %quad, %quad, 1024"},
      {"setp.eq.u32 %p0, %wanted, 0", "setp.eq.u32 %p0, %wanted, 7"},
  };
  for (const auto &[was, is] : mistakes) {
    // Everywhere in the first kernel; most stand there once.
    std::string wrong = text;
    size_t places = 0, end = text.find("tpc_choose_f16");
    for (size_t at = 0; (at = wrong.find(was, at)) < end; at += is.size(), ++places)
      wrong.replace(at, was.size(), is);
    EXPECT_GE(places, 1u) << was;
    EXPECT_TRUE(isFound(parse(wrong))) << was << " => " << is;
  }
}

} // namespace
