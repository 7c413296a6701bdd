//===- DeviceMatmulTest.cpp - Device tests of GEMMs -----------------------===//

#include "DeviceTest.h"
#include "core/DType.h"
#include "core/Half.h"
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <utility>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

static std::vector<uint16_t> encode(const std::vector<float> &values, int32_t dtype) {
  std::vector<uint16_t> bits;
  for (float value : values)
    bits.push_back(dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value));
  return bits;
}

static float decode(uint16_t bits, int32_t dtype) {
  return dtype == TPC_F16 ? halfToFloat(bits) : bfloatToFloat(bits);
}

static float *upload(DeviceTest &test, const std::vector<float> &values, int32_t dtype) {
  return dtype == TPC_F32 ? test.tensor(values)
                          : reinterpret_cast<float *>(test.tensor(encode(values, dtype)));
}

/// Makes a k x n matrix, from its rows or as the transpose of a tensor.
static std::shared_ptr<Matrix> matrixOf(DeviceTest &test, const std::vector<float> &values,
                                        int64_t k, int64_t n, bool transposed, int32_t dtype) {
  std::vector<float> columns(values.size());
  for (int64_t i = 0; i < k * n; ++i)
    columns[i % n * k + i / n] = values[i];
  if (transposed)
    return test.device->transposeOf(upload(test, columns, dtype), k, n, dtype);
  std::shared_ptr<Matrix> matrix = test.device->makeMatrix(k, n, dtype);
  std::vector<uint16_t> bits = encode(values, dtype);
  test.device->setRows(*matrix, 0, k,
                       dtype == TPC_F32 ? static_cast<const void *>(values.data()) : bits.data());
  return matrix;
}

TEST_P(DeviceTest, ProductsAreSums) {
  for (auto [m, k, n] :
       {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 40}, {20, 0, 9}, {13, 64, 100}, {150, 70, 400}})
    for (bool transposed : {false, true})
      for (bool addends : {false, true}) {
        int32_t epilogue =
            addends && GetParam().hasActivations ? TPC_EPILOGUE_RELU : TPC_EPILOGUE_NONE;
        std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                           residual = numbers(m * n, 4);
        std::shared_ptr<Matrix> matrix;
        if (transposed) {
          std::vector<float> rows(w.size());
          for (int64_t i = 0; i < k * n; ++i)
            rows[i % n * k + i / n] = w[i];
          matrix = device->transposeOf(tensor(rows), k, n, TPC_F32);
        } else {
          matrix = device->makeMatrix(k, n);
          for (int64_t row = 0; row < k; row += 3)
            device->setRows(*matrix, row, std::min(k, row + 3), w.data() + row * n);
        }
        // The result overwrites the residual.
        float *out = tensor(residual), *biasData = tensor(bias), *xData = tensor(x);
        device->beginStep({0, 0});
        Product product = {matrix.get(), addends ? biasData : nullptr, addends ? out : nullptr, out,
                           epilogue};
        device->multiply({xData, m, k, {&product, 1}});
        device->endStep();
        std::vector<float> result = valuesOf(out, residual.size());
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = addends ? bias[j] : 0;
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<double>(x[i * k + l]) * w[l * n + j];
            if (epilogue == TPC_EPILOGUE_RELU)
              sum = std::max(sum, 0.0);
            if (addends)
              sum += residual[i * n + j];
            EXPECT_NEAR(result[i * n + j], sum, 1e-4) << m << " " << k << " " << n;
          }
      }
}

TEST_P(DeviceTest, ProductsOfHalvesAreRoundedOnce) {
  for (int32_t dtype : {TPC_F16, TPC_BF16}) {
    if (!device->computes(dtype))
      continue; // programs for the device do not use these types
    for (auto [m, k, n] : {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 41}, {3, 0, 9}, {20, 64, 100}})
      for (bool transposed : {false, true})
        for (int addends : {0, 1, 2}) { // adds a bias, then a residual
          std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                             residual = numbers(m * n, 4);
          std::shared_ptr<Matrix> matrix = matrixOf(*this, w, k, n, transposed, dtype);
          auto asFloats = [](uint16_t *data) { return reinterpret_cast<float *>(data); };
          float *out = asFloats(tensor(encode(residual, dtype))),
                *xData = asFloats(tensor(encode(x, dtype)));
          Product product = {matrix.get(),
                             addends ? asFloats(tensor(encode(bias, dtype))) : nullptr,
                             addends > 1 ? out : nullptr,
                             out,
                             TPC_EPILOGUE_NONE,
                             dtype};
          device->beginStep({0, 0});
          device->multiply({xData, m, k, {&product, 1}, dtype});
          device->endStep();
          auto result = valuesOf(reinterpret_cast<uint16_t *>(out), residual.size());
          for (int64_t i = 0; i < m * n; ++i) {
            double sum = (addends ? bias[i % n] : 0) + (addends > 1 ? residual[i] : 0);
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<double>(x[i / n * k + l]) * w[l * n + i % n];
            // Half a unit in the last place; one unit if the bias is not added in the epilogue.
            double unit = std::abs(sum) * (dtype == TPC_F16 ? 0x1p-10 : 0x1p-7) + 0x1p-20;
            EXPECT_NEAR(decode(result[static_cast<size_t>(i)], dtype), sum,
                        unit * (addends > 1 ? 2.01 : 0.51))
                << m << " " << k << " " << n << " " << spellType(dtype) << " " << addends;
          }
        }
  }
}

/// Weights of matmuls in f32 may be stored in 16 bits. CPUs also read the transpose of a 16-bit
/// table.
TEST_P(DeviceTest, ProductsInF32Read16BitWeights) {
  for (int32_t dtype : {TPC_F16, TPC_BF16})
    for (bool transposed : {false, true}) {
      bool isStored = deviceKind().storedType(TPC_F32, dtype) == dtype;
      if (!isStored && !(transposed && std::string(deviceKind().name()) == "cpu"))
        continue; // weights are converted when they are loaded
      for (auto [m, k, n] :
           {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 41}, {3, 0, 9}, {20, 64, 100}, {1, 70, 400}}) {
        std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3);
        std::vector<uint16_t> bits = encode(w, dtype);
        std::shared_ptr<Matrix> matrix = matrixOf(*this, w, k, n, transposed, dtype);
        ASSERT_EQ(matrix->dtype, TPC_F32);
        float *out = tensor(std::vector<float>(m * n)), *biasData = tensor(bias),
              *xData = tensor(x);
        device->beginStep({0, 0});
        Product product = {matrix.get(), biasData, nullptr, out, TPC_EPILOGUE_NONE};
        device->multiply({xData, m, k, {&product, 1}});
        device->endStep();
        std::vector<float> result = valuesOf(out, m * n);
        for (int64_t i = 0; i < m * n; ++i) {
          double sum = bias[i % n];
          for (int64_t l = 0; l < k; ++l)
            sum += static_cast<double>(x[i / n * k + l]) * decode(bits[l * n + i % n], dtype);
          EXPECT_NEAR(result[i], sum, 1e-5) << m << " " << k << " " << n << " " << transposed;
        }
      }
    }
}

/// Neither partial sums nor addends may be rounded to 16 bits.
TEST_P(DeviceTest, ProductsOfHalvesHaveF32Results) {
  for (int32_t dtype : {TPC_F16, TPC_BF16}) {
    if (!device->computes(dtype))
      continue; // programs for the device do not use these types
    // Numbers that 16-bit floats represent exactly.
    auto exact = [](std::vector<float> values) {
      for (float &value : values)
        value = std::round(value * 8) / 8;
      return values;
    };
    for (auto [m, k, n] : {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 41}, {3, 0, 9}, {20, 64, 100}})
      for (bool transposed : {false, true})
        for (int addends : {0, 1, 2, 3}) { // none, bias, residual, both
          std::vector<float> x = exact(numbers(m * k, 1)), w = exact(numbers(k * n, 2)),
                             bias = numbers(n, 3), residual = numbers(m * n, 4);
          std::shared_ptr<Matrix> matrix = matrixOf(*this, w, k, n, transposed, dtype);
          float *out = tensor(residual);
          auto *xData = reinterpret_cast<float *>(tensor(encode(x, dtype)));
          Product product = {matrix.get(),
                             addends & 1 ? tensor(bias) : nullptr,
                             addends & 2 ? out : nullptr,
                             out,
                             TPC_EPILOGUE_NONE,
                             TPC_F32};
          device->beginStep({0, 0});
          device->multiply({xData, m, k, {&product, 1}, dtype});
          device->endStep();
          std::vector<float> result = valuesOf(out, residual.size());
          for (int64_t i = 0; i < m * n; ++i) {
            double sum = (addends & 1 ? bias[i % n] : 0) + (addends & 2 ? residual[i] : 0);
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<double>(x[i / n * k + l]) * w[l * n + i % n];
            EXPECT_NEAR(result[i], sum, 1e-5 * (1 + std::abs(sum)))
                << m << " " << k << " " << n << " " << spellType(dtype) << " " << addends;
          }
        }
  }
}

TEST_P(DeviceTest, ProductsWithASharedLeftSide) {
  int64_t m = 7, k = 5;
  std::vector<float> x = numbers(m * k, 1);
  float *xData = tensor(x);
  std::vector<std::shared_ptr<Matrix>> matrices;
  std::vector<std::vector<float>> weights;
  std::vector<Product> products;
  std::vector<int64_t> widths{3, 40, 0, 17};
  matrices = device->makeMatrices(k, widths, TPC_F32);
  for (size_t i = 0; i < widths.size(); ++i) {
    int64_t n = widths[i];
    weights.push_back(numbers(k * n, static_cast<int>(n)));
    device->setRows(*matrices[i], 0, k, weights.back().data());
    if (n == 0) // no GEMM is empty
      continue;
    products.push_back(
        {matrices[i].get(), nullptr, nullptr, tensor(numbers(m * n, 2)),
         n == 17 && GetParam().hasActivations ? TPC_EPILOGUE_RELU : TPC_EPILOGUE_NONE});
  }
  device->beginStep({0, 0});
  device->multiply({xData, m, k, products});
  std::vector<Product> done = products;
  // multiply must have read the list when it returns.
  std::fill(products.begin(), products.end(), Product{});
  device->endStep();
  for (size_t p = 0; p < done.size(); ++p) {
    int64_t n = done[p].matrix->n;
    const std::vector<float> &w = *std::find_if(weights.begin(), weights.end(), [&](auto &w) {
      return static_cast<int64_t>(w.size()) == k * n;
    });
    std::vector<float> result = valuesOf(done[p].out, static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(x[i / n * k + l]) * w[l * n + i % n];
      EXPECT_NEAR(result[i], done[p].epilogue == TPC_EPILOGUE_RELU ? std::max(sum, 0.0) : sum, 1e-4)
          << p;
    }
  }
}

/// Results side by side in the rows of one buffer: one GEMM if parameters, results and biases are
/// adjacent, else several. The elements after them keep their values.
TEST_P(DeviceTest, ProductsSideBySide) {
  if (device->isHost())
    return; // CPUs write dense rows
  enum Layout { Adjacent, BiasesApart, ResultsApart, OneLeftOut };
  const std::vector<int64_t> widths{16, 8, 0, 24};
  const int64_t k = 32, n = 48, stride = n + 8;
  for (auto [dtype, outDtype] :
       {std::pair(TPC_F32, TPC_F32), {TPC_F16, TPC_F16}, {TPC_BF16, TPC_F32}}) {
    if (!device->computes(dtype))
      continue;
    for (int64_t m : {1, 3, 40})
      for (bool hasBias : {false, true})
        for (Layout layout : {Adjacent, BiasesApart, ResultsApart, OneLeftOut}) {
          // Small integers: sums are exact.
          auto integers = [](int64_t count, int64_t seed) {
            std::vector<float> values;
            for (int64_t i = 0; i < count; ++i)
              values.push_back(static_cast<float>((i * i + seed * i) % 5 - 2));
            return values;
          };
          std::vector<std::shared_ptr<Matrix>> matrices = device->makeMatrices(k, widths, dtype);
          std::vector<float> x = integers(m * k, 1), w = integers(k * n, 2),
                             bias = integers(n + 4, 3), before(static_cast<size_t>(m * stride), 7);
          const float *left = upload(*this, x, dtype);
          const auto each = static_cast<int64_t>(sizeOf(outDtype));
          auto *out = reinterpret_cast<std::byte *>(upload(*this, before, outDtype));
          auto *biases = reinterpret_cast<std::byte *>(upload(*this, bias, outDtype));
          std::vector<Product> products;
          std::vector<std::pair<int64_t, int64_t>>
              columns; // column in the buffer, column in the matrix
          int64_t column = 0;
          for (size_t i = 0; i < widths.size(); ++i) {
            std::vector<float> part;
            for (int64_t row = 0; row < k; ++row)
              part.insert(part.end(), w.begin() + row * n + column,
                          w.begin() + row * n + column + widths[i]);
            std::vector<uint16_t> bits = encode(part, dtype);
            device->setRows(*matrices[i], 0, k,
                            dtype == TPC_F32 ? static_cast<const void *>(part.data())
                                             : bits.data());
            bool isLast = i + 1 == widths.size();
            int64_t at = column + (layout == ResultsApart && isLast ? 4 : 0) -
                         (layout == OneLeftOut && i > 1 ? widths[1] : 0);
            int64_t biasAt = column + (layout == BiasesApart && isLast ? 4 : 0);
            if (widths[i] && !(layout == OneLeftOut && i == 1)) {
              products.push_back(
                  {matrices[i].get(),
                   hasBias ? reinterpret_cast<float *>(biases + biasAt * each) : nullptr, nullptr,
                   reinterpret_cast<float *>(out + at * each), TPC_EPILOGUE_NONE, outDtype,
                   stride});
              for (int64_t j = 0; j < widths[i]; ++j)
                columns.push_back({at + j, column + j});
            }
            column += widths[i];
          }
          device->beginStep({0, 0});
          device->multiply({left, m, k, products, dtype});
          device->endStep();
          std::vector<float> result;
          if (outDtype == TPC_F32)
            result = valuesOf(reinterpret_cast<float *>(out), before.size());
          else
            for (uint16_t own : valuesOf(reinterpret_cast<uint16_t *>(out), before.size()))
              result.push_back(decode(own, outDtype));
          std::vector<float> expected = before;
          for (auto [to, from] : columns)
            for (int64_t row = 0; row < m; ++row) {
              int64_t biasAt = from + (layout == BiasesApart && from >= n - 24 ? 4 : 0);
              float sum = hasBias ? bias[static_cast<size_t>(biasAt)] : 0;
              for (int64_t l = 0; l < k; ++l)
                sum += x[static_cast<size_t>(row * k + l)] * w[static_cast<size_t>(l * n + from)];
              expected[static_cast<size_t>(row * stride + to)] = sum;
            }
          EXPECT_EQ(result, expected) << m << " " << hasBias << " " << layout;
          // The shapes that were multiplied; one of all columns if all are adjacent.
          std::string whole =
              " " + std::to_string(m) + " " + std::to_string(k) + " " + std::to_string(n) + " ";
          std::vector<std::string> tunings = device->pendingTunings();
          bool isOne = std::any_of(tunings.begin(), tunings.end(), [&](const std::string &one) {
            return one.find(std::string(spellType(dtype))) != std::string::npos &&
                   one.find(whole) != std::string::npos;
          });
          if (layout == Adjacent && !tunings.empty())
            EXPECT_TRUE(isOne) << whole;
        }
  }
}

TEST_P(DeviceTest, BatchProductsBroadcast) {
  int64_t batch = 3, m = 5, k = 9, n = 17;
  // Small integers: sums are exact in each type.
  auto integers = [](int64_t count, int64_t seed) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>((i * i + seed * i) % 7 - 3));
    return values;
  };
  std::vector<float> a = integers(batch * m * k, 1), b = integers(batch * k * n, 2),
                     before = integers(batch * m * n, 3);
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16}) {
    if (dtype != TPC_F32 && !device->computes(dtype))
      continue; // programs for the device do not use these types
    float *aData = upload(*this, a, dtype), *bData = upload(*this, b, dtype),
          *out = upload(*this, before, dtype);
    auto results = [&] {
      if (dtype == TPC_F32)
        return valuesOf(out, before.size());
      std::vector<float> values;
      for (uint16_t bits : valuesOf(reinterpret_cast<uint16_t *>(out), before.size()))
        values.push_back(decode(bits, dtype));
      return values;
    };
    for (int64_t aStride : {int64_t(0), m * k})
      for (int64_t bStride : {int64_t(0), k * n}) {
        device->beginStep({0, 0});
        device->batchProduct({aData, bData, out, batch, m, k, n, aStride, bStride, dtype});
        device->endStep();
        std::vector<float> found = results();
        for (int64_t i = 0; i < batch * m * n; ++i) {
          int64_t p = i / (m * n), row = i / n % m, column = i % n;
          float sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += a[p * aStride + row * k + l] * b[p * bStride + l * n + column];
          ASSERT_EQ(found[static_cast<size_t>(i)], sum) << spellType(dtype) << " " << i;
        }
      }
  }
}

// More shapes than the capacity of any plan cache, twice.
TEST_P(DeviceTest, ProductsOfManyShapes) {
  constexpr int64_t maximum = 1100, k = 2;
  const std::vector<float> x = numbers(maximum * k, 1), w = numbers(k, 2);
  std::shared_ptr<Matrix> matrix = device->makeMatrix(k, 1);
  device->setRows(*matrix, 0, k, w.data());
  const float *left = tensor(x);
  float *out = tensor(std::vector<float>(maximum));
  for (int time : {0, 1})
    for (int64_t m = 1; m <= maximum; m += time ? 90 : 1) {
      device->beginStep({0, 0});
      Product product = {matrix.get(), nullptr, nullptr, out, TPC_EPILOGUE_NONE};
      device->multiply({left, m, k, {&product, 1}});
      device->endStep();
      auto last = static_cast<size_t>(m - 1);
      EXPECT_NEAR(valuesOf(out, last + 1)[last], x[2 * last] * w[0] + x[2 * last + 1] * w[1], 1e-5);
    }
  const std::vector<std::string> pendingTunings = device->pendingTunings();
  EXPECT_LT(pendingTunings.size(), static_cast<size_t>(maximum));
  EXPECT_EQ(std::set(pendingTunings.begin(), pendingTunings.end()).size(), pendingTunings.size());
}

// Tuning uses only the memory that tuningBytes announces, creates no further pending tunings, and
// does not change results.
TEST_P(DeviceTest, TuningKeepsResults) {
  int64_t m = 3, k = 16, n = 100;
  std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                     before = numbers(2 * m * n, 4), both = numbers(2 * m * k, 5);
  std::vector<std::shared_ptr<Matrix>> alive;
  // Returns the bits of all results, by type, result type, addends, and whether the right-hand side
  // stays resident (tuning then reads it).
  auto compute = [&] {
    std::vector<std::vector<uint8_t>> results;
    for (auto [dtype, outDtype] : {std::pair(TPC_F32, TPC_F32),
                                   {TPC_F16, TPC_F16},
                                   {TPC_F16, TPC_F32},
                                   {TPC_BF16, TPC_BF16},
                                   {TPC_BF16, TPC_F32}}) {
      if (!device->computes(dtype))
        continue;
      size_t bytes = before.size() * static_cast<size_t>(sizeOf(outDtype));
      for (int addends : {0, 1, 2, 3})
        for (int64_t columns : {n, n - 4}) {
          std::vector<float> part(w.begin(), w.begin() + k * columns);
          std::shared_ptr<Matrix> matrix =
              matrixOf(*this, part, k, columns, /*transposed=*/false, dtype);
          float *out = upload(*this, before, outDtype);
          const float *added = upload(*this, bias, outDtype), *left = upload(*this, x, dtype);
          device->beginStep({0, 0});
          Product product = {matrix.get(),
                             addends & 1 ? added : nullptr,
                             addends & 2 ? out : nullptr,
                             out,
                             TPC_EPILOGUE_NONE,
                             outDtype};
          device->multiply({left, m, k, {&product, 1}, dtype});
          device->endStep();
          results.push_back(valuesOf(reinterpret_cast<uint8_t *>(out), bytes));
          if (columns == n)
            alive.push_back(matrix);
        }
      float *out = upload(*this, before, dtype);
      const float *left = upload(*this, both, dtype), *right = upload(*this, w, dtype);
      device->beginStep({0, 0});
      device->batchProduct({left, right, out, 2, m, k, n, m * k, 0, dtype});
      device->endStep();
      results.push_back(valuesOf(reinterpret_cast<uint8_t *>(out),
                                 before.size() * static_cast<size_t>(sizeOf(dtype))));
    }
    return results;
  };
  // Sums of small multiples of 1/4096 are exact in any order.
  const auto expected = compute();
  const std::vector<std::string> pendingTunings = device->pendingTunings();
  if (pendingTunings.empty())
    return; // the device tunes nothing
  EXPECT_EQ(std::set(pendingTunings.begin(), pendingTunings.end()).size(), pendingTunings.size());
  std::vector<std::string> tunings;
  for (const std::string &tuningKey : pendingTunings) {
    DeviceMemory own(*device, device->tuningBytes(tuningKey));
    tunings.push_back(device->tune(tuningKey, own.data()));
    ASSERT_TRUE(device->applyTuning(tuningKey, tunings.back())) << tuningKey;
  }
  auto sorted = [](std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    return texts;
  };
  EXPECT_EQ(sorted(device->pendingTunings()), sorted(pendingTunings));
  EXPECT_EQ(compute(), expected);
  // A second device, which applies the results without measuring.
  std::unique_ptr<World> other = World::threads(Grid({{"tp", 1}}), 1);
  other.swap(world);
  Device *measured = std::exchange(device, world->local(0).device.get());
  auto memoryBefore = std::exchange(memory, {});
  auto matricesBefore = std::exchange(alive, {});
  compute();
  for (size_t i = 0; i < pendingTunings.size(); ++i)
    EXPECT_TRUE(device->applyTuning(pendingTunings[i], tunings[i])) << pendingTunings[i];
  EXPECT_EQ(compute(), expected);
  alive.clear();
  memory.clear();
  world.swap(other);
  device = measured;
  other.reset();
  memory = std::move(memoryBefore);
}
