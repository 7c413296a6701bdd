//===- MemoryPlanTest.cpp - Memory plans evaluated at concrete sizes ------===//
//
// Plans random programs of matmuls, kernels, reductions and reshapes. Then runs each plan at many
// sizes on a memory model that records, for each byte, the value that was last written there. The
// contents of memory that is read must equal the tensor. tpc-verify-buffers proves the same for all
// sizes; here nothing is symbolic.
//
//===----------------------------------------------------------------------===//

#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Driver/Register.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Tensors of a few types; any of them may share a buffer.
constexpr struct {
  const char *name, *type;
} types[] = {{"!n8", "tensor<?x8xf32, #tpc.dist<[n, 8], local>>"},
             {"!n16", "tensor<?x16xf32, #tpc.dist<[n, 16], local>>"},
             {"!heads", "tensor<?x2x4xf32, #tpc.dist<[n, 2, 4], local>>"},
             {"!s8", "tensor<?x8xf32, #tpc.dist<[s, 8], local>>"},
             {"!sum", "tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>"}};
enum { N8, N16, Heads, S8, Sum, NumTypes };

std::string makeProgram(unsigned seed) {
  std::mt19937 random(seed);
  auto choose = [&](unsigned n) { return unsigned(random() % n); };
  std::vector<std::string> values[NumTypes] = {{"x"}, {}, {}, {"y"}, {"p"}};
  std::string body;
  unsigned next = 0;
  auto add = [&](int type, const std::string &text) {
    std::string name = std::to_string(next++);
    body += "    %" + name + " = " + text + " -> " + types[type].name + "\n";
    values[type].push_back(name);
  };
  auto any = [&](int type) { return "%" + values[type][choose(values[type].size())]; };
  auto is = [&](int type) { return std::string(" : ") + types[type].name; };
  auto product = [&](int from, const char *weight, const char *weightType, int to) {
    add(to, "tpc.matmul " + any(from) + ", " + weight + is(from) + ", " + weightType);
  };
  for (unsigned step = 0, steps = 4 + choose(12); step < steps; ++step) {
    int type = int(choose(NumTypes));
    if (values[type].empty())
      continue;
    switch (choose(5)) {
    case 0:
      if (type != Sum)
        add(type, "tpc.exp " + any(type) + is(type));
      break;
    case 1:
      add(type, "tpc.add " + any(type) + ", " + any(type) + is(type) + ", " + types[type].name);
      break;
    default:
      if (type == N8 && choose(2))
        product(N8, "%u", "tensor<8x8xf32>", N8);
      else if (type == N8)
        choose(2) ? product(N8, "%w", "tensor<8x16xf32>", N16)
                  : add(Heads, "tpc.reshape " + any(N8) + is(N8));
      else if (type == N16)
        product(N16, "%v", "tensor<16x8xf32>", N8);
      else if (type == Heads)
        add(N8, "tpc.reshape " + any(Heads) + is(Heads));
      else if (type == S8)
        product(S8, "%u", "tensor<8x8xf32>", S8);
      else
        add(N8, "tpc.all_reduce " + any(Sum) + " over [\"tp\"]" + is(Sum));
    }
  }
  // Results may be arguments, or equal to or aliases of other results.
  std::string returned, resultTypes, outputs, delivered;
  for (unsigned i = 0, n = 1 + choose(3); i < n; ++i) {
    int type = int(choose(Sum));
    if (values[type].empty())
      type = N8;
    returned += (i ? ", " : "") + any(type);
    resultTypes += std::string(i ? ", " : "") + types[type].name;
    delivered +=
        "      tpc.output " + std::to_string(i) + ", %r#" + std::to_string(i) + is(type) + "\n";
    outputs += std::string(i ? ", " : "") + "{type = " + types[type].name + "}";
  }
  std::string program;
  for (auto &type : types)
    program += std::string(type.name) + " = " + type.type + "\n";
  std::string args = "%x: !n8, %y: !s8, %p: !sum, %u: tensor<8x8xf32>, %w: tensor<8x16xf32>, "
                     "%v: tensor<16x8xf32>";
  return program + "module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {\n" +
         "  func.func private @layer(" + args + ") -> (" + resultTypes + ") {\n" + body +
         "    return " + returned + " : " + resultTypes + "\n  }\n  tpc.pipeline @main(" + args +
         ") inputs [{}, {}, {}, {}, {}, {}] outputs [" + outputs +
         "] {\n    tpc.stage 0 {\n      tpc.micro_batches {\n      %r:" +
         std::to_string(llvm::StringRef(returned).count('%')) +
         " = func.call @layer(%x, %y, %p, %u, %w, %v) : (!n8, !s8, !sum, tensor<8x8xf32>, "
         "tensor<8x16xf32>, tensor<16x8xf32>) -> (" +
         resultTypes + ")\n" + delivered + "      }\n    }\n  }\n}\n";
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

using Content = int;
constexpr Content garbage = -1, empty = -2;

/// Numbers values by the op and the values that it read. Equal numbers mean equal values.
class Contents {
public:
  Content get(const std::string &op, ArrayRef<Content> read) {
    std::string key = op;
    for (Content c : read)
      key += " " + std::to_string(c);
    return numbers.try_emplace(key, Content(numbers.size())).first->second;
  }

private:
  std::map<std::string, Content> numbers;
};

using Symbols = std::map<std::string, int64_t>;

/// Interprets the function on tensors.
class Tensors {
public:
  Tensors(ModuleOp module, Contents &contents, const Symbols &symbols)
      : module(module), contents(contents), symbols(symbols) {}

  SmallVector<Content> run(Block &block, ArrayRef<Content> arguments) {
    DenseMap<Value, Content> known;
    for (auto [argument, content] : llvm::zip_equal(block.getArguments(), arguments))
      known[argument] = content;
    auto set = [&](Value v, Content content) {
      SymExpr elements = substituteNumbers(getNumElements(v.getType(), MeshAttr::lookup(module)),
                                           MeshAttr::lookup(module));
      known[v] = elements.evaluate(symbols) == 0 ? empty : content;
    };
    for (Operation &op : block.without_terminator()) {
      auto read = llvm::map_to_vector(op.getOperands(), [&](Value v) { return known.at(v); });
      if (auto call = dyn_cast<func::CallOp>(op)) // a call of a kernel
        for (auto [i, result] : llvm::enumerate(call.getResults()))
          set(result, contents.get(call.getCallee().str() + std::to_string(i), read));
      else if (isa<ReshapeOp>(op))
        set(op.getResult(0), read[0]);
      else
        set(op.getResult(0), contents.get(op.getName().stripDialect().str(), read));
    }
    return llvm::map_to_vector(block.getTerminator()->getOperands(),
                               [&](Value v) { return known.at(v); });
  }

private:
  ModuleOp module;
  Contents &contents;
  const Symbols &symbols;
};

/// Interprets the function on buffers.
class Memory {
public:
  Memory(ModuleOp module, Contents &contents, const Symbols &symbols)
      : module(module), contents(contents), symbols(symbols) {}

  struct Range {
    int region = 0;
    int64_t begin = 0, size = 0; // bytes
  };

  int makeRegion(int64_t bytes, Content content = garbage) {
    regions.push_back(std::vector<Content>(size_t(bytes), content));
    return int(regions.size()) - 1;
  }
  Content read(const Range &p) {
    if (p.size == 0)
      return empty;
    Content first = regions[p.region][size_t(p.begin)];
    for (int64_t i = 0; i < p.size; ++i)
      if (regions[p.region][size_t(p.begin + i)] != first)
        return garbage;
    return first;
  }

  void run(Block &block, ArrayRef<Range> arguments);
  int64_t eval(SymExprAttr expr) {
    return *substituteNumbers(expr.getExpr(), MeshAttr::lookup(module)).evaluate(symbols);
  }

  std::map<int64_t, Content> outputs, inputs;
  int64_t most = 0; // total bytes of all live frames

private:
  ModuleOp module;
  Contents &contents;
  const Symbols &symbols;
  std::vector<std::vector<Content>> regions;
  int64_t used = 0;
};

void Memory::run(Block &block, ArrayRef<Range> arguments) {
  DenseMap<Value, Range> ranges;
  DenseMap<Value, int> frames;
  for (auto [argument, range] : llvm::zip_equal(block.getArguments(), arguments))
    ranges[argument] = range;
  auto bytes = [&](buffer::ExtentAttr extent) {
    return *substituteNumbers(extent.getBytes(), MeshAttr::lookup(module)).evaluate(symbols);
  };
  auto write = [&](const Range &p, Content content) {
    for (int64_t i = 0; i < p.size; ++i)
      regions[p.region][size_t(p.begin + i)] = content;
  };
  auto overlap = [](const Range &a, const Range &b) {
    return a.region == b.region && a.begin < b.begin + b.size && b.begin < a.begin + a.size;
  };
  for (Operation &op : block) {
    if (auto push = dyn_cast<buffer::PushOp>(op)) {
      int64_t size = eval(push.getBytes());
      most = std::max(most, used += size);
      frames[push.getFrame()] = makeRegion(size);
    } else if (auto pop = dyn_cast<buffer::PopOp>(op)) {
      used -= int64_t(regions[frames.at(pop.getFrame())].size());
      llvm::fill(regions[frames.at(pop.getFrame())], garbage);
    } else if (auto slot = dyn_cast<buffer::SlotOp>(op)) {
      Range range{frames.at(slot.getFrame()), eval(slot.getOffset()), bytes(slot.getExtent())};
      EXPECT_EQ(range.begin % 64, 0);
      ASSERT_GE(range.begin, 0);
      ASSERT_LE(range.begin + range.size, int64_t(regions[range.region].size()));
      ranges[slot.getBuffer()] = range;
    } else if (auto input = dyn_cast<buffer::InputOp>(op)) {
      int64_t size = bytes(input.getExtent());
      inputs[input.getIndex()] = contents.get("input " + std::to_string(input.getIndex()), {});
      ranges[input.getBuffer()] = {makeRegion(size, inputs[input.getIndex()]), 0, size};
    } else if (auto iterations = dyn_cast<buffer::MicroBatchesOp>(op)) {
      // The loop's block reads values from outside, which are passed as arguments here.
      Block &inner = iterations.getBody().front();
      SmallVector<Value> outside;
      SmallVector<Range> passed;
      inner.walk([&](Operation *user) {
        for (Value v : user->getOperands())
          if (ranges.count(v) && !llvm::is_contained(outside, v)) {
            outside.push_back(v);
            passed.push_back(ranges[v]);
          }
      });
      for (Value &v : outside) {
        Value argument = inner.addArgument(v.getType(), op.getLoc());
        v.replaceUsesWithIf(argument,
                            [&](OpOperand &use) { return use.getOwner()->getBlock() == &inner; });
      }
      run(inner, passed);
    } else if (auto call = dyn_cast<buffer::CallOp>(op)) {
      auto callee = module.lookupSymbol<buffer::FuncOp>(call.getCallee());
      SmallVector<Range> passed;
      for (Value v : op.getOperands())
        passed.push_back(ranges.at(v));
      run(callee.getBody().front(), passed);
    } else if (auto output = dyn_cast<buffer::OutputOp>(op)) {
      outputs[output.getIndex()] = read(ranges.at(output.getData()));
    } else {
      SmallVector<Content> reads;
      SmallVector<Range> from, to;
      SmallVector<MemoryEffects::EffectInstance> effects;
      cast<MemoryEffectOpInterface>(op).getEffects(effects);
      for (auto &effect : effects) {
        const Range &range = ranges.at(effect.getValue());
        if (isa<MemoryEffects::Read>(effect.getEffect())) {
          reads.push_back(read(range));
          from.push_back(range);
          EXPECT_NE(reads.back(), garbage) << "read by " << op.getName().getStringRef().str();
        } else {
          to.push_back(range);
        }
      }
      // An all-reduce may work in place. Other ops may read while they write, so their operands and
      // results must not overlap.
      for (const Range &a : to)
        for (const Range &b : from)
          EXPECT_TRUE(!overlap(a, b) || (isa<buffer::AllReduceOp>(op) && a.begin == b.begin));
      for (auto [i, range] : llvm::enumerate(to)) {
        if (isa<buffer::CopyOp>(op)) {
          EXPECT_EQ(eval(cast<buffer::CopyOp>(op).getBytes()), range.size);
          write(range, reads[0]);
        } else if (auto launch = dyn_cast<buffer::LaunchOp>(op)) {
          write(range, contents.get(launch.getKernel().str() + std::to_string(i), reads));
        } else {
          write(range, contents.get(isa<buffer::AllReduceOp>(op) ? "all_reduce" : "matmul", reads));
        }
      }
    }
    if (::testing::Test::HasFatalFailure())
      return;
  }
}

class MemoryPlan : public ::testing::Test {
protected:
  MemoryPlan() {
    DialectRegistry registry;
    ::tpc::registerAllDialects(registry);
    context.appendDialectRegistry(registry);
  }

  OwningOpRef<ModuleOp> plan(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager pm(&context);
    pm.addPass(createOutlineKernels());
    pm.addPass(createPlanBuffers());
    if (module && failed(pm.run(*module)))
      module = nullptr;
    return module;
  }

  MLIRContext context;
};
} // namespace

TEST_F(MemoryPlan, BuffersContainTheTensors) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::string text = makeProgram(seed);
    SCOPED_TRACE(text);
    OwningOpRef<ModuleOp> module = plan(text);
    ASSERT_TRUE(module);
    auto layer = module->lookupSymbol<func::FuncOp>("layer");
    for (int64_t n : {0, 1, 3, 9})
      for (int64_t s : {0, 2, 5, 40}) {
        Symbols symbols{{"n", n}, {"s", s}, {"rank.tp", 1}, {"rank.mb", 0}};
        Contents contents;
        OwningOpRef<ModuleOp> copy = module->clone();
        Memory memory(*copy, contents, symbols);
        memory.run(copy->lookupSymbol<buffer::FuncOp>("main_stage_0_on_buffers").getBody().front(),
                   {});
        SmallVector<Content> arguments;
        for (BlockArgument argument : layer.getArguments()) {
          auto elements = getNumElements(argument.getType(), MeshAttr::lookup(*module));
          bool none = substituteNumbers(elements, MeshAttr::lookup(*module)).evaluate(symbols) == 0;
          arguments.push_back(
              none ? empty : contents.get("input " + std::to_string(argument.getArgNumber()), {}));
        }
        SmallVector<Content> meant =
            Tensors(*module, contents, symbols).run(layer.front(), arguments);
        ASSERT_EQ(memory.outputs.size(), meant.size());
        for (auto [i, content] : llvm::enumerate(meant))
          ASSERT_EQ(memory.outputs[int64_t(i)], content)
              << "output " << i << " of n = " << n << ", s = " << s;
      }
  }
}

TEST_F(MemoryPlan, FramesAreAsLargeAsLiveValues) {
  // A chain of any length needs two buffers. If sizes alternate, both have the larger one. A sum
  // that is reduced in place needs one buffer.
  std::string head = "!n8 = tensor<?x8xf32, #tpc.dist<[n, 8], local>>\n"
                     "!sum = tensor<?x8xf32, #tpc.dist<[n, 8], sum{tp}, local>>\n"
                     "module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {\n"
                     "func.func private @layer(%x: !n8, %u: tensor<8x8xf32>, %p: !sum) -> !n8 {\n";
  std::string tail =
      "}\ntpc.pipeline @main(%x: !n8, %u: tensor<8x8xf32>, %p: !sum) inputs [{}, {}, {}] outputs "
      "[{type = !n8}] { tpc.stage 0 { tpc.micro_batches {\n"
      "%r = func.call @layer(%x, %u, %p) : (!n8, tensor<8x8xf32>, !sum) -> !n8\n"
      "tpc.output 0, %r : !n8\n} } }\n}\n";
  auto most = [&](const std::string &body, int64_t n) {
    OwningOpRef<ModuleOp> module = plan(head + body + tail);
    EXPECT_TRUE(module);
    Symbols symbols{{"n", n}, {"rank.tp", 0}, {"rank.mb", 0}};
    Contents contents;
    Memory memory(*module, contents, symbols);
    memory.run(module->lookupSymbol<buffer::FuncOp>("main_stage_0_on_buffers").getBody().front(),
               {});
    return memory.most;
  };
  std::string product = " = tpc.matmul %", by = ", %u : !n8, tensor<8x8xf32> -> !n8\n";
  std::string chain = "%0 = tpc.matmul %x" + by;
  for (int i = 1; i < 9; ++i)
    chain += "%" + std::to_string(i) + product + std::to_string(i - 1) + by;
  // 10 * 8 floats are 5 lines of 64 bytes. The stage's result needs one buffer more.
  EXPECT_EQ(most(chain + "return %8 : !n8\n", 10), 3 * 320);
  EXPECT_EQ(most(chain + "return %8 : !n8\n", 0), 0);
  EXPECT_EQ(most("%0 = tpc.matmul %x" + by + "return %0 : !n8\n", 10), 320);
  // Kernel, reduction in place, and the result.
  EXPECT_EQ(most("%0 = tpc.neg %p : !sum -> !sum\n"
                 "%1 = tpc.all_reduce %0 over [\"tp\"] : !sum -> !n8\n"
                 "%2 = tpc.exp %1 : !n8 -> !n8\nreturn %2 : !n8\n",
                 1),
            2 * 64);
}
