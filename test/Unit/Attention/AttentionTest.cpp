//===- AttentionTest.cpp - PTX attention kernels against the CPU's --------===//

#include "AttentionCases.h"

#include "tpc/Conversion/Cuda/Attention.h"
#include "tpc/Conversion/Cuda/Cuda.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::tpc;

namespace {

struct Code {
  cuda::Code text;
  std::optional<ptx::Module> module;
  std::vector<attention::Kernels> kernels;
};

/// Maximum shared memory per block that a launch may request on all architectures: sm_86 and sm_89
/// have the least.
constexpr unsigned kMaxShared = 99 * 1024;

/// Compiles all variants to one PTX text, as programs compile their kernels.
Code makeCode(const std::vector<attention::Variant> &variants) {
  MLIRContext context;
  context
      .loadDialect<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect, NVVM::NVVMDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  Code code;
  for (const attention::Variant &variant : variants) {
    cuda::AttentionKernels made = cuda::makeAttentionKernels(*module, variant);
    for (const cuda::Launch *launch : {&made.tiles, &made.split})
      code.text.launches.push_back(*launch);
    auto entryOf = [](const cuda::Launch &launch) {
      return attention::Entry{launch.name, launch.threads, launch.dynamicSharedBytes};
    };
    code.kernels.push_back({variant, entryOf(made.tiles), entryOf(made.split)});
  }
  // writePtx() also checks that all rounding is explicit.
  llvm::Expected<std::string> text = cuda::writePtx(*module, {80}, 3);
  if (!text) {
    ADD_FAILURE() << llvm::toString(text.takeError());
    return code;
  }
  code.text.ptx = *text;
  std::string error;
  code.module = ptx::parse(*text, error);
  EXPECT_TRUE(code.module) << error;
  return code;
}

bool isLong() {
  const char *level = std::getenv("TPC_TESTS");
  return level && StringRef(level) == "long";
}

/// The default suite tests every sixth variant with a few cases, which differ between variants.
/// Its long cases have small heads. The long suite tests all cases of all variants.
TEST(Attention, MatchesTheCpu) {
  std::vector<attention::Variant> variants;
  for (auto [i, variant] : llvm::enumerate(attention::getVariants()))
    if (isLong() || i % 6 == 1)
      variants.push_back(variant);
  Code code = makeCode(variants);
  ASSERT_TRUE(code.module);
  const uint64_t cases = isLong() ? 20 : 2;
  unsigned runs = 0;
  for (auto [i, kernels] : llvm::enumerate(code.kernels))
    for (uint64_t seed = 7 * i, done = 0; done < cases; ++seed) {
      attention::Case made = attention::drawCase(kernels.variant, seed);
      int64_t work = made.batch * made.kvHeads * made.group * made.queries * made.keys *
                     (kernels.variant.headSize + kernels.variant.valueSize);
      if (!isLong() && work > 300000)
        continue;
      ++done;
      ++runs;
      for (attention::Way way : {attention::Way::Tiles, attention::Way::Split}) {
        // Keys are split only if there are few rows.
        constexpr int64_t most = ::tpc::attention::kRowsOfSplit;
        if (way == attention::Way::Split && made.queries * made.group > most) {
          made.group = std::min(made.group, most);
          made.queries = std::min(made.queries, most / made.group);
        }
        attention::Outcome outcome = attention::run(*code.module, kernels, made, way);
        EXPECT_EQ(outcome.problem, "")
            << (way == attention::Way::Tiles ? kernels.tiles : kernels.split).name << ": "
            << made.str();
      }
    }
  if (isLong())
    EXPECT_GE(runs, 300u);
}

/// Checks the resources that ptxas reports for the same kernels, if it is installed.
TEST(Attention, FitsIntoRegisters) {
  std::string assembler = cuda::findAssembler();
  if (assembler.empty())
    return;
  std::vector<attention::Variant> variants = attention::getVariants();
  if (!isLong()) {
    variants = {variants[7]};
    for (auto [element, size] : {std::pair(TPC_F16, 128), std::pair(TPC_BF16, 64)})
      variants.push_back({.element = element,
                          .headSize = size,
                          .valueSize = size,
                          .causal = true,
                          .cached = true});
  }
  Code code = makeCode(variants);
  const cuda::Architectures architectures =
      isLong() ? cuda::Architectures{80, 90, 100} : cuda::Architectures{90};
  llvm::Error error = cuda::assemble(code.text, architectures, assembler);
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  for (const cuda::Cubin &cubin : code.text.cubins)
    for (auto [i, needs] : llvm::enumerate(cubin.kernels)) {
      const cuda::Launch &launch = code.text.launches[i];
      // Other values leave too few of 255 registers for the sums of four rows of 256 values.
      unsigned spills = code.kernels[i / 2].variant.valueSize > 128 ? 256 : 0;
      EXPECT_LE(needs.spillBytes, spills) << launch.name << " for sm_" << cubin.architecture;
      // Registers and shared memory per block that all of these architectures have.
      EXPECT_LE(needs.registers * launch.threads, 65536u) << launch.name;
      EXPECT_LE(needs.sharedBytes + launch.dynamicSharedBytes, kMaxShared) << launch.name;
    }
}

/// Many rows of 16-bit elements are multiplied by tensor cores, and copied 16 bytes at a time.
TEST(Attention, UsesTensorCores) {
  for (int32_t element : {TPC_F32, TPC_F16, TPC_BF16}) {
    attention::Variant variant{
        .element = element, .headSize = 64, .valueSize = 64, .causal = true, .cached = true};
    Code code = makeCode({variant});
    StringRef text = code.text.ptx;
    text = text.take_front(text.find(code.kernels[0].split.name + "("));
    StringRef type = element == TPC_F16 ? "f16" : "bf16";
    std::string matmul =
        ("mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type + ".f32").str();
    bool hasTensorCores = element != TPC_F32;
    EXPECT_EQ(cuda::getTensorTile(variant).has_value(), hasTensorCores);
    // Scores before and in the loop over keys, and sums in and after it: 4 steps of 8 fragments.
    EXPECT_EQ(text.count(matmul), hasTensorCores ? 4 * 4 * 8 : 0u);
    EXPECT_EQ(text.count("mma.sync"), text.count(matmul));
    EXPECT_EQ(text.contains("cp.async.cg.shared.global"), hasTensorCores);
    EXPECT_EQ(text.count("cp.async.cg.shared.global"), text.count("], 16, "));
  }
}

void expectFewConflicts(const ptx::Counters &counters, const std::string &what) {
  EXPECT_LE(double(counters.sharedConflicts), 0.25 * double(counters.sharedRequests)) << what;
}

/// Checks the bytes of keys and values that are read, in multiples of one pass over them.
void expectPasses(const ptx::Counters &counters, const attention::Kernels &kernels,
                  const attention::Case &made, double passes) {
  int64_t size = kernels.variant.element == TPC_F32 ? 4 : 2;
  auto bytes = double(made.batch * made.keys * made.kvHeads * kernels.variant.headSize * size);
  for (const char *operand : {"k", "v"})
    EXPECT_LE(32.0 * double(counters.allocations.at(operand).readSectors), 1.1 * passes * bytes)
        << operand << ", " << kernels.tiles.name << ": " << made.str();
}

/// Checks the bytes that are read, and conflicts of shared memory banks.
TEST(Attention, ReadsKeysOncePerPass) {
  std::vector<attention::Variant> variants(isLong() ? 4 : 2);
  variants[0] = {.headSize = 64, .valueSize = 64};
  variants[1] = {.element = TPC_F16, .headSize = 128, .valueSize = 128};
  if (isLong()) {
    variants[2] = {.element = TPC_F16, .headSize = 64, .valueSize = 64};
    variants[3] = {.headSize = 80, .valueSize = 80, .causal = true, .windowed = true};
  }
  Code code = makeCode(variants);
  ASSERT_TRUE(code.module);
  for (const attention::Kernels &kernels : code.kernels)
    for (auto [queries, keys] : {std::pair(64, 64), std::pair(65, 130)}) {
      attention::Case made;
      made.queries = queries;
      made.keys = keys;
      made.kvHeads = 2;
      made.offset = keys;
      made.window = keys;
      attention::Outcome outcome =
          attention::run(*code.module, kernels, made, attention::Way::Tiles);
      EXPECT_EQ(outcome.problem, "");
      expectPasses(outcome.counters, kernels, made, double((queries + 63) / 64));
      expectFewConflicts(outcome.counters, kernels.tiles.name + ": " + made.str());
    }
}

/// With one query and four heads that share keys, each block of keys is read once for all heads.
TEST(Attention, ReadsKeysOnceForOneQuery) {
  Code code = makeCode({{.headSize = 64, .valueSize = 64, .causal = true}});
  ASSERT_TRUE(code.module);
  attention::Case made;
  made.keys = 600;
  made.offset = 599;
  made.kvHeads = 2;
  made.group = 4;
  attention::Outcome outcome =
      attention::run(*code.module, code.kernels[0], made, attention::Way::Split);
  EXPECT_EQ(outcome.problem, "");
  expectPasses(outcome.counters, code.kernels[0], made, 1);
  expectFewConflicts(outcome.counters, made.str());
}

/// Partial results are combined in order, whichever block finishes last.
TEST(Attention, SplitKeysHaveTheSameBitsOnEveryGrid) {
  for (int32_t element : {TPC_F32, TPC_BF16}) {
    Code code = makeCode(
        {{.element = element, .headSize = 8, .valueSize = 8, .causal = true, .cached = true}});
    ASSERT_TRUE(code.module);
    attention::Case made{.batch = 3, .keys = 700, .kvHeads = 2, .group = 4, .seed = 5};
    std::vector<std::vector<uint8_t>> results;
    for (int64_t blocks : {1, 7, 66, 100}) {
      made.blocks = blocks;
      attention::Outcome outcome =
          attention::run(*code.module, code.kernels[0], made, attention::Way::Split);
      EXPECT_EQ(outcome.problem, "") << made.str();
      results.push_back(outcome.bits);
    }
    EXPECT_FALSE(results[0].empty());
    for (const std::vector<uint8_t> &result : results)
      EXPECT_EQ(result, results[0]);
  }
}

/// A sequence has the same bits alone as in a batch with others, whose lengths differ.
TEST(Attention, SplitKeysHaveTheSameBitsAloneAndInABatch) {
  for (auto [element, cached] : {std::pair(TPC_F32, true), {TPC_F32, false}, {TPC_F16, true}}) {
    Code code = makeCode(
        {{.element = element, .headSize = 8, .valueSize = 8, .causal = true, .cached = cached}});
    ASSERT_TRUE(code.module);
    attention::Case made{
        .batch = 4, .keys = 700, .kvHeads = 2, .group = 4, .offset = cached ? 0 : 699, .seed = 6};
    auto run = [&](int64_t sequence) {
      made.sequence = sequence;
      attention::Outcome outcome =
          attention::run(*code.module, code.kernels[0], made, attention::Way::Split);
      EXPECT_EQ(outcome.problem, "") << made.str();
      return outcome.bits;
    };
    std::vector<uint8_t> all = run(-1), joined;
    for (int64_t sequence = 0; sequence < made.batch; ++sequence)
      for (uint8_t byte : run(sequence))
        joined.push_back(byte);
    EXPECT_FALSE(all.empty());
    EXPECT_EQ(all, joined);
  }
}

/// With many keys, a bias of slope * key is large, and adding it loses the last bits of a score. In
/// contrast, slope * (key - query) is small for keys with a large weight. So the op is more exact
/// than the bias that it is raised from, and the difference between both is the error of the bias.
TEST(Attention, SlopesAreMoreExactThanABias) {
  for (int64_t keys : {256, 2048}) {
    attention::SlopeErrors errors = attention::measureSlopes(keys);
    EXPECT_LE(errors.slopes, 5e-7) << keys;
    EXPECT_LE(errors.slopes, 0.2 * errors.bias) << keys;
    EXPECT_LE(errors.difference, 1.1 * (errors.bias + errors.slopes)) << keys;
  }
}

/// Applies each fault, such as a removed barrier, at each place in the text where it is possible.
/// The comparison must find each. The default suite tests every third place.
void expectFaultsFound(const Code &code, ArrayRef<attention::Case> cases, attention::Way way,
                       ArrayRef<std::tuple<StringRef, StringRef, unsigned>> faults) {
  StringRef text = code.text.ptx;
  auto isFound = [&](const std::string &wrong) {
    std::string error;
    auto module = ptx::parse(wrong, error);
    EXPECT_TRUE(module) << error;
    return module && llvm::any_of(cases, [&](const attention::Case &one) {
             return !attention::run(*module, code.kernels[0], one, way).problem.empty();
           });
  };
  for (const attention::Case &one : cases)
    EXPECT_EQ(attention::run(*code.module, code.kernels[0], one, way).problem, "") << one.str();
  size_t split = text.find(code.kernels[0].split.name + "(");
  bool isSplit = way == attention::Way::Split;
  size_t begin = isSplit ? split : 0, end = isSplit ? text.size() : split;
  for (auto [was, is, least] : faults) {
    unsigned numFound = 0;
    for (size_t at = text.find(was, begin); at < end; at = text.find(was, at + 1), ++numFound)
      if (isLong() || numFound % 6 == 0)
        EXPECT_TRUE(isFound((text.take_front(at) + is + text.drop_front(at + was.size())).str()))
            << "line " << text.take_front(at).count('\n') + 1 << ": " << was.str();
    EXPECT_GE(numFound, least) << was.str();
  }
}

TEST(Attention, FaultsOfTilesAreFound) {
  Code code = makeCode({{.headSize = 8, .valueSize = 8}});
  ASSERT_TRUE(code.module);
  attention::Case made;
  made.queries = 65;
  made.keys = 130;
  // In the second case, rows are not aligned, which takes other paths.
  attention::Case unaligned = made;
  unaligned.shift = 1;
  expectFaultsFound(code, {made, unaligned}, attention::Way::Tiles,
                    {{"bar.sync", "// bar.sync", 4},
                     {"\tst.shared", "\t// st.shared", 8},
                     {", 8, 31, -1;", ", 4, 31, -1;", 8},
                     {", 1, 31, -1;", ", 1, 31, 65535;", 8}});
}

/// Five tiles of keys, the last one with missing keys; in the third case, no row sees a key.
TEST(Attention, FaultsOfTensorTilesAreFound) {
  Code code = makeCode({{.element = TPC_BF16, .headSize = 32, .valueSize = 32, .causal = true}});
  ASSERT_TRUE(code.module);
  attention::Case made{.queries = 65, .keys = 318, .offset = 253};
  attention::Case unaligned = made, hidden = made;
  unaligned.shift = 1;
  hidden.offset = -65;
  expectFaultsFound(code, {made, unaligned, hidden}, attention::Way::Tiles,
                    {{"bar.sync", "// bar.sync", 4},
                     {"\tst.shared", "\t// st.shared", 5},
                     {"cp.async.wait_group", "// cp.async.wait_group", 3},
                     {"cp.async.wait_group \t0", "cp.async.wait_group \t1", 2},
                     {"cp.async.commit_group", "// cp.async.commit_group", 3},
                     {"\tcp.async.cg", "\t// cp.async.cg", 5},
                     {"ldmatrix.sync.aligned.m8n8.x4.trans", "ldmatrix.sync.aligned.m8n8.x4", 8},
                     {"ex2.approx.ftz.f32", "mov.b32", 8},
                     {", 2, 31, -1;", ", 4, 31, -1;", 4},
                     {", 1, 31, -1;", ", 1, 31, 65535;", 4}});
}

/// Fragments of tensor cores have 16 rows. There are several parts, and an odd number of turns.
TEST(Attention, FaultsOfFragmentsAreFound) {
  Code code = makeCode({{.element = TPC_BF16, .headSize = 8, .valueSize = 8}});
  ASSERT_TRUE(code.module);
  EXPECT_GE(StringRef(code.text.ptx).count("mma.sync.aligned.m16n8k16"), 8u);
  attention::Case made;
  made.queries = 4;
  made.group = 3;
  made.keys = 2300;
  attention::Case one = made;
  one.queries = 5;
  one.keys = 60;
  attention::Case unaligned = made;
  unaligned.shift = 1;
  expectFaultsFound(
      code, {one, made, unaligned}, attention::Way::Split,
      {{"0x5410U", "0x7632U", 4}, {"0x7632U", "0x5410U", 4}, {", 2, 31, -1;", ", 4, 31, -1;", 4}});
}

/// Keys have more than 16 parts, and rows need two passes.
TEST(Attention, FaultsOfSplitKeysAreFound) {
  Code code = makeCode({{.headSize = 8, .valueSize = 8}});
  ASSERT_TRUE(code.module);
  attention::Case made;
  made.queries = 2;
  made.group = 3;
  made.keys = 1100;
  attention::Case unaligned = made;
  unaligned.shift = 1;
  expectFaultsFound(code, {made, unaligned}, attention::Way::Split,
                    {{"bar.sync", "// bar.sync", 5},
                     {"\tst.shared", "\t// st.shared", 8},
                     {"atom.acq_rel.gpu", "atom.relaxed.gpu", 2},
                     {"atom.acq_rel.gpu.global.inc", "atom.acq_rel.gpu.global.min", 2},
                     {", 8, 31, -1;", ", 4, 31, -1;", 8},
                     {", 1, 31, -1;", ", 1, 31, 65535;", 8}});
}

} // namespace
