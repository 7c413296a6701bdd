//===- RowsTest.cpp - Single pass of row kernels over memory --------------===//

#include "KernelRun.h"

#include <cmath>
#include <cstring>

using namespace mlir::tpc::cuda;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

static std::string softmaxOf(const std::string &size) {
  std::string text = R"(
tpc_kernel.func @softmax(%x: memref<?x?xf32> of [n, SIZE]) -> (%y: memref<?x?xf32> of [n, SIZE]) {
  tpc_kernel.rows (%i) in [n] {
    %largest = tpc_kernel.fold maxnum (%j) in [SIZE] adjacent : f32 init 0xFF800000 identity 0xFF800000 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    %sum = tpc_kernel.fold sum (%j) in [SIZE] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      %d = arith.subf %v, %largest : f32
      %e = math.exp %d : f32
      tpc_kernel.yield %e : f32
    }
    tpc_kernel.elements (%j) in [SIZE] {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      %d = arith.subf %v, %largest : f32
      %e = math.exp %d : f32
      %q = arith.divf %e, %sum : f32
      memref.store %q, %y[%i, %j] : memref<?x?xf32>
    }
  }
})";
  for (size_t at; (at = text.find("SIZE")) != text.npos;)
    text.replace(at, 4, size);
  return text;
}

/// Runs a softmax of three rows and compares it. Returns how often each element is read.
static double runSoftmax(const Compiled &compiled, size_t size, int offset = 0,
                         std::vector<float> *out = nullptr) {
  constexpr size_t rows = 3;
  KernelRun run({int64_t(rows), int64_t(size)}, size + 1);
  std::vector<float> x = numbers(rows * size, size);
  run.input("x", x, offset);
  run.result<float>("y", rows * size, offset);
  ptx::Counters counters = run.launch(compiled, "softmax", 2);
  auto y = run.get<float>("y", rows * size);
  for (size_t row = 0; row < rows; ++row) {
    double sum = 0, largest = 0, error = 0;
    for (size_t j = 0; j < size; ++j)
      sum += std::exp(double(x[row * size + j]));
    for (size_t j = 0; j < size; ++j) {
      double expected = std::exp(double(x[row * size + j])) / sum;
      largest = std::max(largest, expected);
      error = std::max(error, std::fabs(expected - y[row * size + j]));
    }
    EXPECT_LE(error, 1e-5 * largest) << "length " << size;
  }
  EXPECT_EQ(counters.allocations["y"].writtenBytes, rows * size * 4);
  if (out)
    *out = y;
  return size ? double(counters.allocations["x"].readBytes) / double(rows * size * 4) : 1;
}

TEST(Rows, KnownLengthIsReadOnce) {
  for (size_t size : {3, 100, 256, 257, 768, 1600, 4100, 32768}) {
    Compiled compiled = compile(softmaxOf(std::to_string(size)));
    EXPECT_EQ(runSoftmax(compiled, size), 1) << size;
    EXPECT_GT(compiled.launch("softmax").registerElements, 0u);
  }
}

TEST(Rows, TooLongForRegistersIsReadAgain) {
  Compiled compiled = compile(softmaxOf("50257"));
  EXPECT_EQ(runSoftmax(compiled, 50257), 3);
  EXPECT_EQ(compiled.launch("softmax").registerElements, 0u);
}

TEST(Rows, UnknownLengthIsReadOnceUpToALimit) {
  Compiled compiled = compile(softmaxOf("m"));
  for (size_t size : {0, 1, 7, 64, 130, 256, 257, 1030, 4095, 4096})
    EXPECT_EQ(runSoftmax(compiled, size), 1) << size;
  for (size_t size : {4097, 4100})
    EXPECT_EQ(runSoftmax(compiled, size), 3) << size;
}

/// The thread that computes an element depends on sizes only. So bits are equal for all alignments.
TEST(Rows, BitsDoNotDependOnAlignment) {
  for (auto [text, size] : {std::pair("768", 768), std::pair("m", 516), std::pair("m", 33)}) {
    Compiled compiled = compile(softmaxOf(text));
    std::vector<float> aligned, shifted;
    runSoftmax(compiled, size, 0, &aligned);
    runSoftmax(compiled, size, 1, &shifted);
    EXPECT_EQ(std::memcmp(aligned.data(), shifted.data(), size * 3 * sizeof(float)), 0) << size;
  }
}

//===----------------------------------------------------------------------===//
// Sums and norms
//===----------------------------------------------------------------------===//

static const char *const addNorm = R"(
tpc_kernel.func @add_norm(%x: memref<?x?xf32> of [n, 768], %r: memref<?x?xf32> of [n, 768], %w: memref<?xf32> of [768],
                          %b: memref<?xf32> of [768])
    -> (%s: memref<?x?xf32> of [n, 768], %y: memref<?x?xf32> of [n, 768]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [768] {
      %u = memref.load %x[%i, %j] : memref<?x?xf32>
      %v = memref.load %r[%i, %j] : memref<?x?xf32>
      %a = arith.addf %u, %v : f32
      memref.store %a, %s[%i, %j] : memref<?x?xf32>
    }
    %n = arith.constant 768.0 : f32
    %one = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-5 : f32
    tpc_kernel.barrier
    %sum = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %s[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    %mean = arith.divf %sum, %n : f32
    %squares = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %s[%i, %j] : memref<?x?xf32>
      %d = arith.subf %v, %mean : f32
      %q = arith.mulf %d, %d : f32
      tpc_kernel.yield %q : f32
    }
    %variance = arith.divf %squares, %n : f32
    %more = arith.addf %variance, %epsilon : f32
    %root = math.sqrt %more : f32
    %scale = arith.divf %one, %root : f32
    tpc_kernel.elements (%j) in [768] {
      %v = memref.load %s[%i, %j] : memref<?x?xf32>
      %d = arith.subf %v, %mean : f32
      %m = arith.mulf %d, %scale : f32
      %c = memref.load %w[%j] : memref<?xf32>
      %e = memref.load %b[%j] : memref<?xf32>
      %p = arith.mulf %m, %c : f32
      %q = arith.addf %p, %e : f32
      memref.store %q, %y[%i, %j] : memref<?x?xf32>
    }
  }
})";

/// Two rows are read and two written. Weight and bias are read once per block.
TEST(Rows, SumAndNormReadAndWriteOnce) {
  constexpr size_t rows = 64, size = 768, blocks = 4;
  Compiled compiled = compile(addNorm);
  KernelRun run({int64_t(rows)});
  std::vector<float> x = numbers(rows * size, 1), r = numbers(rows * size, 2), w = numbers(size, 3),
                     b = numbers(size, 4);
  run.input("x", x);
  run.input("r", r);
  run.input("w", w);
  run.input("b", b);
  run.result<float>("s", rows * size);
  run.result<float>("y", rows * size);
  ptx::Counters counters = run.launch(compiled, "add_norm", blocks);
  auto y = run.get<float>("y", rows * size);
  for (size_t row = 0; row < rows; ++row) {
    auto at = [&](size_t j) { return double(x[row * size + j] + r[row * size + j]); };
    double mean = 0, variance = 0;
    for (size_t j = 0; j < size; ++j)
      mean += at(j) / size;
    for (size_t j = 0; j < size; ++j)
      variance += (at(j) - mean) * (at(j) - mean) / size;
    for (size_t j = 0; j < size; ++j)
      ASSERT_NEAR(y[row * size + j], (at(j) - mean) / std::sqrt(variance + 1e-5) * w[j] + b[j],
                  1e-5);
  }
  for (const char *name : {"x", "r"})
    EXPECT_EQ(counters.allocations[name].readSectors, rows * size * 4 / 32) << name;
  for (const char *name : {"s", "y"}) {
    EXPECT_EQ(counters.allocations[name].readSectors, 0u) << name;
    EXPECT_EQ(counters.allocations[name].writtenSectors, rows * size * 4 / 32) << name;
  }
  for (const char *name : {"w", "b"})
    EXPECT_EQ(counters.allocations[name].readSectors, blocks * size * 4 / 32) << name;
  EXPECT_EQ(counters.barriers, 2 * rows);
  EXPECT_EQ(counters.sharedConflicts, 0u);
}
