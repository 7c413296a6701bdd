//===- AsyncCopiesTest.cpp - Tests of cp.async, and a matmul of two stages ===//
//
// A correct matmul with asynchronous copies and matrix instructions has no findings with any seed.
// The checks or a wrong result reveal at least 99% of the faults that the test seeds into it.
//
//===----------------------------------------------------------------------===//

#include "Ptx/Float.h"
#include "PtxTesting.h"

#include <cmath>

using namespace ptx;

namespace {

/// k(a, b, c): C = A B in tiles of 32 x 16 x 16, with two stages in shared memory. A is f16 [32,
/// 64] with 60 valid columns, B is f16 [64, 16] with 60 valid rows, C is f32 [32, 16]. There are
/// two warps. Each computes 16 rows.
constexpr const char *matmulBody = R"(
  .shared .align 16 .b8 tilesA[2048];
  .shared .align 16 .b8 tilesB[1024];
  mov.u32 %r0, %tid.x;
  and.b32 %r1, %r0, 31;
  shr.u32 %r2, %r0, 5;
  mov.b32 %r39, tilesA;
  mov.b32 %r38, tilesB;
  and.b32 %r3, %r1, 15;
  shl.b32 %r3, %r3, 5;
  shr.u32 %r4, %r1, 4;
  shl.b32 %r4, %r4, 4;
  add.u32 %r3, %r3, %r4;
  add.u32 %r5, %r38, %r3;
  shl.b32 %r6, %r2, 9;
  add.u32 %r6, %r6, %r3;
  add.u32 %r6, %r39, %r6;
  shl.b32 %r7, %r0, 4;
  add.u32 %r8, %r39, %r7;
  add.u32 %r9, %r38, %r7;
  shr.u32 %r10, %r0, 1;
  and.b32 %r11, %r0, 1;
  mul.lo.u32 %r12, %r10, 128;
  shl.b32 %r13, %r11, 4;
  add.u32 %r12, %r12, %r13;
  cvt.u64.u32 %rd5, %r12;
  add.u64 %rd5, %rd0, %rd5;
  cvt.u64.u32 %rd6, %r7;
  add.u64 %rd6, %rd1, %rd6;
  setp.lt.u32 %p0, %r0, 32;
  setp.lt.u32 %p5, %r1, 16;
  mov.b32 %r20, 0f00000000;
  mov.b32 %r21, 0f00000000;
  mov.b32 %r22, 0f00000000;
  mov.b32 %r23, 0f00000000;
  mov.b32 %r24, 0f00000000;
  mov.b32 %r25, 0f00000000;
  mov.b32 %r26, 0f00000000;
  mov.b32 %r27, 0f00000000;
  mov.b32 %r14, 0;
  mov.b32 %r15, 0;
$L_loop:
  setp.ge.u32 %p1, %r14, 4;
  @%p1 bra $L_copied;
  and.b32 %r16, %r14, 1;
  shl.b32 %r17, %r16, 10;
  add.u32 %r17, %r8, %r17;
  shl.b32 %r18, %r16, 9;
  add.u32 %r18, %r9, %r18;
  shl.b32 %r19, %r14, 5;
  add.u32 %r19, %r19, %r13;
  sub.s32 %r19, 120, %r19;
  max.s32 %r19, %r19, 0;
  min.s32 %r19, %r19, 16;
  cp.async.cg.shared.global [%r17], [%rd5], 16, %r19;
  shl.b32 %r28, %r14, 4;
  add.u32 %r28, %r28, %r10;
  setp.lt.u32 %p2, %r28, 60;
  selp.b32 %r29, 16, 0, %p2;
  @%p0 cp.async.cg.shared.global [%r18], [%rd6], 16, %r29;
  add.u64 %rd5, %rd5, 32;
  add.u64 %rd6, %rd6, 512;
$L_copied:
  cp.async.commit_group;
  setp.eq.u32 %p3, %r14, 0;
  add.u32 %r14, %r14, 1;
  @%p3 bra $L_loop;
  cp.async.wait_group 1;
  bar.sync 0;
  and.b32 %r16, %r15, 1;
  shl.b32 %r17, %r16, 10;
  add.u32 %r17, %r6, %r17;
  shl.b32 %r18, %r16, 9;
  add.u32 %r18, %r5, %r18;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r31, %r32, %r33}, [%r17];
  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r34, %r35, %r36, %r37}, [%r18];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r20, %r21, %r22, %r23},
    {%r30, %r31, %r32, %r33}, {%r34, %r35}, {%r20, %r21, %r22, %r23};
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r24, %r25, %r26, %r27},
    {%r30, %r31, %r32, %r33}, {%r36, %r37}, {%r24, %r25, %r26, %r27};
  bar.sync 1;
  add.u32 %r15, %r15, 1;
  setp.lt.u32 %p4, %r15, 4;
  @%p4 bra $L_loop;
  shl.b32 %r28, %r2, 4;
  shr.u32 %r29, %r1, 2;
  add.u32 %r28, %r28, %r29;
  shl.b32 %r28, %r28, 6;
  and.b32 %r29, %r1, 3;
  shl.b32 %r29, %r29, 3;
  add.u32 %r28, %r28, %r29;
  cvt.u64.u32 %rd7, %r28;
  add.u64 %rd7, %rd2, %rd7;
  st.global.v2.b32 [%rd7], {%r20, %r21};
  st.global.v2.b32 [%rd7+512], {%r22, %r23};
  st.global.v2.b32 [%rd7+32], {%r24, %r25};
  st.global.v2.b32 [%rd7+544], {%r26, %r27};)";

constexpr unsigned matmulRows = 32, matmulColumns = 16, matmulDepth = 60;

struct MatmulRun {
  Result result;
  bool isCorrect = true; // whether C has the expected elements, within a bound
};

float elementOfA(unsigned i, unsigned k) { return float(int(i * 7 + k * 3) % 23 - 11) / 8; }
float elementOfB(unsigned k, unsigned j) { return float(int(k * 5 + j * 11) % 19 - 9) / 4; }

MatmulRun runMatmul(const std::string &body, uint64_t seed) {
  Module module = parsed(entry(3, body));
  Memory memory(seed);
  // Invalid elements are unwritten.
  uint64_t a = memory.allocate(matmulRows * 64 * 2, "a"), b = memory.allocate(64 * 16 * 2, "b"),
           c = memory.allocate(matmulRows * matmulColumns * 4, "c");
  for (unsigned i = 0; i < matmulRows; ++i)
    for (unsigned k = 0; k < matmulDepth; ++k) {
      uint16_t bits = F16::narrow(elementOfA(i, k));
      EXPECT_TRUE(memory.copyIn(a + (i * 64 + k) * 2, &bits, 2));
    }
  for (unsigned k = 0; k < matmulDepth; ++k)
    for (unsigned j = 0; j < matmulColumns; ++j) {
      uint16_t bits = F16::narrow(elementOfB(k, j));
      EXPECT_TRUE(memory.copyIn(b + (k * 16 + j) * 2, &bits, 2));
    }
  std::array arguments{Argument::pointer(a), Argument::pointer(b), Argument::pointer(c)};
  MatmulRun run;
  run.result = launch(module, "k", arguments, memory,
                      {.grid = {1}, .block = {64}, .seed = seed, .maxInstructions = 20000});
  auto made = download<float>(memory, c, matmulRows * matmulColumns);
  for (unsigned i = 0; i < matmulRows; ++i)
    for (unsigned j = 0; j < matmulColumns; ++j) {
      float sum = 0;
      for (unsigned k = 0; k < matmulDepth; ++k)
        sum += elementOfA(i, k) * elementOfB(k, j);
      run.isCorrect &= std::fabs(made[i * matmulColumns + j] - sum) < 1e-3f; // false for NaN
    }
  return run;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

bool has(const Result &result, Check check, const std::string &message) {
  for (const Finding &finding : result.findings)
    if (finding.check == check && finding.message.find(message) != std::string::npos)
      return true;
  return false;
}

} // namespace

TEST(AsyncCopies, FeedAMatmul) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    MatmulRun run = runMatmul(matmulBody, seed);
    EXPECT_TRUE(run.result.clean()) << run.result.str();
    EXPECT_TRUE(run.isCorrect);
  }
  // A wait for more than needed is correct, too.
  std::string all = replaced(matmulBody, "cp.async.wait_group 1;", "cp.async.wait_all;");
  EXPECT_TRUE(runMatmul(all, 0).result.clean() && runMatmul(all, 0).isCorrect);
}

TEST(AsyncCopies, FaultsInAMatmul) {
  struct Fault {
    const char *what, *from, *to;
  };
  constexpr const char *loadA = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r31, %r32, %r33}",
                       *loadB = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r34, %r35, %r36, "
                                "%r37}",
                       *wait = "cp.async.wait_group 1;\n  bar.sync 0;",
                       *commit = "cp.async.commit_group;", *mma = "mma.sync.aligned",
                       *copyA = "cp.async.cg.shared.global [%r17], [%rd5], 16, %r19;",
                       *copyB = "@%p0 cp.async.cg.shared.global [%r18], [%rd6], 16, %r29;";
  const Fault faults[] = {
      // waits and groups
      {"a wait for one group less", "wait_group 1;", "wait_group 2;"},
      {"a wait for no group", "wait_group 1;", "wait_group 4;"},
      {"no wait", "cp.async.wait_group 1;", ""},
      {"a wait in one warp", "cp.async.wait_group 1;", "@%p0 cp.async.wait_group 1;"},
      {"a wait in some lanes", "cp.async.wait_group 1;", "@%p5 cp.async.wait_group 1;"},
      {"a wait after the barrier", wait, "bar.sync 0;\n  cp.async.wait_group 1;"},
      {"no commit", commit, ""},
      {"a commit in some lanes", commit, "@%p5 cp.async.commit_group;"},
      {"a commit for each copy, and a wait for one",
       "cp.async.cg.shared.global [%r17], [%rd5], 16, %r19;",
       "cp.async.cg.shared.global [%r17], [%rd5], 16, %r19;\n  cp.async.commit_group;\n  "
       "cp.async.wait_group 1;\n  bra.uni $L_copied;"},
      {"a copy after the commit", "setp.eq.u32 %p3, %r14, 0;",
       "setp.eq.u32 %p3, %r14, 0;\n  setp.lt.and.u32 %p6, %r14, 4, %p0;\n  @%p6 "
       "cp.async.cg.shared.global [%r18], [%rd6-512], 16, %r29;"},
      // barriers
      {"no barrier after the wait", "bar.sync 0;", ""},
      {"a barrier of a warp after the wait", "bar.sync 0;", "bar.warp.sync -1;"},
      {"a fence for a barrier", "bar.sync 0;", "membar.cta;"},
      {"no barrier after the reads", "bar.sync 1;", ""},
      {"a barrier of a warp after the reads", "bar.sync 1;", "bar.warp.sync -1;"},
      // stages
      {"always the first stage is read", "and.b32 %r16, %r15, 1;", "mov.b32 %r16, 0;"},
      {"the other stage is read", "and.b32 %r16, %r15, 1;",
       "add.u32 %r16, %r15, 1;\n  and.b32 %r16, %r16, 1;"},
      {"one stage is filled", "and.b32 %r16, %r14, 1;", "mov.b32 %r16, 0;"},
      {"one stage is filled and read", "and.b32 %r16, %r14, 1;",
       "mov.b32 %r16, 0;\n  mov.b32 %r15, 0;"},
      {"the stage of B is one of A", "shl.b32 %r18, %r16, 9;\n  add.u32 %r18, %r5",
       "shl.b32 %r18, %r16, 8;\n  add.u32 %r18, %r5"},
      {"the stage of A is half as large", "shl.b32 %r17, %r16, 10;\n  add.u32 %r17, %r8",
       "shl.b32 %r17, %r16, 9;\n  add.u32 %r17, %r8"},
      // other accesses while a copy is in flight
      {"its own element is read at once", commit,
       "cp.async.commit_group;\n  ld.shared.b32 %r28, [%r17];"},
      {"its own element is written at once", commit,
       "cp.async.commit_group;\n  st.shared.b32 [%r8], %r0;"},
      {"two copies to one place", copyA,
       "cp.async.cg.shared.global [%r17], [%rd5], 16, %r19;\n  cp.async.cg.shared.global [%r17], "
       "[%rd5], 16, %r19;"},
      {"the source is written at once", commit,
       "st.global.b32 [%rd5+-32], %r14;\n  cp.async.commit_group;"},
      // fragments
      {"rows of A in the wrong order", loadA,
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r32, %r31, %r33}"},
      {"halves of B in the wrong order", loadB,
       "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r35, %r34, %r36, %r37}"},
      {"tiles of B in the wrong order", loadB,
       "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r36, %r37, %r34, %r35}"},
      {"A is transposed", loadA,
       "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r30, %r31, %r32, %r33}"},
      {"B is not transposed", loadB,
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r34, %r35, %r36, %r37}"},
      {"half of A", loadA,
       "mov.b32 %r32, 0; mov.b32 %r33, 0; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r30, %r31}"},
      {"A that nothing loads", loadA, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r30, %r31}"},
      {"rows of other lanes", "and.b32 %r3, %r1, 15;", "and.b32 %r3, %r1, 7;"},
      {"columns of other lanes", "shr.u32 %r4, %r1, 4;", "shr.u32 %r4, %r1, 3;"},
      {"rows of the other warp", "shl.b32 %r6, %r2, 9;",
       "xor.b32 %r6, %r2, 1; shl.b32 %r6, %r6, 9;"},
      {"rows that are not aligned", "add.u32 %r17, %r6, %r17;",
       "add.u32 %r17, %r6, %r17; add.u32 %r17, %r17, 8;"},
      {"a load by some lanes", loadA,
       "@%p5 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r31, %r32, %r33}"},
      {"a load on two paths", loadA,
       "@%p5 bra $L_low;\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r31, %r32, %r33}, "
       "[%r17];\n  bra.uni $L_both;\n$L_low:\n  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, "
       "%r31, %r32, %r33}, [%r17];\n$L_both:\n  "
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r31, %r32, %r33}"},
      // products
      {"an mma by some lanes", mma, "@%p5 mma.sync.aligned"},
      {"an mma by the last lanes", mma, "@!%p5 mma.sync.aligned"},
      {"other types", "f32.f16.f16.f32", "f32.bf16.bf16.f32"},
      {"sums that begin with another one", "{%r36, %r37}, {%r24, %r25, %r26, %r27}",
       "{%r36, %r37}, {%r20, %r21, %r22, %r23}"},
      {"rows of sums in the wrong order", "{%r34, %r35}, {%r20, %r21, %r22, %r23}",
       "{%r34, %r35}, {%r22, %r23, %r20, %r21}"},
      {"columns of results in the wrong order", "[%rd7], {%r20, %r21}", "[%rd7], {%r21, %r20}"},
      {"sums without a beginning", "mov.b32 %r25, 0f00000000;", ""},
      {"one product twice", "{%r34, %r35}, {%r20", "{%r36, %r37}, {%r20"},
      // sizes and sources
      {"bytes after the last column", copyA, "cp.async.cg.shared.global [%r17], [%rd5], 16;"},
      {"bytes after the last row", copyB, "@%p0 cp.async.cg.shared.global [%r18], [%rd6], 16;"},
      {"two bytes too many", "sub.s32 %r19, 120,", "sub.s32 %r19, 122,"},
      {"two bytes too few", "sub.s32 %r19, 120,", "sub.s32 %r19, 118,"},
      {"more bytes than the copy has", "min.s32 %r19, %r19, 16;", "min.s32 %r19, %r19, 32;"},
      {"a row too many", "setp.lt.u32 %p2, %r28, 60;", "setp.le.u32 %p2, %r28, 60;"},
      {"a row too few", "setp.lt.u32 %p2, %r28, 60;", "setp.lt.u32 %p2, %r28, 59;"},
      {"copies of half the size", copyA, "cp.async.ca.shared.global [%r17], [%rd5], 8;"},
      {"copies by too many threads", copyB, "cp.async.cg.shared.global [%r18], [%rd6], 16, %r29;"},
      {"copies by too few threads", "setp.lt.u32 %p0, %r0, 32;", "setp.lt.u32 %p0, %r0, 31;"},
      {"a target that is not aligned", copyA,
       "cp.async.cg.shared.global [%r17+8], [%rd5], 16, %r19;"},
      {"a source that is not aligned", copyA,
       "cp.async.cg.shared.global [%r17], [%rd5+8], 16, %r19;"},
      {"a source of another step", "add.u64 %rd5, %rd5, 32;", "add.u64 %rd5, %rd5, 16;"},
  };
  const uint64_t seeds = 20;
  unsigned found = 0, all = 0;
  std::string missed;
  for (const Fault &fault : faults)
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      MatmulRun run = runMatmul(replaced(matmulBody, fault.from, fault.to), seed);
      ++all;
      if (!run.result.clean() || !run.isCorrect)
        ++found;
      else
        missed += std::string(fault.what) + ", seed " + std::to_string(seed) + "\n";
    }
  RecordProperty("faults", int(std::size(faults)));
  EXPECT_GE(found, all * 99 / 100) << missed;
}

namespace {

/// Runs a body in 32 threads. Registers have addresses of 16 bytes of each thread: %rd1 in `in`,
/// whose byte i is i, %r2 in shared memory, and %rd2 in `out`.
Result runCopies(const std::string &body, uint64_t seed, std::vector<uint8_t> *out = nullptr) {
  Module module = parsed(entry(3, R"(
  .shared .align 16 .b8 cells[512];
  mov.u32 %r0, %tid.x;
  shl.b32 %r1, %r0, 4;
  mov.b32 %r2, cells;
  add.u32 %r2, %r2, %r1;
  cvt.u64.u32 %rd3, %r1;
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd2, %rd2, %rd3;
  setp.lt.u32 %p0, %r0, 16;
  )" + body));
  Memory memory(seed);
  std::vector<uint8_t> bytes(512);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = uint8_t(i);
  uint64_t in = upload(memory, bytes, "in"), at = upload(memory, bytes, "out");
  std::array arguments{Argument::pointer(0), Argument::pointer(in), Argument::pointer(at)};
  Result result =
      launch(module, "k", arguments, memory, {.grid = {1}, .block = {32}, .seed = seed});
  if (out)
    *out = download<uint8_t>(memory, at, bytes.size());
  return result;
}

} // namespace

TEST(AsyncCopies, SizesAndZeros) {
  std::string store = "cp.async.wait_all;\nld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r2];\n"
                      "st.global.v4.b32 [%rd2], {%r10, %r11, %r12, %r13};";
  for (unsigned read = 0; read <= 16; ++read)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      std::vector<uint8_t> out;
      Result result = runCopies("cp.async.ca.shared.global [%r2], [%rd1], 16, " +
                                    std::to_string(read) + ";\n" + store,
                                seed, &out);
      ASSERT_TRUE(result.clean()) << result.str();
      for (unsigned i = 0; i < 512; ++i)
        ASSERT_EQ(out[i], i % 16 < read ? uint8_t(i) : 0) << read;
      EXPECT_EQ(result.counters.global.readBytes, read * 32u);
    }
  std::vector<uint8_t> out;
  Result result = runCopies("cp.async.ca.shared.global [%r2], [%rd1+8], 8;\n"
                            "cp.async.ca.shared.global [%r2+8], [%rd1+4], 4;\n"
                            "cp.async.ca.shared.global [%r2+12], [%rd1], 4, 0;\n" +
                                store,
                            0, &out);
  ASSERT_TRUE(result.clean()) << result.str();
  for (unsigned i = 0; i < 512; ++i)
    EXPECT_EQ(out[i], i % 16 < 8 ? uint8_t(i + 8) : i % 16 < 12 ? uint8_t(i - 4) : 0);
  // Nothing is read at the address if the size is 0.
  EXPECT_TRUE(
      runCopies("mov.u64 %rd1, 0;\ncp.async.cg.shared.global [%r2], [%rd1], 16, 0;", 0).clean());
}

TEST(AsyncCopies, Waits) {
  std::string copy = "cp.async.cg.shared.global [%r2], [%rd1], 16;\n",
              read = "ld.shared.b32 %r10, [%r2];\n", wait = "cp.async.wait_group 0;\n",
              commit = "cp.async.commit_group;\n", write = "st.shared.b32 [%r2], %r0;\n",
              barrier = "bar.sync 0;\n",
              other = "xor.b32 %r3, %r1, 16; mov.b32 %r4, cells; add.u32 %r4, %r4, %r3;\n"
                      "ld.shared.b32 %r10, [%r4];\n";
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto isClean = [&](const std::string &body) {
      Result result = runCopies(body, seed);
      EXPECT_TRUE(result.clean()) << body << result.str();
    };
    auto races = [&](const std::string &body, const char *message = "not waited for the copy") {
      Result result = runCopies(body, seed);
      EXPECT_TRUE(has(result, Check::Race, message)) << body << result.str();
    };
    isClean(copy + commit + wait + read);
    isClean(copy + "cp.async.wait_all;\n" + read);
    isClean(copy + commit + commit + "cp.async.wait_group 1;\n" + read);
    isClean(write + copy + commit + wait + write);
    isClean(copy); // a thread may end before its copy does
    isClean(copy + commit);
    isClean(copy + commit + wait + barrier + other);
    races(copy + read);
    races(copy + commit + read);
    races(copy + wait + read); // the copy is in no group
    races(copy + commit + "cp.async.wait_group 1;\n" + read);
    races(copy + commit + write);
    races(copy + commit + barrier + read);
    races(copy + copy);
    races(copy + commit + copy + commit + "cp.async.wait_group 1;\n" + read);
    races(copy + "@%p0 " + commit + wait + read);
    races(copy + commit + barrier + other);
    races(copy + commit + barrier + wait + other, "");
    races(copy + commit + wait + other, "no barrier orders them");
    races(other + copy, "no barrier orders them");
    races(copy + "st.global.b32 [%rd1], %r0;\n");
    races(copy + commit + barrier + "st.global.b32 [%rd1], %r0;\n" + wait);
    races("xor.b32 %r3, %r1, 16; cvt.u64.u32 %rd6, %r3; sub.u64 %rd7, %rd1, %rd3;\n"
          "add.u64 %rd7, %rd7, %rd6; st.global.b32 [%rd7], %r0;\n" +
              copy,
          "no barrier orders them");
    isClean(copy + commit + wait + "st.global.b32 [%rd1], %r0;\n");
  }
}

TEST(AsyncCopies, WrongSyntaxIsAnError) {
  for (const char *body :
       {"cp.async.cg.shared.global [%r0], [%rd0], 8;",
        "cp.async.ca.shared.global [%r0], [%rd0], 2;", "cp.async.shared.global [%r0], [%rd0], 16;",
        "cp.async.ca.shared.global [%r0], [%r1], 16;",
        "cp.async.ca.global.shared [%rd0], [%r0], 16, %p0;",
        "cp.async.ca.shared.global [%r0], [%rd0], 16, %p0;", "cp.async.wait_group %r0;",
        "cp.async.commit_group 0;", "cp.async.wait_all 0;",
        "cp.async.mbarrier.arrive.shared.b64 [%r0];", "cp.async.bulk.commit_group;"}) {
    std::string error;
    EXPECT_FALSE(parse(entry(1, body), error)) << body;
    EXPECT_NE(error, "");
  }
}
