//===- SeededFaultsTest.cpp - Faults that each checker detects ----------------===//
//
// Correct kernels have no findings in any order of execution (here and in LayerNormTest.cpp). Each
// fault is found by the checker for it, with every seed.
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"
#include "PtxTesting.h"

using namespace ptx;

namespace {

constexpr uint64_t seeds = 20;

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

Result runLayerNorm(const Module &module, uint64_t seed,
                    LaunchConfig config = {.grid = {3}, .block = {64}}, int columnsOff = 0,
                    bool freed = false) {
  Memory memory(seed);
  uint32_t columns = 500;
  uint64_t x = upload(memory, std::vector<float>(3 * columns, 1.5f), "x"),
           gamma = upload(memory, std::vector<float>(columns, 1), "gamma");
  uint64_t beta = upload(memory, std::vector<float>(columns, 1), "beta"),
           y = memory.allocate(3 * columns * 4, "y");
  memory.setReadOnly(x);
  if (freed)
    EXPECT_TRUE(memory.free(beta));
  config.seed = seed;
  config.maxInstructions = 100000;
  std::array arguments{Argument::pointer(x), Argument::pointer(gamma), Argument::pointer(beta),
                       Argument::pointer(y), Argument::of(uint32_t(int(columns) + columnsOff))};
  return launch(module, "layer_norm", arguments, memory, config);
}

// Other checkers may find consequences of a fault: without a barrier, data may also be unwritten.
void expectFound(const Result &result, Check check, const std::string &what,
                 const std::string &message = "") {
  for (const Finding &finding : result.findings)
    if (finding.check == check && finding.message.find(message) != std::string::npos &&
        (finding.line || check == Check::Launch))
      return;
  ADD_FAILURE() << what << " was not found by " << nameOf(check) << " (" << message << ")\n"
                << result.str();
}

} // namespace

TEST(SeededFaults, InALayerNorm) {
  struct Fault {
    const char *what, *from, *to;
    Check check;
    const char *message = "";
  };
  for (Fault fault : {
           Fault{"a barrier dropped", "bar.sync 0;", "", Check::Race, "of sums"},
           {"a shuffle of half a warp", "%r10, 16, 31, -1;", "%r10, 16, 31, 0xffff;",
            Check::Synchronization, "does not name the lane itself"},
           {"all lanes write the same sum", "@%p2 bra $L_exchanged;", "", Check::Race},
           {"one column too many", "setp.lt.u32 %p5", "setp.le.u32 %p5", Check::Memory,
            "0 bytes past the end of"},
           {"one column too many is summed", "setp.lt.u32 %p1, %r7, %r1;\n  @%p1 bra $L_sum;",
            "setp.le.u32 %p1, %r7, %r1;\n  @%p1 bra $L_sum;", Check::Memory, "past the end of x"},
           {"a vector that is not aligned", "shl.b32 %r5, %r3, 2;", "shl.b32 %r5, %r3, 1;",
            Check::Memory, "not aligned"},
           {"a sum that does not begin with zero", "mov.b32 %r10, 0f00000000;", "",
            Check::Initialization, "register"},
           {"a sum of one warp too many", "add.s32 %r20, %r4, 31;", "add.s32 %r20, %r4, 63;",
            Check::Initialization, "unwritten"},
           {"all blocks write one row", "add.s64 %rd7, %rd4, %rd5;", "mov.b64 %rd7, %rd4;",
            Check::Race, "nothing orders blocks"},
           {"a barrier of one lane", "bar.sync 0;", "@!%p2 bar.sync 0;", Check::Synchronization,
            "have ended"},
           {"lanes that end before the barrier", "@%p2 bra $L_exchanged;", "@%p2 bra $L_end;",
            Check::Synchronization, "have ended"},
           {"a warp that ends before the barrier", "bar.sync 0;",
            "setp.gt.u32 %p6, %r3, 31;\n@%p6 bra $L_end;\nbar.sync 0;", Check::Synchronization,
            "1 of 2 warps have ended"},
           {"an input is written", "add.s64 %rd7, %rd4, %rd5;", "add.s64 %rd7, %rd1, %rd5;",
            Check::Memory, "read-only memory"},
           {"a result is read with .nc", "ld.global.nc.v4.b32 {%r41, %r42, %r43, %r44}, [%rd18];",
            "add.s64 %rd18, %rd7, %rd15; mov.b32 %r41, 0; st.global.b32 [%rd18], %r41; "
            "ld.global.nc.b32 %r41, [%rd18]; mov.b32 %r42, 0; mov.b32 %r43, 0; mov.b32 %r44, 0;",
            Check::Race},
           {"a loop without end", "add.s32 %r7, %r7, %r6;\n  setp.lt.u32 %p1", "setp.lt.u32 %p1",
            Check::Limit},
           {"a trap", "$L_end:", "trap;\n$L_end:", Check::Trap},
           {"another barrier for each warp", "bar.sync 0;", "bar.sync %r19;",
            Check::Synchronization, "some threads never reach"},
           {"a barrier of too many", "bar.sync 0;", "bar.sync 0, 128;", Check::Synchronization,
            "128 threads"},
           {"another barrier for each lane", "bar.sync 0;",
            "mov.u32 %r19, %tid.x; and.b32 %r19, %r19, 1; bar.sync %r19;", Check::Synchronization,
            "name different barriers"},
           {"two barriers where there is one", "bar.sync 0;",
            "setp.gt.u32 %p6, %r3, 31;\n@%p6 bra $L_two;\nbar.sync 0;\nbra.uni "
            "$L_one;\n$L_two:\nbar.sync 0;\n$L_one:",
            Check::Synchronization, "others of the block wait at line"},
           {"shared memory past its end", "mov.b64 %rd11, squares;", "mov.b64 %rd11, squares+124;",
            Check::Memory, "past the end of squares"},
       }) {
    Module module = parsed(replaced(layerNormText, fault.from, fault.to));
    for (uint64_t seed = 0; seed < seeds; ++seed)
      expectFound(runLayerNorm(module, seed), fault.check, fault.what, fault.message);
  }
}

TEST(SeededFaults, InALaunch) {
  Module module = parsed(layerNormText);
  EXPECT_TRUE(runLayerNorm(module, 0).clean());
  expectFound(runLayerNorm(module, 0, {.grid = {4}, .block = {64}}), Check::Memory,
              "a row too many", "past the end of x");
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {64}}, 4), Check::Memory,
              "columns too many");
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {48}}), Check::Synchronization,
              "half a warp", "the block does not have");
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {2048}}), Check::Launch,
              "too many threads");
  expectFound(runLayerNorm(module, 0, {.grid = {0}, .block = {64}}), Check::Launch, "no blocks");
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {64}, .sharedBytes = 240 * 1024}),
              Check::Launch, "too much shared memory");
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {64}, .sharedBytes = ~0u - 16}),
              Check::Launch, "shared memory whose sum overflows", "are possible");
  // 2^64 + 64 threads.
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {536903681, 536838145, 64}}),
              Check::Launch, "threads whose product overflows", "1024x1024x64");
  expectFound(runLayerNorm(module, 0, {.grid = {3}, .block = {64}}, 0, true), Check::Memory,
              "use after free", "freed");
  expectFound(runLayerNorm(parsed(replaced(layerNormText, ".maxntid 1024", ".maxntid 32")), 0),
              Check::Launch, ".maxntid");
  expectFound(runLayerNorm(parsed(replaced(layerNormText, ".maxntid 1024", ".reqntid 32")), 0),
              Check::Launch, ".reqntid");
  Memory memory;
  expectFound(launch(module, "layer_norm", {}, memory, {}), Check::Launch, "no arguments");
  expectFound(launch(module, "other", {}, memory, {}), Check::Launch, "no such entry");
}

/// Returns a kernel with four steps of an exchange through shared memory.
static std::string exchange(const std::string &afterWrite, const std::string &afterRead,
                            const std::string &other) {
  return entry(1, R"(
  .shared .align 4 .b8 tile[512];
  mov.u32 %r1, %tid.x;
  mov.b64 %rd5, tile;
  mul.wide.u32 %rd6, %r1, 4;
  add.s64 %rd7, %rd5, %rd6;
  )" + other + R"(
  mul.wide.u32 %rd8, %r2, 4;
  add.s64 %rd9, %rd5, %rd8;
  mov.b32 %r3, 0;
  mov.b32 %r4, 0;
$L_loop:
  st.shared.b32 [%rd7], %r3;
  )" + afterWrite + R"(
  ld.shared.b32 %r5, [%rd9];
  add.s32 %r4, %r4, %r5;
  )" + afterRead + R"(
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, 4;
  @%p1 bra $L_loop;
  add.s64 %rd10, %rd0, %rd6;
  st.global.b32 [%rd10], %r4;)");
}

static Result runExchange(const std::string &text, uint32_t threads, uint64_t seed) {
  Module module = parsed(text);
  Memory memory(seed);
  uint64_t out = memory.allocate(threads * 4, "out");
  std::array arguments{Argument::pointer(out)};
  return launch(module, "k", arguments, memory, {.grid = {1}, .block = {threads}, .seed = seed});
}

TEST(SeededFaults, InAnExchangeOfWarps) {
  std::string other = "xor.b32 %r2, %r1, 64;", barrier = "bar.sync 0;", weak = "bar.warp.sync -1;";
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Result correct = runExchange(exchange(barrier, barrier, other), 128, seed);
    EXPECT_TRUE(correct.clean()) << correct.str();
    EXPECT_TRUE(
        runExchange(exchange("barrier.sync 0, 128;", "bar.sync 1;", other), 128, seed).clean());
    expectFound(runExchange(exchange(barrier, "", other), 128, seed), Check::Race,
                "no barrier after the reads", "no barrier orders them");
    expectFound(runExchange(exchange("", barrier, other), 128, seed), Check::Race,
                "no barrier after the writes");
    expectFound(runExchange(exchange(weak, weak, other), 128, seed), Check::Race,
                "barriers of warps");
    expectFound(runExchange(exchange("membar.cta;", barrier, other), 128, seed), Check::Race,
                "a fence for a barrier");
  }
}

/// Returns a kernel in which each block stores a number and counts itself. The last block adds all
/// numbers.
static std::string lastBlockAdds(const std::string &store, const std::string &before,
                                 const std::string &after, const std::string &atEnd) {
  return entry(3, R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mad.lo.u32 %r4, %r2, 64, %r1;
  mul.wide.u32 %rd3, %r4, 4;
  add.s64 %rd4, %rd0, %rd3;
  )" + store + R"(
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $L_counted;
  )" + before + R"(
  sub.u32 %r5, %r3, 1;
  atom.relaxed.gpu.global.inc.u32 %r6, [%rd1], %r5;
  )" + after + R"(
  st.shared.b32 [last], %r6;
$L_counted:
  )" + atEnd + R"(
  ld.shared.b32 %r6, [last];
  sub.u32 %r5, %r3, 1;
  setp.ne.u32 %p2, %r6, %r5;
  @%p2 bra $L_end;
  mov.b32 %r7, 0;
  mov.b32 %r8, 0;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd0, %rd3;
$L_add:
  ld.global.b32 %r9, [%rd4];
  add.u32 %r7, %r7, %r9;
  add.s64 %rd4, %rd4, 256;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p3, %r8, %r3;
  @%p3 bra $L_add;
  add.s64 %rd5, %rd2, %rd3;
  st.global.b32 [%rd5], %r7;
$L_end:)",
               ".shared .align 4 .b32 last;\n");
}

TEST(SeededFaults, InAnExchangeOfBlocks) {
  const uint32_t blocks = 5, threads = 64;
  std::string store = "st.global.b32 [%rd4], %r4;", fence = "fence.acq_rel.gpu;",
              barrier = "bar.sync 0;";
  auto run = [&](const std::string &text, uint64_t seed, std::vector<uint32_t> *sums = nullptr) {
    Module module = parsed(text);
    Memory memory(seed);
    uint64_t numbers = memory.allocate(blocks * threads * 4, "numbers"),
             counter = upload(memory, std::vector<uint32_t>(1, 0), "counter"),
             out = memory.allocate(threads * 4, "out");
    std::array arguments{Argument::pointer(numbers), Argument::pointer(counter),
                         Argument::pointer(out)};
    Result result = launch(module, "k", arguments, memory,
                           {.grid = {blocks}, .block = {threads}, .seed = seed});
    if (sums)
      *sums = download<uint32_t>(memory, out, threads);
    return result;
  };
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (const std::string &own :
         {fence, std::string("membar.gl;"), std::string("fence.sc.sys;")}) {
      std::vector<uint32_t> sums;
      Result correct = run(lastBlockAdds(store, own, own, barrier), seed, &sums);
      EXPECT_TRUE(correct.clean()) << correct.str();
      for (uint32_t i = 0; i < threads; ++i)
        EXPECT_EQ(sums[i], blocks * i + 64 * (blocks * (blocks - 1) / 2));
    }
    auto expectRace = [&](const std::string &text, const char *what) {
      expectFound(run(text, seed), Check::Race, what, "nothing orders blocks");
    };
    expectRace(lastBlockAdds(store, "", fence, barrier), "no fence before the count");
    expectRace(lastBlockAdds(store, fence, "", barrier), "no fence after the count");
    expectRace(lastBlockAdds(store, "fence.acq_rel.cta;", fence, barrier), "a fence of a block");
    expectRace(lastBlockAdds("", fence, fence + store, barrier), "a store after the count");
    std::string early = lastBlockAdds(store, fence, fence, barrier);
    expectRace(replaced(early, barrier, ""), "no barrier before the count");
  }
}

TEST(SeededFaults, InAnExchangeOfLanes) {
  std::string other = "xor.b32 %r2, %r1, 1;", barrier = "bar.warp.sync -1;";
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Result correct = runExchange(exchange(barrier, barrier, other), 64, seed);
    EXPECT_TRUE(correct.clean()) << correct.str();
    // Halves of a warp may diverge.
    std::string halves = "shr.u32 %r20, %r1, 4; and.b32 %r20, %r20, 1; setp.eq.b32 %p5, %r20, 0; "
                         "selp.b32 %r20, 0xffff, 0xffff0000, %p5;";
    EXPECT_TRUE(runExchange(exchange("bar.warp.sync %r20;", "bar.warp.sync %r20;", other + halves),
                            64, seed)
                    .clean());
    expectFound(runExchange(exchange("bar.warp.sync %r20;", "bar.warp.sync %r20;",
                                     "xor.b32 %r2, %r1, 16;" + halves),
                            64, seed),
                Check::Race, "the other half");
    expectFound(runExchange(exchange("", barrier, other), 64, seed), Check::Race,
                "lanes are not in step");
    expectFound(
        runExchange(exchange("shfl.sync.bfly.b32 %r21, %r1, 1, 31, -1;", barrier, other), 64, seed),
        Check::Race, "shuffles order no memory");
  }
}

TEST(SeededFaults, InShufflesOfDivergedLanes) {
  std::string split = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 bra $L_low;\n";
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    // Lanes wait at two shuffles, each of which needs all lanes, so neither can continue.
    expectFound(
        runExchange(
            entry(1, split + "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nbra.uni "
                             "$L_end;\n$L_low:\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n$L_end:"),
            32, seed),
        Check::Synchronization, "two shuffles", "wait elsewhere");
    // Some lanes have ended.
    expectFound(runExchange(entry(1, "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 bra "
                                     "$L_end;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n$L_end:"),
                            32, seed),
                Check::Synchronization, "a shuffle that some leave out", "have ended");
    // The shuffle reads a lane that is not in its mask.
    expectFound(runExchange(entry(1, "mov.u32 %r1, %tid.x;\nsetp.gt.u32 %p1, %r1, 7;\n@%p1 bra "
                                     "$L_end;\nshfl.sync.bfly.b32 %r2, %r1, 8, 31, 0xff;\n$L_end:"),
                            32, seed),
                Check::Synchronization, "a source outside", "does not name");
    // It is correct if all lanes reach one shuffle.
    EXPECT_TRUE(
        runExchange(
            entry(1, split + "mov.b32 %r3, 1;\n$L_low:\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;"),
            32, seed)
            .clean());
  }
}

TEST(SeededFaults, StoresToNeighboringBytesDoNotRace) {
  // Threads write bytes of one word, and read the word after a barrier.
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::string write = "mov.u32 %r1, %tid.x;\ncvt.u64.u32 %rd5, %r1;\nadd.s64 %rd6, %rd0, "
                        "%rd5;\nst.global.b8 [%rd6], %r1;\n";
    std::string read = "and.b64 %rd7, %rd6, -4;\nld.global.b32 %r2, [%rd7];";
    EXPECT_TRUE(runExchange(entry(1, write + "bar.sync 0;\n" + read), 64, seed).clean());
    expectFound(runExchange(entry(1, write + read), 64, seed), Check::Race, "no barrier");
  }
}

TEST(SeededFaults, AtomicsRaceOnlyWithOrdinaryAccesses) {
  std::string count = "mov.b32 %r2, 1;\nred.global.add.u32 [cell], %r2;\n",
              before = ".global .align 4 .u32 cell = 0;\n";
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    EXPECT_TRUE(runExchange(entry(1, count, before), 64, seed).clean());
    EXPECT_TRUE(
        runExchange(entry(1, count + "bar.sync 0;\nld.global.b32 %r3, [cell];", before), 64, seed)
            .clean());
    EXPECT_TRUE(
        runExchange(entry(1, count + "ld.relaxed.gpu.global.b32 %r3, [cell];", before), 64, seed)
            .clean());
    expectFound(runExchange(entry(1, count + "ld.global.b32 %r3, [cell];", before), 64, seed),
                Check::Race, "an ordinary read");
    expectFound(
        runExchange(entry(1, count + "st.volatile.global.b32 [cell], %r2;", before), 64, seed),
        Check::Race, "a volatile write");
  }
}

/// Each block writes its part, and the block that counts itself last reads all parts.
TEST(SeededFaults, ReleaseAndAcquireOrderBlocks) {
  std::string barrier = "bar.sync 0;\n",
              count = "atom.acq_rel.gpu.global.inc.u32 %r2, [cell], 2;\n";
  auto lastBlock = [&](const std::string &afterPart, const std::string &update,
                       const std::string &afterCount, const std::string &afterUpdate = "") {
    return entry(1,
                 "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nshl.b32 %r3, %r1, 6;\n"
                 "add.u32 %r3, %r3, %r0;\nmul.wide.u32 %rd1, %r3, 4;\nadd.u64 %rd1, %rd0, %rd1;\n"
                 "st.global.b32 [%rd1], %r3;\nsetp.eq.u32 %p0, %r0, 0;\nmov.u64 %rd3, flag;\n" +
                     afterPart + "@!%p0 bra $L_counted;\n" + update +
                     "st.shared.b32 [%rd3], %r2;\n" + afterUpdate + "$L_counted:\n" + afterCount +
                     "ld.shared.b32 %r2, [%rd3];\nsetp.ne.u32 %p1, %r2, 2;\n@%p1 bra $L_end;\n"
                     "mul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd1, %rd0, %rd1;\n"
                     "ld.global.b32 %r4, [%rd1];\nld.global.b32 %r5, [%rd1+256];\n"
                     "ld.global.b32 %r6, [%rd1+512];\n$L_end:\n",
                 ".global .align 4 .u32 cell = 0;\n.shared .align 4 .b32 flag;\n");
  };
  auto run = [&](const std::string &text, uint64_t seed) {
    Module module = parsed(text);
    Memory memory(seed);
    uint64_t out = memory.allocate(3 * 64 * 4, "out");
    std::array arguments{Argument::pointer(out)};
    return launch(module, "k", arguments, memory, {.grid = {3}, .block = {64}, .seed = seed});
  };
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Result correct = run(lastBlock(barrier, count, barrier), seed);
    EXPECT_TRUE(correct.clean()) << correct.str();
    expectFound(run(lastBlock("", count, barrier), seed), Check::Race, "a count before the parts",
                "nothing orders blocks");
    expectFound(run(lastBlock(barrier, count, ""), seed), Check::Race, "reads before the count");
    for (const char *order : {"relaxed.gpu", "acquire.gpu", "release.gpu", "acq_rel.cta"})
      expectFound(run(lastBlock(barrier, replaced(count, "acq_rel.gpu", order), barrier), seed),
                  Check::Race, order, "nothing orders blocks");
    expectFound(
        run(lastBlock(barrier, "membar.gl;\n" + replaced(count, ".acq_rel.gpu", ""), barrier),
            seed),
        Check::Race, "a fence", "nothing orders blocks");
    expectFound(run(lastBlock(barrier, count, barrier, "st.global.b32 [%rd1], %r2;\n"), seed),
                Check::Race, "a write after the release", "nothing orders blocks");
  }
}

/// A variable has its declared alignment, and a larger one only by chance. So an access that needs
/// a larger one is found in some launches, not in all.
TEST(SeededFaults, SharedVariablesHaveTheirDeclaredAlignment) {
  for (std::string offset : {"0", "4"}) {
    unsigned found = 0;
    for (uint64_t seed = 0; seed < 4 * seeds; ++seed) {
      Result result = runExchange(entry(1,
                                        "mov.b32 %r1, 0;\nmov.b64 %rd7, tile;\n"
                                        "st.shared.v2.b32 [%rd7+" +
                                            offset + "], {%r1, %r1};",
                                        ".shared .align 4 .b8 tile[64];\n"),
                                  1, seed);
      found += !result.clean() && result.findings[0].check == Check::Memory;
    }
    EXPECT_GT(found, seeds) << offset;
    EXPECT_LT(found, 3 * seeds) << offset;
  }
}

TEST(SeededFaults, BankConflictsAreCounted) {
  auto conflicts = [](uint32_t stride, const std::string &access) {
    Result result =
        runExchange(entry(1, ".shared .align 16 .b8 tile[65536];\nmov.u32 %r1, %tid.x;\nmov.b64 "
                             "%rd5, tile;\nmul.wide.u32 %rd6, %r1, " +
                                 std::to_string(stride) +
                                 ";\nadd.s64 %rd7, %rd5, %rd6;\nmov.b32 %r2, 0;\n" + access),
                    32, 0);
    EXPECT_TRUE(result.clean()) << result.str();
    return std::pair(result.counters.sharedCycles, result.counters.sharedConflicts);
  };
  std::string word = "st.shared.b32 [%rd7], %r2;";
  EXPECT_EQ(conflicts(4, word), std::pair(1ul, 0ul));
  EXPECT_EQ(conflicts(8, word), std::pair(2ul, 1ul));
  EXPECT_EQ(conflicts(128, word), std::pair(32ul, 31ul));
  EXPECT_EQ(conflicts(132, word), std::pair(1ul, 0ul));
  EXPECT_EQ(conflicts(16, "st.shared.v4.b32 [%rd7], {%r2, %r2, %r2, %r2};"), std::pair(4ul, 0ul));
  EXPECT_EQ(conflicts(8, "st.shared.v2.b32 [%rd7], {%r2, %r2};"), std::pair(2ul, 0ul));
  EXPECT_EQ(conflicts(128, "st.shared.v4.b32 [%rd7], {%r2, %r2, %r2, %r2};"),
            std::pair(32ul, 28ul));
  // Lanes that read one word are one access.
  EXPECT_EQ(
      conflicts(4, "st.shared.b32 [%rd7], %r2;\nbar.warp.sync -1;\nld.shared.b32 %r3, [%rd5];"),
      std::pair(2ul, 0ul));
}
