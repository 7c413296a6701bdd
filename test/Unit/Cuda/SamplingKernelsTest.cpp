//===- SamplingKernelsTest.cpp - Runtime kernels that sample tokens ----------------===//
//
// Compares the results of the kernels in the interpreter with those of the host for the same logits
// (generate/Score.h), bit by bit.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/SamplingKernels.h"
#include "core/Half.h"
#include "generate/Score.h"

#include "tpc/Conversion/Cuda/Cuda.h"

#include "Ptx/Ptx.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace tpc::rt;
using cuda::SamplingLaunch;

namespace {

ptx::Module parse(const std::string &text) {
  std::string error;
  auto parsed = ptx::parse(text, error);
  EXPECT_TRUE(parsed) << error;
  return parsed.value_or(ptx::Module());
}

const ptx::Module &kernels() {
  static const ptx::Module module = parse(cuda::samplingKernels());
  return module;
}

/// Kinds of rows of logits.
enum class Kind : uint8_t {
  Plain,
  Tied,
  Close,
  Far,
  Zeros,
  Negative,
  Infinite,
  Lowest,
  NoNumbers,
  Last
};

struct Rows {
  int32_t dtype = TPC_F32;
  int64_t count = 1, first = 0;
  std::vector<float> logits; ///< in their layout in memory
  std::vector<RowSampling> settings;
  std::vector<std::set<int64_t>> seen; ///< tokens of each row's sequence
  int64_t vocabulary = 0;

  static float rounded(int32_t dtype, float x) {
    return dtype == TPC_F16    ? halfToFloat(floatToHalf(x))
           : dtype == TPC_BF16 ? bfloatToFloat(floatToBfloat(x))
                               : x;
  }

  Rows(int32_t dtype, int64_t count, int64_t first, int64_t rows, uint64_t seed)
      : dtype(dtype), count(count), first(first), vocabulary(first + count + seed % 70) {
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
        else if (kind == Kind::Close)
          x = 1 + static_cast<float>(random() % 16) * 0x1p-23f;
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
      RowSampling own{random() % 5 != 0,
                      random() % 3 != 0,
                      temperatures[random() % 5],
                      static_cast<uint32_t>(random()),
                      random(),
                      random() % 7,
                      1,
                      0,
                      0,
                      0};
      if (!own.hasNoise)
        own.temperature = 1;
      seen.emplace_back();
      if (random() % 2) {
        own.penalty = random() % 3 ? 1.2f : 0.7f;
        for (int64_t i = 0; i < 1 + vocabulary / 4; ++i)
          seen.back().insert(static_cast<int64_t>(random() % static_cast<uint64_t>(vocabulary)));
      }
      const int32_t shown[] = {1, 2, 3, 7, 40, 64, 1000, RowSampling::maxShown};
      if (own.isActive && own.hasNoise && random() % 2)
        own.shown = shown[random() % std::size(shown)];
      settings.push_back(own);
    }
    setOffsets();
  }

  void setOffsets() {
    // Scores of other rows may come before these in the buffer.
    for (int32_t offset = 5; RowSampling &own : settings) {
      own.shownBefore = offset;
      offset += own.shown;
    }
  }

  float scoreOf(size_t row, int64_t token) const {
    float score = logits[row * size_t(count) + size_t(token - first)];
    const RowSampling &own = settings[row];
    if (own.penalty != 1 && seen[row].contains(token))
      score = score < 0 ? score * own.penalty : score / own.penalty;
    return score / own.temperature;
  }

  /// Returns the top-scoring tokens of a row in descending order.
  std::vector<int64_t> largestOf(size_t row) const {
    std::vector<int64_t> all;
    for (int64_t token = first; token < first + count; ++token)
      all.push_back(rank(scoreOf(row, token), token));
    std::sort(all.begin(), all.end(), std::greater<>());
    all.resize(size_t(settings[row].shown), noToken);
    return all;
  }

  std::vector<int64_t> expected() const {
    std::vector<int64_t> best;
    for (size_t row = 0; row < settings.size(); ++row) {
      const RowSampling &own = settings[row];
      Draw draw{own.seed, own.sequence, own.position};
      Ranked largest = noToken;
      for (int64_t token = first; own.isActive && !own.shown && token < first + count; ++token) {
        float score = scoreOf(row, token);
        largest =
            std::max(largest, rank(own.hasNoise ? perturbed(score, draw.of(token)) : score, token));
      }
      best.push_back(largest);
    }
    for (size_t row = 0; row < settings.size(); ++row)
      if (settings[row].shown) {
        std::vector<int64_t> largest = largestOf(row);
        best.insert(best.end(), largest.begin(), largest.end());
        for (int64_t token = first; token < first + count; ++token)
          best.push_back(bitsOf(scoreOf(row, token)));
      }
    return best;
  }

  /// Returns the bits of a score. All NaN are equal.
  static int64_t bitsOf(float score) { return score == score ? std::bit_cast<int32_t>(score) : -1; }

  /// Returns the best token of each row; then, for each row that reports its maximum, the maximum
  /// and all scores. Empty if the checkers have a finding.
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
    auto settingsBytes = size_t(RowSampling::bytes(vocabulary));
    std::vector<uint8_t> rows(settings.size() * settingsBytes);
    for (size_t row = 0; row < settings.size(); ++row) {
      uint8_t *own = rows.data() + row * settingsBytes;
      std::memcpy(own, &settings[row], sizeof(RowSampling));
      for (int64_t token : seen[row])
        own[sizeof(RowSampling) + size_t(token / 8)] |= uint8_t(1 << token % 8);
    }
    SamplingRequest choice{reinterpret_cast<void *>(put(stored, "logits")),
                           dtype,
                           std::ssize(settings),
                           count,
                           first,
                           reinterpret_cast<const RowSampling *>(put(rows, "settings")),
                           int64_t(settingsBytes)};
    cuda::SamplingSizes sizes(choice);
    uint64_t at = memory.allocate(size_t(sizes.bytes()), "chosen");
    std::vector<uint64_t> zeros(settings.size() * SamplingLaunch::joinBytes / 8);
    uint64_t joins = memory.allocate(zeros.size() * 8, "joins");
    EXPECT_TRUE(memory.copyIn(joins, zeros.data(), zeros.size() * 8));
    SamplingLaunch launch(choice, sizes, at, joins);
    std::vector<ptx::Argument> arguments;
    launch.forEachParameter([&](auto value) { arguments.push_back(ptx::Argument::of(value)); });
    ptx::Result result = ptx::launch(module, cuda::samplingKernel(dtype), arguments, memory,
                                     {.grid = {uint32_t(std::ssize(settings) * sizes.slices)},
                                      .block = {SamplingLaunch::threads},
                                      .seed = seed});
    if (!result.clean()) {
      if (&module == &kernels())
        ADD_FAILURE() << result.str();
      return {};
    }
    // The next launch begins with zeros.
    std::vector<uint64_t> left(zeros.size());
    if (!memory.copyOut(left.data(), joins, left.size() * 8) || left != zeros)
      return {};
    std::vector<int64_t> best(settings.size());
    EXPECT_TRUE(memory.copyOut(best.data(), at, best.size() * 8));
    for (size_t row = 0; row < settings.size(); ++row) {
      const RowSampling &own = settings[row];
      if (!own.shown)
        continue;
      std::vector<int64_t> largest(size_t(own.shown));
      std::vector<float> scores(logits.size() / settings.size());
      if (!memory.copyOut(largest.data(),
                          launch.largest + uint64_t(own.shownBefore - settings[0].shownBefore) * 8,
                          largest.size() * 8) ||
          !memory.copyOut(scores.data(), launch.scores + row * scores.size() * 4,
                          scores.size() * 4))
        return {};
      std::sort(largest.begin(), largest.end(), std::greater<>());
      best.insert(best.end(), largest.begin(), largest.end());
      for (float score : scores)
        best.push_back(bitsOf(score));
    }
    return best;
  }
};

TEST(SamplingKernels, TargetTheOldestArchitecture) {
  std::string text = cuda::samplingKernels();
  EXPECT_EQ(llvm::toString(mlir::tpc::cuda::checkRounding(text)), "");
  EXPECT_NE(text.find(".target sm_80\n"), std::string::npos);
  EXPECT_EQ(kernels().kernels().size(), std::size(cuda::samplingKernelNames));
  EXPECT_EQ(cuda::samplingKernel(TPC_F64), nullptr);
}

TEST(SamplingKernels, MatchTheHost) {
  uint64_t seed = 0;
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16})
    for (int64_t count : {1, 2, 3, 5, 31, 151, 1000, 2047, 2048, 5001, 9001})
      for (int64_t first : {0, 1, 2, 151, 50257}) {
        Rows rows(dtype, count, first, 6, ++seed);
        EXPECT_EQ(rows.run(seed, kernels()), rows.expected())
            << "type " << dtype << ", " << count << " tokens from " << first << ", seed " << seed;
      }
}

/// Nearly equal scores, so that random draws decide.
Rows evenRows() {
  Rows rows(TPC_F32, 70, 3, 400, 1);
  for (size_t i = 0; i < rows.logits.size(); ++i)
    rows.logits[i] = i % 2 ? 0.5f : 0.8f;
  for (size_t i = 0; i < rows.settings.size(); ++i)
    rows.settings[i] = {1, 1, 1, uint32_t(i), 5, 6, 1, 0, 0, 0};
  return rows;
}

/// The bound on scores must not exclude tokens that may be drawn.
TEST(SamplingKernels, KeepAllCandidates) {
  Rows rows = evenRows();
  std::vector<int64_t> expected = rows.expected();
  EXPECT_EQ(rows.run(1, kernels()), expected);
  std::set<int64_t> drawn;
  for (int64_t one : expected)
    drawn.insert(tokenOf(one));
  EXPECT_GE(drawn.size(), 65u);
}

/// The checks must find each fault.
TEST(SamplingKernels, FaultsAreFound) {
  const std::string text = cuda::samplingKernels();
  // Fast cases come first, a few at a time, because they find most faults.
  std::vector<Rows> all;
  for (int64_t seed = 1; seed < 25; ++seed)
    all.emplace_back(TPC_F32, 7 * seed, seed % 4, 4, seed);
  for (int64_t seed = 0; seed < 10; ++seed)
    all.emplace_back(TPC_F32, 3500, 2, 4, seed);
  // The best token is in the last warp.
  Rows &last = all.emplace_back(TPC_F32, 2048, 0, 1, 1);
  last.logits.assign(2048, 0.5f);
  last.logits[2000] = 1;
  last.settings[0] = {1, 0, 1, 0, 5, 6, 1, 0, 0, 0};
  all.push_back(evenRows());
  // More candidates than fit into shared memory.
  Rows &many = all.emplace_back(TPC_F32, 9003, 0, 1, 1);
  many.settings[0] = {1, 1, 1, 0, 5, 6, 1, RowSampling::maxShown, 0, 0};
  many.setOffsets();
  auto isFound = [&](const ptx::Module &module) {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].run(i, module) != all[i].expected())
        return true;
    return false;
  };
  EXPECT_FALSE(isFound(kernels()));
  const std::pair<std::string, std::string> faults[] = {
      {"bar.sync 0;", ""},
      {"st.shared.u64 [%r1], %best", "st.shared.u64 [%r0], %best"},
      {"shfl.sync.bfly.b32 %low, %low, 8", "shfl.sync.bfly.b32 %low, %low, 4"},
      {"ld.shared.u64 %ranked, [%r0+120]", "ld.shared.u64 %ranked, [%r0+112]"},
      {"max.s64 %best, %best, %ranked", "min.s64 %best, %best, %ranked"},
      {"not.b32 %low, %token", "mov.b32 %low, %token"},
      {"add.rn.f32 %f0, %score, 0f00000000", "mov.f32 %f0, %score"},
      {"shr.s32 %r0, %key, 31", "shr.u32 %r0, %key, 31"},
      {"div.rn.f32 %s2, %s2, %temperature", "mul.rn.f32 %s2, %s2, %temperature"},
      {"sub.rn.f32 %bound, %bound, ", "add.rn.f32 %bound, %bound, "},
      {"setp.lt.f32 %p1, %bound, %floor", "setp.gt.f32 %p1, %bound, %floor"},
      {"@%p2 add.s32 %n, %n, 1;", ""},
      {"neg.f64 %d0, %d0", "abs.f64 %d0, %d0"},
      {"0xCD9E8D57", "0xCD9E8D55"},
      {"0xBB67AE85", "0xBB67AE87"},
      {"mov.b32 %c1, %position", "mov.b32 %c1, %sequence0"},
      {"mov.b32 %c3, %sequence1", "mov.b32 %c3, %sequence0"},
      {"setp.ge.u32 %valid1, %r0, %first", "setp.ge.u32 %valid1, %r0, 0"},
      {"setp.lt.and.u32 %valid3, %r0, %end, %valid3;", ""},
      {"and.pred %p0, %p0, %valid3;", ""},
      {"and.b32 %r0, %r0, 15", "and.b32 %r0, %r0, 7"},
      {"setp.lt.u32 %p1, %token, %first", "setp.lt.u32 %p1, %token, 0"},
      {"mad.lo.u32 %quad, %slice, 512, %quad", "mad.lo.u32 %quad, %slice, 511, %quad"},
      {"setp.eq.u32 %p0, %active, 0", "setp.eq.u32 %p0, %active, 7"},
      // Penalties.
      {"setp.neu.f32 %p6, %penalty, 0f3F800000", "setp.neu.f32 %p6, %penalty, %penalty"},
      {"and.b32 %r1, %token, 31", "and.b32 %r1, %place, 31"},
      {"setp.eq.u32 %p4, %r0, 0", "setp.ne.u32 %p4, %r0, 0"},
      {"@%p4 mul.rn.f32 %s1, %s1, %penalty", "@%p4 div.rn.f32 %s1, %s1, %penalty"},
      // The maximum.
      {"setp.ne.u32 %p0, %shown, 0", "setp.gt.u32 %p0, %shown, 1"},
      {"sub.u32 %r0, %r0, %r1;", ""},
      {"setp.ge.u32 %p0, %shown, %present", "setp.ge.u32 %p0, %shown, 0"},
      {"[%bin], 0;", "[%bin], 1;"},
      {"[%bin], 0;\n  bar.sync 0;", "[%bin], 0;"},
      {"setp.eq.and.u64 %counts, %x1, %prefix", "setp.ge.and.u64 %counts, %x1, %prefix"},
      {"not.b32 %r0, %r0;", ""},
      {"red.shared.add.u32 [%r0], %r2", "red.shared.add.u32 [%r0], 1"},
      {"setp.eq.and.u32 %counts, %r1, %lane, %counts;", ""},
      {"@!%counts mov.u32 %r0, 512;", ""},
      {"COUNTED:\n  bar.sync 0;", "COUNTED:"},
      {"shfl.sync.up.b32 %r0|%p1, %sum, 4", "shfl.sync.up.b32 %r0|%p1, %sum, 3"},
      {"setp.eq.u32 %p1, %lane, 31", "setp.eq.u32 %p1, %lane, 30"},
      {"[%r1], %sum;\n  bar.sync 0;", "[%r1], %sum;"},
      {"setp.gt.u32 %p1, %warp, 3", "setp.ge.u32 %p1, %warp, 3"},
      {"setp.lt.u32 %p1, %before, %needed", "setp.le.u32 %p1, %before, %needed"},
      {"setp.ge.and.u32 %p1, %sum, %needed", "setp.gt.and.u32 %p1, %sum, %needed"},
      {"[%found+8], %own;\n  bar.sync 0;", "[%found+8], %own;"},
      {"sub.u32 %needed, %needed, %before;", ""},
      {"shl.b64 %prefix, %prefix, 9", "shl.b64 %prefix, %prefix, 8"},
      {"shl.b64 %least, %prefix, %shift", "mov.b64 %least, %prefix"},
      {"setp.eq.u32 %p1, %needed, %own", "setp.le.u32 %p1, %needed, %own"},
      {"sub.u32 %shift, %shift, 9", "sub.u32 %shift, %shift, 18"},
      {"[%found+12], 0;\n  bar.sync 0;", "[%found+12], 0;"},
      {"setp.ge.and.u64 %counts, %value, %least", "setp.gt.and.u64 %counts, %value, %least"},
      {"atom.shared.add.u32 %r0, [%found+12], 1", "ld.shared.u32 %r0, [%found+12]"},
      {"add.u32 %r0, %present, %thread", "add.u32 %r0, %present, 1"},
      {"xor.b32 %r0, %key, 0x80000000", "mov.b32 %r0, %key"},
      {"and.b32 %r1, %low, 0x7fffffff", "mov.b32 %r1, %low"},
      {"@!%valid2 mov.b64 %ranked, %best;", ""},
      {"mov.u64 %least, 1", "mov.u64 %least, 0"},
      // Slices.
      {"red.relaxed.gpu.global.max.u64 [%joins], %best;", ""},
      {"exch.b64 %best, [%joins], %x0", "max.u64 %best, [%joins], %x0"},
      {"atom.acq_rel.gpu.global.inc", "atom.relaxed.gpu.global.inc"},
      {"atom.acq_rel.gpu.global.inc", "atom.acquire.gpu.global.inc"},
      {"atom.acq_rel.gpu.global.inc", "atom.release.gpu.global.inc"},
      {"atom.acq_rel.gpu.global.inc", "atom.acq_rel.cta.global.inc"},
      {"gpu.global.inc.u32 %r0, [%joins+8], %others", "gpu.global.add.u32 %r0, [%joins+8], 1"},
      {"  bar.sync 0;\n  setp.ne.u32 %p0, %thread, 0;\n  @%p0 bra COUNTED_SLICE;",
       "  setp.ne.u32 %p0, %thread, 0;\n  @%p0 bra COUNTED_SLICE;"},
      {"COUNTED_SLICE:\n  bar.sync 0;", "COUNTED_SLICE:"},
      {"setp.ne.u32 %p0, %slice, 0;\n  @%p0 bra DONE;", ""},
      {"max.u32 %r0, %r0, %first;", ""},
      {"min.u32 %r1, %r1, %end;", ""},
      {"mul.lo.u32 %many, %slices, %shown", "mov.u32 %many, %shown"},
      {"setp.gt.u32 %p0, %many, 4096", "setp.gt.u32 %p0, %many, 8192"},
      {"mul.wide.u32 %x0, %slice, %shown", "mul.wide.u32 %x0, 0, %shown"},
  };
  for (const auto &[was, is] : faults) {
    // Replaces all occurrences in the first kernel; most occur once.
    std::string wrong = text;
    size_t numFound = 0, end = text.find("tpc_choose_f16");
    for (size_t at = 0; (at = wrong.find(was, at)) < end; at += is.size(), ++numFound)
      wrong.replace(at, was.size(), is);
    EXPECT_GE(numFound, 1u) << was;
    EXPECT_TRUE(isFound(parse(wrong))) << was << " => " << is;
  }
}

} // namespace
