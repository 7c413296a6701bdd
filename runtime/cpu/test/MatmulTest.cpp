//===- MatmulTest.cpp - Matmuls against sums in double --------------------===//

#include "Tables.h"
#include "core/Half.h"
#include "core/Step.h"
#include "core/World.h"
#include "cpu/CpuDevice.h"
#include <cmath>
#include <gtest/gtest.h>
#include <regex>

using namespace tpc::rt;

namespace {

/// Converts row-major to panels.
std::vector<float> packed(const KernelTable &table, const std::vector<float> &w, int64_t k,
                          int64_t n) {
  int64_t width = table.panelWidth, panels = (n + width - 1) / width;
  std::vector<float> result(panels * width * k, 0.0f);
  for (int64_t row = 0; row < k; ++row)
    for (int64_t column = 0; column < n; ++column)
      result[column / width * width * k + row * width + column % width] = w[row * n + column];
  return result;
}

double expectedAt(const std::vector<float> &x, const std::vector<float> &w, const float *bias,
                  const float *residual, int64_t row, int64_t column, int64_t k, int64_t n) {
  double sum = bias ? bias[column] : 0;
  for (int64_t i = 0; i < k; ++i)
    sum += static_cast<double>(x[row * k + i]) * w[i * n + column];
  return sum + (residual ? residual[row * n + column] : 0);
}

TEST(Gemm, AgreesForAllRemainders) {
  for (const KernelTable *table : allTables())
    for (int64_t m : {1, 2, 3, 5, 6, 7, 12, 13, 25, 144})
      for (int64_t k : {0, 1, 7, 64, 769, 1600})
        for (int64_t n : {1, 7, 8, 15, 16, 17, 33, 64}) {
          if (m == 144 && k > 64)
            continue;
          std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                             residual = numbers(m * n, 4);
          std::vector<float> panels = packed(*table, w, k, n), out = residual;
          // out aliases residual, as in a transformer's layers.
          GemmJob job{x.data(), k, panels.data(),    bias.data(), out.data(), out.data(), n, m,
                      k,        n, TPC_EPILOGUE_NONE};
          table->gemm(
              job, 0, m, 0,
              std::min<int64_t>(maxGemmPanels, (n + table->panelWidth - 1) / table->panelWidth));
          int64_t computed = std::min<int64_t>(n, maxGemmPanels * table->panelWidth);
          for (int64_t row = 0; row < m; ++row)
            for (int64_t column = 0; column < computed; ++column)
              ASSERT_NEAR(out[row * n + column],
                          expectedAt(x, w, bias.data(), residual.data(), row, column, k, n),
                          2e-6 * (std::sqrt(k) + 2))
                  << table->name << " m " << m << " k " << k << " n " << n << " at " << row << ", "
                  << column;
        }
}

/// Random 16-bit numbers of many magnitudes, and the floats that they equal.
struct HalfNumbers {
  HalfNumbers(int64_t count, int32_t dtype, uint32_t seed) {
    for (float x : numbers(count, seed)) {
      // Magnitudes from below the smallest normal f16 to 1, and sometimes -0.
      auto bits = static_cast<uint32_t>((x + 1) * (1 << 23));
      float scaled = bits % 97 == 0 ? -0.0f : std::ldexp(x, -static_cast<int>(bits % 24));
      values.push_back(dtype == TPC_F16 ? floatToHalf(scaled) : floatToBfloat(scaled));
      floats.push_back(dtype == TPC_F16 ? halfToFloat(values.back())
                                        : bfloatToFloat(values.back()));
    }
  }
  std::vector<uint16_t> values;
  std::vector<float> floats;
};

TEST(Gemm, SixteenBitWeightsHaveTheBitsOfTheirFloats) {
  for (const KernelTable *table : allTables())
    for (int32_t dtype : {TPC_F16, TPC_BF16})
      for (int64_t m : {1, 2, 3, 6, 7, 13, 30})
        for (int64_t k : {0, 1, 7, 69, 1601})
          for (int64_t n : {1, 8, 17, 33, 128}) {
            int64_t panels =
                std::min<int64_t>(maxGemmPanels, (n + table->panelWidth - 1) / table->panelWidth);
            HalfNumbers w(panels * table->panelWidth * k, dtype, 2);
            std::vector<float> x = numbers(m * k, 1), bias = numbers(n, 3), first(m * n),
                               second(m * n);
            GemmJob job{x.data(), k, w.floats.data(),  bias.data(), nullptr, first.data(), n, m,
                        k,        n, TPC_EPILOGUE_NONE};
            table->gemm(job, 0, m, 0, panels);
            job.packed = w.values.data();
            job.weights = dtype;
            job.out = second.data();
            table->gemm(job, 0, m, 0, panels);
            ASSERT_EQ(first, second)
                << table->name << " m " << m << " k " << k << " n " << n << " type " << dtype;
          }
}

TEST(Gemm, TransposedSixteenBitTablesHaveTheBitsOfTheirFloats) {
  for (const KernelTable *table : allTables())
    for (int32_t dtype : {TPC_F16, TPC_BF16})
      for (int64_t m : {1, 2, 3, 4, 7})
        for (auto [k, n] : {std::array<int64_t, 2>{70, 131}, {37, 250}, {8, 5}, {3, 64}, {33, 1}}) {
          HalfNumbers w(n * k, dtype, 5);
          std::vector<float> x = numbers(m * k, 1), first(m * n), second(m * n);
          GemmJob job{x.data(), k, nullptr, nullptr, nullptr,          first.data(),
                      n,        m, k,       n,       TPC_EPILOGUE_NONE};
          table->gemmTransposed(job, w.floats.data(), 0, n);
          job.weights = dtype;
          job.out = second.data();
          table->gemmTransposed(job, w.values.data(), 0, n);
          ASSERT_EQ(first, second) << table->name << " m " << m << " k " << k << " n " << n;
          std::vector<float> panel(table->panelWidth * k), same(panel.size());
          for (int64_t column = 0; column < n; column += table->panelWidth) {
            table->packTransposed(w.floats.data(), TPC_F32, k, n, column, panel.data());
            table->packTransposed(w.values.data(), dtype, k, n, column, same.data());
            ASSERT_EQ(panel, same) << table->name << " k " << k << " n " << n << " at " << column;
          }
        }
}

// Each pattern is the only element of its row of w, so that a result is the number itself.
TEST(Gemm, ConvertsEveryPattern) {
  for (const KernelTable *table : allTables())
    for (int32_t dtype : {TPC_F16, TPC_BF16})
      for (int first = 0; first < 0x10000; first += table->panelWidth) {
        std::vector<uint16_t> w(table->panelWidth);
        std::vector<float> out(w.size());
        for (size_t i = 0; i < w.size(); ++i)
          w[i] = static_cast<uint16_t>(first + i);
        float one = 1;
        GemmJob job{
            &one, 1, w.data(),          nullptr,           nullptr, out.data(), table->panelWidth,
            1,    1, table->panelWidth, TPC_EPILOGUE_NONE, dtype};
        table->gemm(job, 0, 1, 0, 1);
        for (size_t i = 0; i < w.size(); ++i) {
          float expected = dtype == TPC_F16 ? halfToFloat(w[i]) : bfloatToFloat(w[i]);
          if (std::isnan(expected))
            ASSERT_TRUE(std::isnan(out[i])) << table->name << " " << w[i];
          else
            ASSERT_EQ(out[i], expected) << table->name << " " << w[i];
        }
      }
}

/// One rank with `threads` threads, and a parameter of [k, n].
struct OneRank {
  std::unique_ptr<World> world;
  OneRank(int threads) : world(World::threads(Grid({{"tp", 1}}), threads)) {}
  tpc_context *ctx() { return &world->local(0); }
  void setParameter(const std::vector<float> &w, int64_t k, int64_t n) {
    auto matrix = std::make_shared<PackedMatrix>(k, n);
    // Sets rows in uneven chunks, as a loader may do.
    for (int64_t row = 0, step = 1; row < k; row += step, step = step % 5 + 1)
      matrix->setRows(row, std::min(k, row + step), w.data() + row * n);
    ctx()->data.matrices = {std::move(matrix), nullptr};
  }
};

/// Runs one matmul.
void multiply(tpc_context *ctx, int32_t parameter, const float *x, const float *bias,
              const float *residual, float *out, int64_t m, int64_t k, int64_t n,
              int32_t epilogue) {
  tpc_product product = {n, n, bias, residual, out, parameter, epilogue, TPC_F32, TPC_F32};
  tpc_products(ctx, x, m, k, &product, 1);
}

TEST(Matmul, BiasEpilogueAndResidual) {
  OneRank rank(2);
  int64_t m = 37, k = 70, n = 131;
  std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                     residual = numbers(m * n, 4);
  rank.setParameter(w, k, n);
  for (int32_t epilogue = TPC_EPILOGUE_NONE; epilogue <= TPC_EPILOGUE_RELU; ++epilogue) {
    std::vector<float> out(m * n);
    multiply(rank.ctx(), 0, x.data(), bias.data(), residual.data(), out.data(), m, k, n, epilogue);
    for (int64_t i = 0; i < m * n; ++i) {
      float product =
                static_cast<float>(expectedAt(x, w, bias.data(), nullptr, i / n, i % n, k, n)),
            activated = 0;
      kernels().activate(&product, &activated, 1, epilogue);
      ASSERT_NEAR(out[i], activated + residual[i], 2e-5) << epilogue << " at " << i;
    }
  }
}

// For a tied head, few rows are multiplied by the table in place, and many rows by packed panels of
// the table. The bits must be the same, also for a row in a batch of another size.
TEST(Matmul, TransposedIsBitIdentical) {
  for (auto [k, n] : {std::array<int64_t, 2>{70, 131},
                      {37, 250},
                      {8, 5},
                      {900, 40},
                      {3, 64},
                      {0, 20},
                      {20, 0},
                      {16, 1}})
    for (int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 150}) {
      std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                         transposed(n * k);
      for (int64_t i = 0; i < k * n; ++i)
        transposed[i % n * k + i / n] = w[i];
      OneRank rank(2);
      rank.setParameter(w, k, n);
      rank.ctx()->data.matrices[1] =
          rank.ctx()->device->transposeOf(transposed.data(), k, n, TPC_F32);
      std::vector<float> first = numbers(m * n, 4), second = first, third = first;
      auto multiplyRows = [&](int32_t parameter, std::vector<float> &out, int64_t row,
                              int64_t rows) {
        float *to = out.data() + row * n;
        multiply(rank.ctx(), parameter, x.data() + row * k, bias.data(), to, to, rows, k, n,
                 TPC_EPILOGUE_SILU);
      };
      multiplyRows(0, first, 0, m);
      multiplyRows(1, second, 0, m);
      EXPECT_EQ(first, second) << m << " " << k << " " << n;
      for (int64_t row = 0; row < m; ++row)
        multiplyRows(1, third, row, 1);
      EXPECT_EQ(first, third) << m << " " << k << " " << n;
    }
}

TEST(Gemm, TransposedAgreesOnEveryInstructionSet) {
  for (const KernelTable *table : allTables())
    for (int64_t m : {1, 2, 3, 4, 7})
      for (int64_t k : {0, 1, 15, 48, 801})
        for (int64_t n : {1, 5, 16, 31, 64}) {
          std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                             residual = numbers(m * n, 4), rows(n * k);
          for (int64_t i = 0; i < k * n; ++i)
            rows[i % n * k + i / n] = w[i];
          std::vector<float> panels = packed(*table, w, k, n), first = residual, second = residual;
          GemmJob job{
              x.data(), k, panels.data(),         bias.data(), first.data(), first.data(), n, m,
              k,        n, TPC_EPILOGUE_GELU_TANH};
          int64_t width = table->panelWidth, count = (n + width - 1) / width;
          for (int64_t panel = 0; panel < count; panel += maxGemmPanels)
            table->gemm(job, 0, m, panel, std::min(count, panel + maxGemmPanels));
          job.packed = nullptr;
          job.residual = job.out = second.data();
          for (int64_t column = 0; column < n; column += 2 * width)
            table->gemmTransposed(job, rows.data(), column, std::min(n, column + 2 * width));
          ASSERT_EQ(first, second) << table->name << " m " << m << " k " << k << " n " << n;
        }
}

TEST(Gemm, PacksTransposes) {
  for (const KernelTable *table : allTables())
    for (int64_t k : {1, 7, 16, 45})
      for (int64_t n : {1, 9, 32, 50}) {
        std::vector<float> rows = numbers(k * n), panel(k * table->panelWidth);
        for (int64_t column = 0; column < n; column += table->panelWidth) {
          table->packTransposed(rows.data(), TPC_F32, k, n, column, panel.data());
          for (int64_t i = 0; i < k * table->panelWidth; ++i) {
            int64_t at = column + i % table->panelWidth;
            ASSERT_EQ(panel[i], at < n ? rows[at * k + i / table->panelWidth] : 0.0f)
                << table->name;
          }
        }
      }
}

TEST(Matmul, EmptySizes) {
  OneRank rank(2);
  std::vector<float> bias = numbers(5, 3), residual = numbers(15, 4), out(15, 9.0f);
  rank.setParameter({}, 0, 5);
  multiply(rank.ctx(), 0, nullptr, bias.data(), residual.data(), out.data(), 3, 0, 5,
           TPC_EPILOGUE_NONE);
  for (int i = 0; i < 15; ++i)
    EXPECT_FLOAT_EQ(out[i], bias[i % 5] + residual[i]);
  multiply(rank.ctx(), 0, nullptr, nullptr, nullptr, out.data(), 3, 0, 5, TPC_EPILOGUE_NONE);
  EXPECT_EQ(out, std::vector<float>(15, 0.0f));
  std::vector<float> untouched(4, 9.0f);
  multiply(rank.ctx(), 0, nullptr, nullptr, nullptr, untouched.data(), 0, 0, 5, TPC_EPILOGUE_NONE);
  rank.setParameter({}, 4, 0);
  multiply(rank.ctx(), 0, untouched.data(), nullptr, nullptr, nullptr, 1, 4, 0, TPC_EPILOGUE_NONE);
  EXPECT_EQ(untouched, std::vector<float>(4, 9.0f));
}

TEST(Matmul, SameBitsForEveryBatchAndNumberOfThreads) {
  int64_t m = 150, k = 900, n = 250;
  std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), first(m * n);
  for (int threads : {1, 2, 5}) {
    OneRank rank(threads);
    rank.setParameter(w, k, n);
    std::vector<float> out(m * n), row(n);
    multiply(rank.ctx(), 0, x.data(), nullptr, nullptr, out.data(), m, k, n,
             TPC_EPILOGUE_GELU_TANH);
    if (threads == 1)
      first = out;
    EXPECT_EQ(out, first) << threads << " threads";
    multiply(rank.ctx(), 0, x.data() + 77 * k, nullptr, nullptr, row.data(), 1, k, n,
             TPC_EPILOGUE_GELU_TANH);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), first.begin() + 77 * n)) << "one row of " << m;
  }
}

// Each matmul has the same bits as alone, whatever panels of other matmuls share its tasks.
TEST(Matmul, ManyAtOnceAreBitIdentical) {
  int64_t k = 70;
  std::vector<int64_t> columns{131, 1, 0, 64, 33};
  for (int threads : {1, 3})
    for (int64_t m : {1, 5, 40, 150}) {
      OneRank rank(threads);
      std::vector<float> x = numbers(m * k, 1), bias = numbers(131, 2);
      std::vector<std::vector<float>> alone, together;
      std::vector<std::shared_ptr<Matrix>> matrices;
      std::vector<tpc_product> products;
      std::vector<float> transposed = numbers(k * 64, 9);
      for (size_t i = 0; i < columns.size(); ++i) {
        int64_t n = columns[i];
        if (n == 64) {
          matrices.push_back(rank.ctx()->device->transposeOf(transposed.data(), k, n, TPC_F32));
        } else {
          rank.setParameter(numbers(k * n, 3 + static_cast<int>(i)), k, n);
          matrices.push_back(rank.ctx()->data.matrices[0]);
        }
        alone.push_back(numbers(m * n, 4));
      }
      together = alone;
      rank.ctx()->data.matrices = matrices;
      for (size_t i = 0; i < columns.size(); ++i) {
        auto index = static_cast<int32_t>(i), epilogue = index % (TPC_EPILOGUE_RELU + 1);
        float *out = together[i].data();
        products.push_back({columns[i], columns[i], i % 2 ? bias.data() : nullptr,
                            i % 3 ? out : nullptr, out, index, epilogue, TPC_F32, TPC_F32});
        tpc_product one = products.back();
        one.out = alone[i].data();
        one.residual = one.residual ? one.out : nullptr;
        tpc_products(rank.ctx(), x.data(), m, k, &one, 1);
      }
      tpc_products(rank.ctx(), x.data(), m, k, products.data(),
                   static_cast<int32_t>(products.size()));
      EXPECT_EQ(alone, together) << m << " rows, " << threads << " threads";
    }
}

TEST(Matmul, WrongShapesAreErrors) {
  OneRank rank(1);
  rank.setParameter(numbers(12), 3, 4);
  std::vector<float> x(16), out(16);
  auto error = rank.world->run([&](tpc_context &ctx) {
    multiply(&ctx, 0, x.data(), nullptr, nullptr, out.data(), 1, 4, 4, TPC_EPILOGUE_NONE);
  });
  EXPECT_EQ(error.value_or(""),
            "internal error: parameter 0 is [3, 4], but a matmul expects [4, 4]");
}

TEST(BatchMatmul, AgreesAndBroadcasts) {
  OneRank rank(2);
  for (auto [batch, m, k, n] : {std::array<int64_t, 4>{3, 5, 7, 33},
                                {1, 150, 20, 16},
                                {1, 147, 3100, 70},
                                {2, 3, 40, 200},
                                {2, 1, 0, 4},
                                {0, 3, 3, 3},
                                {2, 0, 3, 3}}) {
    std::vector<float> a = numbers(batch * m * k, 1), b = numbers(batch * k * n, 2),
                       out(batch * m * n, 9.0f);
    for (bool broadcast : {false, true}) {
      int64_t aStride = broadcast ? 0 : m * k;
      tpc_batch_matmul(rank.ctx(), TPC_F32, a.data(), b.data(), out.data(), batch, m, k, n, aStride,
                       k * n);
      for (int64_t i = 0; i < batch * m * n; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j)
          sum += static_cast<double>(a[i / (m * n) * aStride + i / n % m * k + j]) *
                 b[i / (m * n) * k * n + j * n + i % n];
        ASSERT_NEAR(out[i], sum, 4e-6 * (10 + std::sqrt(k)));
      }
    }
  }
}

/// A program of one kernel.
tpc_program programOf(const tpc_kernel &kernel) {
  tpc_program program = {};
  program.num_kernels = 1;
  program.kernels = &kernel;
  return program;
}

TEST(Launch, CoversEachRowOnce) {
  for (int threads : {1, 3})
    for (int64_t rows : {0, 1, 2, 10, 1000})
      for (int64_t grain : {0, 1, 4, 300}) {
        OneRank rank(threads);
        std::vector<int32_t> seen(rows, 0);
        int64_t smallest = rows;
        void *operands[] = {seen.data(), &smallest};
        tpc_kernel kernel = {"count", [](const int64_t *, tpc_status *, void *const *operands,
                                         int64_t lo, int64_t hi) {
                               for (int64_t i = lo; i < hi; ++i)
                                 ++static_cast<int32_t *>(operands[0])[i];
                               auto *smallest = static_cast<int64_t *>(operands[1]);
                               int64_t known = __atomic_load_n(smallest, __ATOMIC_RELAXED);
                               while (hi - lo < known && !__atomic_compare_exchange_n(
                                                             smallest, &known, hi - lo, false,
                                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                               }
                             }};
        tpc_program program = programOf(kernel);
        rank.ctx()->code = &program;
        rank.ctx()->device->load(program);
        tpc_launch(rank.ctx(), 0, operands, 2, rows, grain);
        EXPECT_EQ(seen, std::vector<int32_t>(rows, 1));
        EXPECT_GE(smallest, std::min(rows, grain)) << rows << " rows";
      }
}

TEST(Launch, FailsAtTheEndOfAStepWithAMissingIndex) {
  for (int threads : {1, 3}) {
    OneRank rank(threads);
    static std::vector<int32_t> seen;
    seen.assign(1000, 0);
    tpc_kernel kernel = {
        "look up", [](const int64_t *, tpc_status *status, void *const *, int64_t lo, int64_t hi) {
          for (int64_t i = lo; i < hi; ++i) {
            ++seen[i];
            if (i % 2 && !__atomic_exchange_n(&status->missing, 1, __ATOMIC_RELAXED)) {
              status->node = 1;
              status->index = i - 2000;
              status->size = 7;
            }
          }
        }};
    const char *nodes[] = {"/other", "/gather"};
    tpc_stage_fn stage = [](tpc_context *ctx, const int64_t *) {
      tpc_launch(ctx, 0, nullptr, 0, 1000, 1);
    };
    tpc_program program = programOf(kernel);
    program.num_nodes = 2;
    program.nodes = nodes;
    program.stages = &stage;
    auto error = rank.world->run([&](tpc_context &ctx) { runStage(ctx, program, 0, {}); });
    ASSERT_TRUE(error);
    // One error is reported for all of the kernel's rows, and its threads end as usual.
    EXPECT_TRUE(std::regex_match(
        *error,
        std::regex("(rank 0: )?node '/gather' looks up index -1[0-9]+ of 7; valid are -7 to 6")))
        << *error;
    EXPECT_EQ(seen, std::vector<int32_t>(1000, 1));
  }
}

} // namespace
