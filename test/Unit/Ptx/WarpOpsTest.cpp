//===- WarpOpsTest.cpp - Shuffles, votes, atomics, special registers ------===//

#include "PtxTesting.h"

#include <algorithm>
#include <set>

using namespace ptx;

/// Runs a body in a block of `threads` threads. Each thread writes %r9 to its own element.
static std::vector<uint32_t> perThread(const std::string &body, uint32_t threads = 32,
                                       uint64_t seed = 0, const std::string &before = "") {
  Module module =
      parsed(entry(1,
                   "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd5, %r1, 4;\nadd.s64 %rd6, %rd0, %rd5;\n" +
                       body + "\nst.global.b32 [%rd6], %r9;",
                   before));
  Memory memory(seed);
  uint64_t at = memory.allocate(threads * 4, "out");
  std::array arguments{Argument::pointer(at)};
  Result result =
      launch(module, "k", arguments, memory, {.grid = {1}, .block = {threads}, .seed = seed});
  EXPECT_TRUE(result.clean()) << result.str();
  return download<uint32_t>(memory, at, threads);
}

static std::vector<uint32_t> expected(uint32_t (*of)(uint32_t lane)) {
  std::vector<uint32_t> values;
  for (uint32_t lane = 0; lane < 32; ++lane)
    values.push_back(of(lane));
  return values;
}

TEST(WarpOps, Shuffles) {
  EXPECT_EQ(perThread("shfl.sync.bfly.b32 %r9, %r1, 5, 31, -1;"),
            expected([](uint32_t lane) { return lane ^ 5; }));
  EXPECT_EQ(perThread("shfl.sync.down.b32 %r9, %r1, 3, 31, -1;"),
            expected([](uint32_t lane) { return lane + 3 < 32 ? lane + 3 : lane; }));
  EXPECT_EQ(perThread("shfl.sync.up.b32 %r9, %r1, 3, 0, -1;"),
            expected([](uint32_t lane) { return lane >= 3 ? lane - 3 : lane; }));
  EXPECT_EQ(perThread("shfl.sync.idx.b32 %r9, %r1, 7, 31, -1;"),
            expected([](uint32_t) { return 7u; }));
  // Segments of 8 lanes: the mask in bits 8 to 12 of c is 24.
  EXPECT_EQ(perThread("shfl.sync.idx.b32 %r9, %r1, 2, 6175, -1;"),
            expected([](uint32_t lane) { return (lane & 24) + 2; }));
  EXPECT_EQ(perThread("shfl.sync.down.b32 %r9, %r1, 2, 6175, -1;"),
            expected([](uint32_t lane) { return lane % 8 + 2 < 8 ? lane + 2 : lane; }));
  EXPECT_EQ(perThread("shfl.sync.up.b32 %r9, %r1, 2, 6144, -1;"),
            expected([](uint32_t lane) { return lane % 8 >= 2 ? lane - 2 : lane; }));
  EXPECT_EQ(perThread("shfl.sync.bfly.b32 %r9, %r1, 12, 6175, -1;"), expected([](uint32_t lane) {
              return lane % 32 < 8 ? lane : (lane ^ 12) <= ((lane & 24) | 7) ? lane ^ 12 : lane;
            }));
  // The clamp is below the last lane. The predicate is whether the source lane was in range.
  EXPECT_EQ(perThread("shfl.sync.down.b32 %r8|%p1, %r1, 4, 15, -1;\nselp.b32 %r9, %r8, 99, %p1;"),
            expected([](uint32_t lane) { return lane + 4 <= 15 ? lane + 4 : 99u; }));
}

TEST(WarpOps, HalfWarps) {
  // Each half of the warp has its own mask and its own path, so both shuffles succeed.
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(perThread(R"(
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra $L_low;
  shfl.sync.bfly.b32 %r9, %r1, 1, 31, 0xffff0000;
  bra.uni $L_end;
$L_low:
  shfl.sync.bfly.b32 %r9, %r1, 2, 31, 0xffff;
$L_end:)",
                        32, seed),
              expected([](uint32_t lane) { return lane < 16 ? lane ^ 2 : lane ^ 1; }));
}

TEST(WarpOps, Votes) {
  std::string odd = "and.b32 %r2, %r1, 1;\nsetp.eq.b32 %p1, %r2, 1;\n";
  EXPECT_EQ(perThread(odd + "vote.sync.ballot.b32 %r9, %p1, -1;"),
            std::vector<uint32_t>(32, 0xaaaaaaaa));
  EXPECT_EQ(perThread(odd + "vote.sync.ballot.b32 %r9, !%p1, -1;"),
            std::vector<uint32_t>(32, 0x55555555));
  EXPECT_EQ(perThread(odd + "vote.sync.any.pred %p2, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;"),
            std::vector<uint32_t>(32, 1));
  EXPECT_EQ(perThread(odd + "vote.sync.all.pred %p2, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;"),
            std::vector<uint32_t>(32, 0));
  EXPECT_EQ(perThread(odd + "vote.sync.uni.pred %p2, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;"),
            std::vector<uint32_t>(32, 0));
  EXPECT_EQ(perThread("redux.sync.add.s32 %r9, %r1, -1;"), std::vector<uint32_t>(32, 496));
  EXPECT_EQ(perThread("sub.s32 %r2, %r1, 5;\nredux.sync.min.s32 %r9, %r2, -1;"),
            std::vector<uint32_t>(32, uint32_t(-5)));
  EXPECT_EQ(perThread("sub.s32 %r2, %r1, 5;\nredux.sync.max.u32 %r9, %r2, -1;"),
            std::vector<uint32_t>(32, uint32_t(-1)));
  EXPECT_EQ(perThread("or.b32 %r2, %r1, 64;\nredux.sync.and.b32 %r9, %r2, -1;"),
            std::vector<uint32_t>(32, 64));
  EXPECT_EQ(perThread("redux.sync.xor.b32 %r9, %r1, -1;"), std::vector<uint32_t>(32, 0));
  EXPECT_EQ(perThread("redux.sync.or.b32 %r9, %r1, -1;"), std::vector<uint32_t>(32, 31));
  EXPECT_EQ(perThread("shr.u32 %r2, %r1, 4;\nmatch.any.sync.b32 %r9, %r2, -1;"),
            expected([](uint32_t lane) { return lane < 16 ? 0xffffu : 0xffff0000u; }));
  EXPECT_EQ(
      perThread(
          "shr.u32 %r2, %r1, 5;\nmatch.all.sync.b32 %r8|%p1, %r2, -1;\nselp.b32 %r9, %r8, 0, %p1;"),
      std::vector<uint32_t>(32, 0xffffffff));
  EXPECT_EQ(perThread("activemask.b32 %r9;"), std::vector<uint32_t>(32, 0xffffffff));
}

TEST(WarpOps, SpecialRegisters) {
  EXPECT_EQ(perThread("mov.u32 %r9, %laneid;", 32), expected([](uint32_t lane) { return lane; }));
  EXPECT_EQ(perThread("mov.u32 %r9, %lanemask_lt;", 32),
            expected([](uint32_t lane) { return (1u << lane) - 1; }));
  EXPECT_EQ(perThread("mov.u32 %r9, %lanemask_ge;", 32),
            expected([](uint32_t lane) { return ~((1u << lane) - 1); }));
  EXPECT_EQ(perThread("mov.u32 %r9, %lanemask_gt;", 32),
            expected([](uint32_t lane) { return uint32_t(~((uint64_t(2) << lane) - 1)); }));
  EXPECT_EQ(
      perThread("mov.u32 %r2, %warpid;\nmov.u32 %r3, %nwarpid;\nmad.lo.s32 %r9, %r2, 100, %r3;",
                64)[40],
      102u);
  EXPECT_EQ(perThread("mov.b32 %r9, WARP_SZ;", 1)[0], 32u);
  EXPECT_EQ(perThread("mov.u32 %r2, %clock;\nmov.b32 %r9, 1;", 1)[0], 1u);
}

TEST(Atomics, Update) {
  struct Case {
    const char *op, *value;
    uint32_t begin, end;
  };
  for (Case one : {Case{"add.u32", "%r1", 7, 503},
                   {"add.s32", "-1", 7, uint32_t(-25)},
                   {"min.s32", "%r2", 7, uint32_t(-5)},
                   {"max.u32", "%r2", 7, 0xffffffff},
                   {"min.u32", "%r1", 7, 0},
                   {"max.s32", "%r2", 7, 26},
                   {"and.b32", "0xf0", 0xff, 0xf0},
                   {"or.b32", "%r1", 64, 95},
                   {"xor.b32", "%r1", 3, 3},
                   {"inc.u32", "9", 0, 2},
                   {"dec.u32", "9", 0, 8},
                   {"add.f32", "0f3F800000", 0, 0x42000000}})
    for (std::string space : {"global", "shared"}) {
      std::string body = std::string("sub.s32 %r2, %r1, 5;\n") +
                         (space == "shared" ? "mov.b64 %rd7, cell;\n" : "mov.b64 %rd7, glob;\n") +
                         "setp.ne.s32 %p1, %r1, 0;\n@%p1 bra $L_set;\nst." + space +
                         ".b32 [%rd7], " + std::to_string(one.begin) +
                         ";\n$L_set:\nbar.sync 0;\nred." + space + "." + one.op + " [%rd7], " +
                         one.value + ";\nbar.sync 0;\nld." + space + ".b32 %r9, [%rd7];";
      auto values = perThread(body, 32, 3,
                              ".shared .align 4 .b8 cell[4];\n.global .align 4 .u32 glob = 5;\n");
      EXPECT_EQ(values, std::vector<uint32_t>(32, one.end)) << one.op << " of " << space;
    }
}

TEST(Atomics, ReturnTheOldValue) {
  // Each lane gets a ticket of its own, in an order that depends on the seed.
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    auto values = perThread("mov.b64 %rd7, glob;\natom.global.add.u32 %r9, [%rd7], 1;", 32, seed,
                            ".global .align 4 .u32 glob = 5;\n");
    orders.insert(values);
    std::sort(values.begin(), values.end());
    EXPECT_EQ(values, expected([](uint32_t lane) { return lane + 5; }));
  }
  EXPECT_GT(orders.size(), 1u);
  // One of many exchanges succeeds.
  auto values = perThread("mov.b64 %rd7, glob;\natom.global.cas.b32 %r9, [%rd7], 5, 6;", 32, 0,
                          ".global .align 4 .u32 glob = 5;\n");
  EXPECT_EQ(std::count(values.begin(), values.end(), 5u), 1);
  values = perThread("mov.b64 %rd7, glob;\natom.global.exch.b32 %r9, [%rd7], %r1;", 1, 0,
                     ".global .align 4 .u32 glob = 5;\n");
  EXPECT_EQ(values[0], 5u);
  values =
      perThread("mov.b64 %rd7, glob;\natom.global.add.u64 %rd8, [%rd7], 1;\ncvt.u32.u64 %r9, %rd8;",
                1, 0, ".global .align 8 .u64 glob = 9;\n");
  EXPECT_EQ(values[0], 9u);
  values = perThread("atom.global.acq_rel.sys.cas.b32 %r9, [glob], 5, 6;", 1, 0,
                     ".global .align 4 .u32 glob = 5;\n");
  EXPECT_EQ(values[0], 5u);
}

TEST(Spaces, ConstantsLocalsAndGenericAddresses) {
  std::string before = ".const .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 0, 0, 0};\n.global .align 4 "
                       ".u32 words[2] = {3, 4};\n";
  EXPECT_EQ(perThread(R"(
  .local .align 4 .b8 depot[8];
  .shared .align 4 .b8 cells[128];
  ld.const.b32 %r2, [table+4];
  mov.b64 %rd7, words;
  ld.global.b32 %r3, [%rd7+4];
  mov.b64 %rd8, depot;
  cvta.local.u64 %rd9, %rd8;
  st.b32 [%rd9+4], %r1;
  ld.local.b32 %r4, [%rd8+4];
  mov.b64 %rd10, cells;
  cvta.shared.u64 %rd11, %rd10;
  add.s64 %rd12, %rd11, %rd5;
  st.b32 [%rd12], %r2;
  cvta.to.shared.u64 %rd13, %rd12;
  ld.shared.b32 %r5, [%rd13];
  cvt.u32.u64 %r6, %rd13;
  ld.volatile.shared.b32 %r5, [%r6];
  isspacep.shared %p1, %rd12;
  @!%p1 trap;
  isspacep.global %p1, %rd7;
  @!%p1 trap;
  add.s32 %r9, %r4, %r3;
  mad.lo.s32 %r9, %r5, 100, %r9;
  ld.param.b32 %r10, [p0];
  .pragma "nounroll";)",
                      32, 0, before),
            expected([](uint32_t lane) { return lane + 4 + 200; }));
}

TEST(Control, IndexedBranchesAndLoops) {
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(perThread(R"(
  and.b32 %r2, %r1, 3;
  mov.b32 %r9, 0;
  $L_brx_0: .branchtargets $L_0, $L_1, $L_2, $L_1;
  brx.idx %r2, $L_brx_0;
$L_0:
  add.s32 %r9, %r9, 1;
  setp.lt.u32 %p1, %r9, %r1;
  @%p1 bra $L_0;
  bra.uni $L_end;
$L_1:
  mov.b32 %r9, 111;
  bra.uni $L_end;
$L_2:
  mov.b32 %r9, 222;
$L_end:)",
                        32, seed),
              expected([](uint32_t lane) {
                return lane % 4 == 0 ? std::max(lane, 1u) : lane % 4 == 2 ? 222u : 111u;
              }));
}
