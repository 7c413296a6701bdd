//===- ExpertsTest.cpp - Mixtures of experts against sums in double -------===//

#include "Tables.h"
#include "core/Context.h"
#include "core/DType.h"
#include "core/Half.h"
#include "core/World.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <utility>

using namespace tpc::rt;

namespace {

struct OneRank {
  std::unique_ptr<World> world;
  explicit OneRank(int threads) : world(World::threads(Grid({{"tp", 1}}), threads)) {}
  tpc_context *ctx() { return &world->local(0); }
};

struct Shape {
  int64_t tokens, hidden, all, first, experts, inner, outputs;
};

/// A call with random operands. Each token selects about a third of the experts.
struct Call {
  explicit Call(const Shape &s, bool hasGate, bool hasBias)
      : x(numbers(s.tokens * s.hidden, 1)), routing(numbers(s.tokens * s.all, 2)),
        up(numbers(s.experts * s.inner * s.hidden, 3)),
        gate(numbers(s.experts * s.inner * s.hidden, 4)),
        down(numbers(s.experts * s.outputs * s.inner, 5)), upBias(numbers(s.experts * s.inner, 6)),
        gateBias(numbers(s.experts * s.inner, 7)), out(s.tokens * s.outputs, 9.0f) {
    for (size_t i = 0; i < routing.size(); ++i)
      if (i * 7 % 3)
        routing[i] = 0;
    args.x = x.data();
    args.routing = routing.data();
    args.up = up.data();
    args.up_bias = hasBias ? upBias.data() : nullptr;
    args.gate = hasGate ? gate.data() : nullptr;
    args.gate_bias = hasGate && hasBias ? gateBias.data() : nullptr;
    args.down = down.data();
    args.out = out.data();
    args.tokens = s.tokens;
    args.hidden = s.hidden;
    args.experts = s.experts;
    args.all = s.all;
    args.first = s.first;
    args.inner = s.inner;
    args.outputs = s.outputs;
    args.alpha = 1;
    args.activation = TPC_EPILOGUE_SILU;
    args.dtype = TPC_F32;
  }

  double activated(double z) const {
    switch (args.activation) {
    case TPC_EPILOGUE_GELU_ERF:
      return 0.5 * z * (1 + std::erf(z / std::sqrt(2.0)));
    case TPC_EPILOGUE_GELU_TANH:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case TPC_EPILOGUE_SILU:
      return z / (1 + std::exp(-args.alpha * z));
    case TPC_EPILOGUE_RELU:
      return std::max(z, 0.0);
    default:
      return z;
    }
  }

  double expected(int64_t t, int64_t o) const {
    double sum = 0;
    for (int64_t e = 0; e < args.experts; ++e) {
      double weight = routing[t * args.all + args.first + e];
      for (int64_t f = 0; f < args.inner && weight != 0; ++f) {
        int64_t row = e * args.inner + f;
        double u = args.up_bias ? upBias[row] : 0, v = args.gate_bias ? gateBias[row] : 0;
        for (int64_t h = 0; h < args.hidden; ++h) {
          u += static_cast<double>(x[t * args.hidden + h]) * up[row * args.hidden + h];
          v += static_cast<double>(x[t * args.hidden + h]) * gate[row * args.hidden + h];
        }
        if (args.gate && args.limit != 0) {
          u = std::clamp<double>(u, -args.limit, args.limit);
          v = std::min<double>(v, args.limit);
        }
        double h = args.gate ? activated(v) * (u + args.beta) : activated(u);
        sum += weight * h * down[(e * args.outputs + o) * args.inner + f];
      }
    }
    return sum;
  }

  void check() {
    for (int64_t t = 0; t < args.tokens; ++t)
      for (int64_t o = 0; o < args.outputs; ++o)
        ASSERT_NEAR(out[t * args.outputs + o], expected(t, o), 2e-5 * (args.inner + 1))
            << t << ", " << o;
  }

  std::vector<float> x, routing, up, gate, down, upBias, gateBias, out;
  tpc_experts_args args = {};
};

TEST(Experts, AgreeForAllShapes) {
  for (int threads : {1, 3}) {
    OneRank rank(threads);
    for (const Shape &s : {Shape{5, 7, 4, 0, 4, 9, 6},
                           {1, 16, 8, 3, 2, 33, 17},
                           {40, 8, 3, 1, 1, 5, 3},
                           {3, 4, 4, 4, 0, 5, 6}, // no expert
                           {3, 4, 4, 1, 2, 0, 6}, // no inner element
                           {0, 4, 4, 1, 2, 3, 6}, // no token
                           {2, 0, 4, 1, 2, 3, 6}})
      for (bool hasGate : {false, true})
        for (bool hasBias : {false, true}) {
          Call call(s, hasGate, hasBias);
          tpc_experts(rank.ctx(), &call.args);
          call.check();
        }
  }
}

TEST(Experts, ComputeAllActivations) {
  OneRank rank(1);
  for (int32_t activation : {TPC_EPILOGUE_NONE, TPC_EPILOGUE_GELU_ERF, TPC_EPILOGUE_GELU_TANH,
                             TPC_EPILOGUE_SILU, TPC_EPILOGUE_RELU})
    for (bool hasGate : {false, true})
      for (float limit : {0.0f, 0.3f}) {
        Call call({6, 5, 4, 0, 4, 8, 5}, hasGate, true);
        call.args.activation = activation;
        call.args.alpha = activation == TPC_EPILOGUE_SILU ? 1.702f : 1;
        call.args.beta = hasGate ? 1 : 0;
        call.args.limit = hasGate ? limit : 0;
        tpc_experts(rank.ctx(), &call.args);
        call.check();
      }
}

using Halves = std::array<std::vector<uint16_t>, 3>;

/// Rounds the matrices of a call. Returns them in 16 bits.
Halves roundMatrices(Call &call, int32_t dtype) {
  Halves halves;
  std::vector<float> *matrices[] = {&call.up, &call.gate, &call.down};
  for (size_t i = 0; i < halves.size(); ++i)
    for (float &value : *matrices[i]) {
      halves[i].push_back(dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value));
      value = dtype == TPC_F16 ? halfToFloat(halves[i].back()) : bfloatToFloat(halves[i].back());
    }
  return halves;
}

void readHalves(Call &call, const Halves &halves, int32_t dtype) {
  call.args.up = halves[0].data();
  call.args.gate = call.args.gate ? halves[1].data() : nullptr;
  call.args.down = halves[2].data();
  call.args.dtype = dtype;
}

/// Packed copies of the matrices of a call, which then reads them.
class PackedMatrices {
public:
  PackedMatrices(tpc_context &ctx, Call &call) : ctx(ctx) {
    tpc_experts_args &a = call.args;
    a.up = pack(copies[0], a.up, a.experts, a.inner, a.hidden, a.dtype);
    a.gate = a.gate ? pack(copies[1], a.gate, a.experts, a.inner, a.hidden, a.dtype) : nullptr;
    a.down = pack(copies[2], a.down, a.experts, a.outputs, a.inner, a.dtype);
  }
  PackedMatrices(const PackedMatrices &) = delete;
  PackedMatrices &operator=(const PackedMatrices &) = delete;
  ~PackedMatrices() { ctx.data.packedExperts.clear(); }

private:
  const void *pack(std::vector<std::byte> &copy, const void *from, int64_t experts, int64_t n,
                   int64_t k, int32_t dtype) {
    auto *bytes = static_cast<const std::byte *>(from);
    copy.assign(bytes, bytes + experts * n * k * sizeOf(dtype));
    if (copy.empty())
      return from;
    EXPECT_TRUE(ctx.device->packExperts(copy.data(), experts, n, k, dtype));
    ctx.data.packedExperts.insert(copy.data());
    return copy.data();
  }

  tpc_context &ctx;
  std::vector<std::byte> copies[3];
};

/// Packed matrices have the bits of dense ones: for all kernels, sizes that are no multiples of a
/// panel, odd and single steps of k, one of the matrices dense, and 16 bits.
TEST(Experts, PackedMatricesHaveTheBitsOfDenseOnes) {
  const KernelTable &before = kernels();
  for (const KernelTable *table : allTables())
    for (int threads : {1, 3})
      for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16})
        for (const Shape &s : {Shape{5, 7, 4, 0, 4, 70, 65},
                               {1, 16, 8, 3, 2, 33, 17},
                               {3, 1, 4, 1, 3, 64, 1},
                               {40, 8, 3, 1, 1, 1, 64},
                               {70, 6, 2, 0, 2, 100, 40},
                               {2, 0, 4, 1, 2, 33, 40}}) {
          chooseKernels(*table);
          OneRank rank(threads);
          Call call(s, s.tokens % 2, true);
          Halves halves;
          if (dtype != TPC_F32) {
            halves = roundMatrices(call, dtype);
            readHalves(call, halves, dtype);
          }
          tpc_experts(rank.ctx(), &call.args);
          call.check();
          std::vector<float> dense = std::exchange(call.out, numbers(s.tokens * s.outputs));
          call.args.out = call.out.data();
          const void *down = call.args.down;
          PackedMatrices packed(*rank.ctx(), call);
          tpc_experts(rank.ctx(), &call.args);
          EXPECT_EQ(call.out, dense) << table->name << ", " << threads << ", " << dtype;
          call.args.down = down; // a weight that another op reads too
          tpc_experts(rank.ctx(), &call.args);
          EXPECT_EQ(call.out, dense) << table->name << ", " << threads << ", " << dtype;
        }
  chooseKernels(before);
}

/// A token has the same bits alone and in a batch.
TEST(Experts, BitsOfTokensAreIndependentOfTheBatch) {
  const Shape s{300, 20, 4, 0, 4, 70, 40};
  for (bool isPacked : {false, true}) {
    OneRank rank(3);
    Call call(s, true, true);
    std::optional<PackedMatrices> packed;
    if (isPacked)
      packed.emplace(*rank.ctx(), call);
    tpc_experts(rank.ctx(), &call.args);
    call.check();
    std::vector<float> batch = call.out;
    call.args.tokens = 1;
    for (int64_t t = 0; t < s.tokens; ++t) {
      tpc_experts(rank.ctx(), &call.args);
      ASSERT_TRUE(
          std::equal(call.out.data(), call.out.data() + s.outputs, batch.data() + t * s.outputs))
          << t;
      call.args.x += s.hidden;
      call.args.routing += s.all;
    }
  }
}

int64_t bytesRead = 0; // of matrices, by countingKernels
const KernelTable *countedKernels = nullptr;

/// Decode reads each matrix of the selected experts once, and no others: with 8 experts of which a
/// token selects 2 (Mixtral), a quarter of all bytes. A number in 16 bits is two bytes.
TEST(Experts, DecodeReadsTheMatricesOfSelectedExperts) {
  OneRank rank(1);
  const KernelTable &before = kernels();
  countedKernels = &before;
  KernelTable counting = before;
  counting.gemmTransposed = [](const GemmJob &job, const void *table, int64_t from, int64_t to) {
    bytesRead += (to - from) * job.k * sizeOf(job.weights);
    countedKernels->gemmTransposed(job, table, from, to);
  };
  counting.packTransposed = [](const void *rows, int32_t dtype, int64_t k, int64_t n,
                               int64_t column0, float *panel) {
    bytesRead += std::min<int64_t>(n - column0, countedKernels->panelWidth) * k * sizeOf(dtype);
    countedKernels->packTransposed(rows, dtype, k, n, column0, panel);
  };
  counting.gemm = [](const GemmJob &job, int64_t row0, int64_t row1, int64_t panel0,
                     int64_t panel1) {
    bytesRead += (panel1 - panel0) * countedKernels->panelWidth * job.k * sizeOf(job.weights);
    countedKernels->gemm(job, row0, row1, panel0, panel1);
  };
  const Shape shape{1, 64, 8, 0, 8, 224, 70};
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16}) {
    Call call(shape, true, false);
    Halves halves;
    if (dtype != TPC_F32) {
      halves = roundMatrices(call, dtype);
      readHalves(call, halves, dtype);
    }
    for (int64_t e = 0; e < shape.all; ++e)
      call.routing[e] = e == 2 || e == 7 ? 0.5f : 0;
    auto count = [&] {
      bytesRead = 0;
      chooseKernels(counting);
      tpc_experts(rank.ctx(), &call.args);
      chooseKernels(before);
      call.check();
      return bytesRead;
    };
    int64_t bytes = 2 * shape.inner * (2 * shape.hidden + shape.outputs) * sizeOf(dtype);
    EXPECT_EQ(count(), bytes);
    PackedMatrices packed(*rank.ctx(), call);
    EXPECT_EQ(count(), bytes);
  }
}

/// Weights in 16 bits have the bits of the same numbers in f32.
TEST(Experts, ReadMatricesInHalves) {
  OneRank rank(2);
  for (int32_t dtype : {TPC_F16, TPC_BF16})
    for (int64_t tokens : {1, 40})
      for (bool hasGate : {false, true}) {
        Call call({tokens, 40, 4, 1, 3, 33, 17}, hasGate, true);
        Halves halves = roundMatrices(call, dtype);
        tpc_experts(rank.ctx(), &call.args);
        call.check();
        std::vector<float> whole = call.out;
        readHalves(call, halves, dtype);
        tpc_experts(rank.ctx(), &call.args);
        EXPECT_EQ(call.out, whole);
      }
}

/// Tokens beyond a chunk of rows have the same results.
TEST(Experts, ManyTokensAreChunked) {
  OneRank rank(2);
  Call call({2500, 3, 2, 0, 2, 4, 3}, true, false);
  for (size_t i = 0; i < call.routing.size(); i += 2)
    call.routing[i] = 1; // expert 0 has all tokens
  tpc_experts(rank.ctx(), &call.args);
  call.check();
}

/// Experts that no token selects, and rows that do not select an expert, are not computed.
TEST(Experts, OthersAreNotComputed) {
  OneRank rank(1);
  Call call({4, 6, 3, 0, 3, 8, 5}, true, true);
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t e = 0; e < 3; ++e)
      call.routing[t * 3 + e] = e == t % 2 ? 0.5f : 0;
  tpc_experts(rank.ctx(), &call.args);
  std::vector<float> first = call.out;
  std::fill(call.up.begin() + 2 * 8 * 6, call.up.end(), std::numeric_limits<float>::infinity());
  std::fill_n(call.x.begin() + 6, 6, std::numeric_limits<float>::quiet_NaN()); // token 1
  tpc_experts(rank.ctx(), &call.args);
  for (int64_t t : {0, 2, 3})
    for (int64_t o = 0; o < 5; ++o)
      EXPECT_EQ(call.out[t * 5 + o], first[t * 5 + o]);
  EXPECT_TRUE(std::isnan(call.out[5]));
}

TEST(Experts, WrongExpertsAreErrors) {
  OneRank rank(1);
  Call call({2, 3, 4, 3, 2, 3, 3}, false, false);
  auto error = rank.world->run([&](tpc_context &ctx) { tpc_experts(&ctx, &call.args); });
  EXPECT_EQ(error.value_or(""), "internal error: experts 3 to 5 of 4");
}

TEST(Experts, OtherTypesOfMatricesAreErrors) {
  for (auto [dtype, name] : {std::pair(TPC_F64, "f64"), {TPC_I8, "i8"}, {TPC_I64, "i64"}}) {
    OneRank rank(1);
    Call call({2, 3, 4, 1, 2, 3, 3}, false, false);
    call.args.dtype = dtype;
    auto error = rank.world->run([&](tpc_context &ctx) { tpc_experts(&ctx, &call.args); });
    EXPECT_EQ(error.value_or(""), std::string("internal error: matrices of experts of ") + name);
  }
}

} // namespace
