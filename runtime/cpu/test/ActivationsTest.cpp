//===- ActivationsTest.cpp - GELU and other activations against libm ------===//

#include "Tables.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace tpc::rt;

namespace {

double exact(double x, int32_t epilogue) {
  switch (epilogue) {
  case TPC_EPILOGUE_GELU_ERF:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case TPC_EPILOGUE_GELU_TANH:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case TPC_EPILOGUE_SILU:
    return x / (1 + std::exp(-x));
  case TPC_EPILOGUE_RELU:
    return x < 0 ? 0 : x;
  }
  return x;
}

TEST(Activations, AreWithinAMillionth) {
  for (const KernelTable *table : allTables())
    for (int32_t epilogue = TPC_EPILOGUE_NONE; epilogue <= TPC_EPILOGUE_RELU; ++epilogue) {
      std::vector<float> x;
      for (double v = -30; v <= 30; v += 0.00037)
        x.push_back(static_cast<float>(v));
      for (float v : {-1e30f, -200.f, -90.f, -88.f, 88.f, 90.f, 200.f, 1e30f, 1e-30f, -1e-30f, 0.f})
        x.push_back(v);
      std::vector<float> out(x.size());
      table->activate(x.data(), out.data(), static_cast<int64_t>(x.size()), epilogue);
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        double expected = exact(x[i], epilogue), allowed = 1e-6 * std::fmax(1, std::fabs(expected));
        ASSERT_NEAR(out[i], expected, allowed) << table->name << " " << epilogue << " at " << x[i];
        worst = std::fmax(worst, std::fabs(out[i] - expected) / std::fmax(1, std::fabs(expected)));
      }
      RecordProperty(std::string(table->name) + std::to_string(epilogue), std::to_string(worst));
    }
}

TEST(Activations, KeepNaN) {
  for (const KernelTable *table : allTables())
    for (int32_t epilogue = TPC_EPILOGUE_NONE; epilogue <= TPC_EPILOGUE_RELU; ++epilogue) {
      float x = std::numeric_limits<float>::quiet_NaN(), out = 0;
      table->activate(&x, &out, 1, epilogue);
      EXPECT_TRUE(std::isnan(out)) << table->name << " " << epilogue;
    }
}

// Results must also be bit-identical to kernels (test_rounding.py).
TEST(Activations, KnowSpecialValues) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const KernelTable *table : allTables())
    for (int32_t epilogue = TPC_EPILOGUE_NONE; epilogue <= TPC_EPILOGUE_RELU; ++epilogue)
      for (float x : {0.f, -0.f, inf, -inf, 1e-40f, -1e-40f, 1000.f, -1000.f, 1e30f, -1e30f}) {
        float expected = static_cast<float>(exact(x, epilogue)), out = 7;
        table->activate(&x, &out, 1, epilogue);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(out)) << table->name << " " << epilogue << " at " << x;
          continue;
        }
        EXPECT_EQ(out, expected) << table->name << " " << epilogue << " at " << x;
        EXPECT_EQ(std::signbit(out), std::signbit(expected))
            << table->name << " " << epilogue << " at " << x;
      }
}

// Multiplications and additions are fused on all CPUs, including those without FMA.
TEST(Activations, HaveTheSameBitsOnAllProcessors) {
  std::vector<float> x = {0, 1e-20f, 1e-45f, 3e38f, INFINITY, 86.98f, 87, 88.72283f, 88.72284f};
  for (float range : {1e-3f, 1.f, 10.f, 100.f})
    for (float v : numbers(20000, 7))
      x.push_back(range * v);
  for (size_t i = 0, n = x.size(); i < n; ++i)
    x.push_back(-x[i]);
  auto count = static_cast<int64_t>(x.size());
  for (int32_t epilogue = TPC_EPILOGUE_NONE; epilogue <= TPC_EPILOGUE_RELU; ++epilogue) {
    std::vector<float> first;
    for (const KernelTable *table : allTables()) {
      std::vector<float> out(x.size());
      table->activate(x.data(), out.data(), count, epilogue);
      if (first.empty())
        first = out;
      for (size_t i = 0; i < x.size(); ++i)
        if (!std::isnan(out[i]))
          ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(first[i]))
              << table->name << " " << epilogue << " at " << x[i];
        else
          ASSERT_TRUE(std::isnan(first[i])) << table->name << " " << epilogue << " at " << x[i];
    }
  }
}

TEST(Activations, DoNotWriteBeyondTheEnd) {
  for (const KernelTable *table : allTables())
    for (int64_t count = 0; count < 40; ++count) {
      std::vector<float> x = numbers(count), out(count + 1, 7);
      table->activate(x.data(), out.data(), count, TPC_EPILOGUE_SILU);
      EXPECT_EQ(out[count], 7);
    }
}

} // namespace
