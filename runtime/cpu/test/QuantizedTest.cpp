//===- QuantizedTest.cpp - Tests of matmuls by quantized weights ----------===//

#include "Tables.h"
#include "core/Half.h"
#include "core/World.h"
#include "cpu/CpuDevice.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace tpc::rt {
namespace {

/// A quantized matrix [k, n], and its values in f32.
struct Quantized {
  tpc_quantized_args args = {};
  std::vector<uint8_t> packed, zeroBytes;
  std::vector<float> scales, zeros, values;
  std::vector<uint16_t> halves;
  std::string name;

  static int64_t unpack(const std::vector<uint8_t> &bytes, int64_t index, int bits, bool isSigned) {
    int64_t q = bytes[index * bits / 8] >> index * bits % 8 & ((1 << bits) - 1);
    return isSigned && q >= 1 << (bits - 1) ? q - (1 << bits) : q;
  }

  enum Kind { Constant, Packed, Bytes, Floats };

  Quantized(int64_t k, int64_t n, int bits, int64_t block, bool isSigned, Kind kind, bool byRows,
            int32_t scaleType = TPC_F32) {
    int64_t blocks = block ? (k + block - 1) / block : 1, each = 8 / bits;
    name = std::to_string(k) + "x" + std::to_string(n) + " bits " + std::to_string(bits) +
           " block " + std::to_string(block) + " zeros " + std::to_string(kind) +
           (isSigned ? " signed" : "") + (byRows ? " by rows" : "");
    args.k = k;
    args.n = n;
    args.bits = bits;
    args.is_signed = isSigned;
    args.by_rows = byRows;
    args.row_bytes = ((byRows ? n : k) + each - 1) / each + (byRows ? 0 : 1); // rows may be longer
    args.block = block ? block : k;
    args.scale_dtype = scaleType;
    args.scale_column_stride = byRows ? 1 : blocks;
    args.scale_block_stride = byRows ? n : 1;
    if (!block)
      args.scale_block_stride = 0;
    uint32_t seed = 7;
    auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 16; };
    packed.resize((byRows ? k : n) * args.row_bytes);
    for (uint8_t &byte : packed)
      byte = static_cast<uint8_t>(next());
    for (float x : numbers(blocks * n, 11)) {
      halves.push_back(scaleType == TPC_BF16 ? floatToBfloat(x) : floatToHalf(x));
      scales.push_back(scaleType == TPC_F32   ? x
                       : scaleType == TPC_F16 ? halfToFloat(halves.back())
                                              : bfloatToFloat(halves.back()));
    }
    int64_t perColumn = blocks;
    if (kind == Packed)
      perColumn = (blocks + each - 1) / each * each;
    args.zero_column_stride = byRows ? 1 : perColumn;
    args.zero_block_stride = byRows ? n : 1;
    if (!block)
      args.zero_block_stride = 0;
    if (kind == Packed || kind == Bytes) {
      args.zero_bits = kind == Packed ? bits : 8;
      zeroBytes.resize((n * perColumn * args.zero_bits + 7) / 8);
      for (uint8_t &byte : zeroBytes)
        byte = static_cast<uint8_t>(next());
    } else if (kind == Floats) {
      zeros = numbers(blocks * n, 13);
    } else {
      args.zero_point = isSigned ? 0 : 1 << (bits - 1);
    }
    values.resize(k * n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t row = byRows ? i : j, column = byRows ? j : i, of = i / args.block;
        int64_t q = unpack(packed, row * args.row_bytes * each + column, bits, isSigned);
        int64_t at = j * args.zero_column_stride + of * args.zero_block_stride;
        float zero = kind == Constant ? static_cast<float>(args.zero_point)
                     : kind == Floats
                         ? zeros[at]
                         : static_cast<float>(unpack(zeroBytes, at, args.zero_bits, isSigned));
        values[i * n + j] = (static_cast<float>(q) - zero) *
                            scales[j * args.scale_column_stride + of * args.scale_block_stride];
      }
    args.packed = packed.data();
    args.scale = scaleType == TPC_F32 ? static_cast<const void *>(scales.data()) : halves.data();
    args.zero = kind == Constant ? nullptr
                : kind == Floats ? static_cast<const void *>(zeros.data())
                                 : zeroBytes.data();
  }
  Quantized(const Quantized &) = delete;
};

/// Calls `test` with matrices of many layouts and types.
template <typename Test> void forEachForm(const Test &test) {
  struct Size {
    int64_t k, n, block;
  };
  const Size sizes[] = {{0, 5, 16},   {1, 1, 0},     {64, 33, 16},   {96, 70, 32}, {100, 131, 0},
                        {112, 9, 16}, {130, 40, 64}, {2080, 66, 16}, {48, 17, 6}};
  for (const Size &size : sizes)
    for (int bits : {2, 4, 8})
      for (bool isSigned : {false, true})
        for (auto kind :
             {Quantized::Constant, Quantized::Packed, Quantized::Bytes, Quantized::Floats})
          for (bool byRows : {false, true}) {
            if (byRows && (kind == Quantized::Packed || size.k > 1000))
              continue;
            test(Quantized(size.k, size.n, bits, size.block, isSigned, kind, byRows));
          }
  for (int32_t type : {TPC_F16, TPC_BF16})
    test(Quantized(1088, 70, 4, 32, false, Quantized::Packed, false, type));
}

std::unique_ptr<World> makeWorld(int threads) {
  selectDevices(cpuDevices());
  return World::threads(Grid({{"tp", 1}}), threads);
}

/// Multiplies by `panels` in f32, [k, panelWidth] each.
void multiply(const KernelTable &table, GemmJob job, const std::vector<float> &panels) {
  int64_t width = table.panelWidth, count = (job.n + width - 1) / width;
  job.packed = panels.data();
  for (int64_t panel = 0; panel < count; panel += maxGemmPanels)
    table.gemm(job, 0, job.m, panel, std::min(count, panel + maxGemmPanels));
}

TEST(Quantized, ResultsEqualThoseOfTheMatrixInF32) {
  for (const KernelTable *table : allTables())
    forEachForm([&](const Quantized &matrix) {
      int64_t k = matrix.args.k, n = matrix.args.n, width = table->panelWidth;
      int64_t count = (n + width - 1) / width;
      std::vector<float> panels(count * width * k), same(panels.size());
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j)
          panels[j / width * width * k + i * width + j % width] = matrix.values[i * n + j];
      for (int64_t panel = 0; panel < count; ++panel)
        table->dequantize(matrix.args, panel * width, same.data() + panel * width * k);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j) {
          int64_t at = j / width * width * k + i * width + j % width;
          ASSERT_EQ(panels[at], same[at])
              << table->name << " " << matrix.name << " at " << i << ", " << j;
        }
      for (int64_t m : {1, 2, 3, 7}) {
        if (!table->readsQuantized(matrix.args))
          continue;
        std::vector<float> x = numbers(m * k, 1), bias = numbers(n, 3), first = numbers(m * n, 4),
                           second = first;
        multiply(*table,
                 {x.data(), k, nullptr, bias.data(), first.data(), first.data(), n, m, k, n,
                  TPC_EPILOGUE_SILU},
                 panels);
        tpc_quantized_args args = matrix.args;
        args.m = m;
        args.x = x.data();
        args.bias = bias.data();
        args.residual = args.out = second.data();
        args.epilogue = TPC_EPILOGUE_SILU;
        int64_t half = (n / 2 + 2 * width - 1) / (2 * width) * (2 * width);
        table->gemmQuantized(args, 0, std::min(n, half));
        if (half < n)
          table->gemmQuantized(args, half, n);
        ASSERT_EQ(first, second) << table->name << " " << matrix.name << " m " << m;
      }
    });
}

/// Checks a matmul in integer arithmetic against sums in double.
void expectNear(const KernelTable &table, const Quantized &matrix, int64_t m) {
  int64_t k = matrix.args.k, n = matrix.args.n;
  std::vector<float> x = numbers(m * k, 1), bias = numbers(n, 3), out(m * n);
  for (size_t i = 0; i < x.size(); i += 37)
    x[i] *= 100; // outliers
  tpc_quantized_args args = matrix.args;
  args.m = m;
  args.x = x.data();
  args.bias = bias.data();
  args.out = out.data();
  std::vector<float> digits(table.digitFloats(args));
  ASSERT_TRUE(table.splitDigits(args, digits.data()));
  int64_t half = (n / 2 + table.panelWidth - 1) / table.panelWidth * table.panelWidth;
  table.gemmIntegers(args, digits.data(), 0, std::min(n, half));
  if (half < n)
    table.gemmIntegers(args, digits.data(), half, n);
  for (int64_t row = 0; row < m; ++row)
    for (int64_t j = 0; j < n; ++j) {
      // An element of x is rounded relative to the largest of its block of 16. Numbers and zero
      // points are multiplied separately, and may be larger than their difference.
      double sum = bias[j], size = 1;
      for (int64_t i = 0; i < k; ++i) {
        double largest = 0, value = matrix.values[i * n + j];
        for (int64_t at = i / 16 * 16; at < std::min(k, i / 16 * 16 + 16); ++at)
          largest = std::max<double>(largest, std::abs(x[row * k + at]));
        sum += x[row * k + i] * value;
        size += largest * (std::abs(value) + (1 << matrix.args.bits) * 0.25);
      }
      ASSERT_NEAR(out[row * n + j], sum, 1e-6 * size)
          << table.name << " " << matrix.name << " m " << m << " at " << row << ", " << j;
    }
}

TEST(Quantized, IntegerMatmulsAreAsExactAsF32) {
  for (bool forget : {false, true}) {
    forgetByteProducts(forget);
    for (const KernelTable *table : allTables()) {
      if (forget && std::string(table->name) != "avx512")
        continue;
      forEachForm([&](const Quantized &matrix) {
        for (int64_t m : {1, 3}) {
          if (m > 1 && matrix.args.k > 1000)
            continue;
          tpc_quantized_args args = matrix.args;
          args.m = m;
          if (table->digitFloats(args))
            expectNear(*table, matrix, m);
        }
      });
    }
  }
  forgetByteProducts(false);
}

TEST(Quantized, OnlyFiniteInputsAreSplitIntoDigits) {
  Quantized matrix(64, 16, 4, 16, false, Quantized::Constant, false);
  for (const KernelTable *table : allTables())
    for (float special : {INFINITY, NAN, 1e-38f, 0.0f}) {
      std::vector<float> x(64);
      x[63] = special;
      tpc_quantized_args args = matrix.args;
      args.m = 1;
      args.x = x.data();
      std::vector<float> digits(table->digitFloats(args) + 1);
      if (table->digitFloats(args))
        EXPECT_EQ(table->splitDigits(args, digits.data()), std::isfinite(special)) << special;
    }
}

TEST(Quantized, ManyRowsAgreeWithOne) {
  std::unique_ptr<World> world = makeWorld(2);
  tpc_context *ctx = &world->local(0);
  for (int64_t block : {0, 16, 6}) {
    Quantized matrix(150, 300, 4, block, false, Quantized::Packed, false);
    int64_t k = matrix.args.k, n = matrix.args.n, m = 200;
    std::vector<float> x = numbers(m * k, 1), bias = numbers(n, 3), all(m * n), row(n);
    tpc_quantized_args args = matrix.args;
    args.m = m;
    args.x = x.data();
    args.bias = bias.data();
    args.out = all.data();
    tpc_quantized_product(ctx, &args);
    for (int64_t i : {0, 1, 143, 199}) {
      args.m = 1;
      args.x = x.data() + i * k;
      args.out = row.data();
      tpc_quantized_product(ctx, &args);
      for (int64_t j = 0; j < n; ++j)
        ASSERT_NEAR(row[j], all[i * n + j], 2e-5 * std::abs(row[j]) + 1e-4) << block;
    }
  }
}

TEST(Quantized, WrongArgumentsAreErrors) {
  Quantized matrix(64, 8, 4, 16, false, Quantized::Constant, false);
  std::vector<float> x(64), out(8);
  auto expect = [&](auto change, const char *message) {
    tpc_quantized_args args = matrix.args;
    args.m = 1;
    args.x = x.data();
    args.out = out.data();
    change(args);
    std::unique_ptr<World> world = makeWorld(1);
    auto error = world->run([&](tpc_context &ctx) { tpc_quantized_product(&ctx, &args); });
    ASSERT_TRUE(error);
    EXPECT_NE(error->find(message), std::string::npos) << *error;
  };
  expect([](auto &a) { a.bits = 3; }, "numbers of 3 bits");
  expect([](auto &a) { a.block = 0; }, "in blocks of 0");
  expect([](auto &a) { a.row_bytes = 31; }, "rows of 64 numbers of 4 bits in 31 bytes");
  expect([](auto &a) { a.scale_dtype = TPC_I8; }, "with scales of");
}

} // namespace
} // namespace tpc::rt
