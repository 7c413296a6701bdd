//===- TilesTest.cpp - Coalesced loads and stores of transpositions -------===//

#include "KernelRun.h"

#include <cmath>

using namespace mlir::tpc::cuda;

static std::string transposeOf(const std::string &type) {
  std::string text = R"(
tpc_kernel.func @transpose(%x: memref<?x?x?xT> of [2, m, n]) -> (%y: memref<?x?x?xT> of [2, n, m]) {
  tpc_kernel.rows (%b, %i) in [2, n] {
    tpc_kernel.elements (%j) in [m] {
      %v = memref.load %x[%b, %j, %i] : memref<?x?x?xT>
      memref.store %v, %y[%b, %i, %j] : memref<?x?x?xT>
    }
  }
})";
  for (size_t at; (at = text.find("xT")) != text.npos;)
    text.replace(at, 2, "x" + type);
  return text;
}

template <class T> static void check(const std::string &type) {
  Compiled compiled = compile(transposeOf(type));
  ASSERT_EQ(compiled.launch("transpose").shape, Shape::Tiles);
  for (auto [n, m] :
       {std::pair<size_t, size_t>{64, 96}, {33, 17}, {1, 40}, {40, 1}, {0, 5}, {5, 0}})
    for (uint32_t blocks : {1, 5}) {
      KernelRun run({int64_t(n), int64_t(m)}, n + blocks);
      std::vector<T> x(2 * n * m);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = std::is_same_v<T, bool> ? T(i % 3 == 0) : T(i * 7 + 1);
      run.input("x", x);
      run.result<T>("y", x.size());
      ptx::Counters counters = run.launch(compiled, "transpose", blocks);
      auto y = run.get<T>("y", x.size());
      for (size_t b = 0; b < 2; ++b)
        for (size_t i = 0; i < n; ++i)
          for (size_t j = 0; j < m; ++j)
            ASSERT_EQ(y[(b * n + i) * m + j], x[(b * m + j) * n + i]) << n << " by " << m;
      EXPECT_EQ(counters.allocations["x"].readBytes, x.size() * sizeof(T));
      if (n == 64) {
        EXPECT_EQ(counters.allocations["x"].readSectors * 32, x.size() * sizeof(T));
        EXPECT_EQ(counters.allocations["y"].writtenSectors * 32, x.size() * sizeof(T));
      }
      EXPECT_LE(counters.sharedConflicts, counters.sharedRequests / 4);
    }
}

TEST(Tiles, ElementsOfAllSizes) {
  check<uint8_t>("i8");
  check<uint16_t>("i16");
  check<uint32_t>("i32");
  check<uint64_t>("i64");
}

/// Tables of a rotary embedding as in a model: a branch selects the angles of each position, and
/// there are two results.
TEST(Tiles, Branches) {
  Compiled compiled = compile(R"(
tpc_kernel.func @angles(%x: memref<?x?xf32> of [16, n]) -> (%c: memref<?x?xf32> of [n, 32], %s: memref<?x?xf32> of [n, 32]) {
  %half = tpc_kernel.size 16
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [32] {
      %low = arith.cmpi slt, %j, %half : index
      %v = scf.if %low -> (f32) {
        %a = memref.load %x[%j, %i] : memref<?x?xf32>
        scf.yield %a : f32
      } else {
        %k = arith.subi %j, %half : index
        %a = memref.load %x[%k, %i] : memref<?x?xf32>
        scf.yield %a : f32
      }
      %y = math.cos %v : f32
      memref.store %y, %c[%i, %j] : memref<?x?xf32>
    }
    tpc_kernel.elements (%j) in [32] {
      %low = arith.cmpi slt, %j, %half : index
      %v = scf.if %low -> (f32) {
        %a = memref.load %x[%j, %i] : memref<?x?xf32>
        scf.yield %a : f32
      } else {
        %k = arith.subi %j, %half : index
        %a = memref.load %x[%k, %i] : memref<?x?xf32>
        scf.yield %a : f32
      }
      %y = math.sin %v : f32
      memref.store %y, %s[%i, %j] : memref<?x?xf32>
    }
  }
})");
  ASSERT_EQ(compiled.launch("angles").shape, Shape::Tiles);
  constexpr size_t n = 40;
  KernelRun run({int64_t(n)});
  std::vector<float> x = numbers(16 * n, 5);
  run.input("x", x);
  run.result<float>("c", n * 32);
  run.result<float>("s", n * 32);
  ptx::Counters counters = run.launch(compiled, "angles", 2);
  auto c = run.get<float>("c", n * 32), s = run.get<float>("s", n * 32);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < 32; ++j) {
      EXPECT_NEAR(c[i * 32 + j], std::cos(x[j % 16 * n + i]), 1e-6);
      EXPECT_NEAR(s[i * 32 + j], std::sin(x[j % 16 * n + i]), 1e-6);
    }
  // Angles are computed once for both results, and two elements use each angle.
  EXPECT_LE(counters.allocations["x"].readSectors, 2 * x.size() * 4 / 32);
  EXPECT_EQ(counters.sharedConflicts, 0u);
}

/// Neighboring threads compute different rows, so accesses are coalesced without tiles.
TEST(Tiles, ShortRowsAreCoalescedWithoutTiles) {
  Compiled compiled = compile(R"(
tpc_kernel.func @short(%x: memref<?x?xf32> of [4, n]) -> (%y: memref<?x?xf32> of [n, 4]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [4] {
      %v = memref.load %x[%j, %i] : memref<?x?xf32>
      memref.store %v, %y[%i, %j] : memref<?x?xf32>
    }
  }
})");
  EXPECT_EQ(compiled.launch("short").shape, Shape::Elements);
  KernelRun run({256});
  run.input("x", numbers(1024, 1));
  run.result<float>("y", 1024);
  ptx::Counters counters = run.launch(compiled, "short", 1);
  EXPECT_EQ(counters.allocations["x"].readSectors, 128u);
  EXPECT_EQ(counters.allocations["y"].writtenSectors, 128u);
}
