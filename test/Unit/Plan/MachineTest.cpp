//===- MachineTest.cpp - Machine files and their tables -------------------===//

#include "tpc/Cost/StepCost.h"

#include "gtest/gtest.h"
#include <random>

using namespace tpc;

namespace {

constexpr llvm::StringLiteral valid = R"({
  "name": "m", "target": "cuda", "source": "a test", "launch": 1e-6,
  "memory": {"bytes": 1000, "reserved": 100},
  "matmul": [{"type": "bf16", "peak": 1e12, "bandwidth": 1e11, "floor": 1e-6,
              "times": [[1, 64, 64, 2e-6], [512, 64, 64, 8e-6], [512, 1024, 1024, 2e-3]]}],
  "attention": [{"type": "bf16", "few": [[0, 1e-6], [1e6, 1e-5]], "many": [[1e6, 1e-5]]}],
  "kernel": [{"times": [[1e3, 1e-6], [1e6, 1e-5]]}],
  "collective": [{"kind": "all_reduce", "ranks": 2, "times": [[1e3, 1e-5], [1e6, 1e-4]]},
                 {"kind": "all_reduce", "ranks": 8, "times": [[1e3, 3e-5], [1e6, 2e-4]]}],
  "network": {"latency": 1e-5, "bandwidth": 1e9},
  "error": {"compute": 0.1, "memory": 0.1, "launch": 0.1, "tensor": 0.1, "pipeline": 0.1}})";

std::string errorOf(const std::string &text) {
  llvm::Expected<Machine> machine = Machine::parse(text);
  return machine ? "" : llvm::toString(machine.takeError());
}

std::string replace(llvm::StringRef from, llvm::StringRef to) {
  std::string text = valid.str();
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to);
}

TEST(Machine, ReadsAllShippedFiles) {
  ASSERT_GE(Machine::getNames().size(), 3u);
  for (const std::string &name : Machine::getNames()) {
    llvm::Expected<Machine> machine = Machine::load(name);
    ASSERT_TRUE(bool(machine)) << name << ": " << llvm::toString(machine.takeError());
    EXPECT_EQ(machine->name, name);
  }
}

TEST(Machine, NamesTheBadEntry) {
  struct Case {
    const char *from, *to, *words;
  };
  for (const Case &one : std::initializer_list<Case>{
           {"\"launch\": 1e-6,", "", "no number 'launch'"},
           {"\"launch\": 1e-6", "\"launch\": -1", "'launch' of the machine must be from"},
           {"\"name\": \"m\"", "\"name\": \"\"", "no text 'name'"},
           {"\"source\"", "\"sauce\"", "has an entry 'sauce'; expected name"},
           {"\"reserved\": 100", "\"reserved\": 2000", "'reserved' of memory"},
           {"\"type\": \"bf16\", \"peak\"", "\"type\": \"q4\", \"peak\"", "f32, f16 or bf16"},
           {"[1, 64, 64, 2e-6]", "[1, 64, 2e-6]", "row 0 of 'times' of matmul[0] must have 4"},
           {"[1, 64, 64, 2e-6]", "[1, 64, 64, 0]", "greater than 0"},
           {"[1, 64, 64, 2e-6]", "[0, 64, 64, 1]", "must be at least 1"},
           {"[[1e3, 1e-6], [1e6, 1e-5]]", "[]", "kernel[0] has no list 'times'"},
           {"[1e3, 1e-6], [1e6, 1e-5]", "[1e3, 1e-6], [1e3, 1e-5]", "two times of 1000"},
           {"\"ranks\": 8", "\"ranks\": 2", "the kind and ranks of another entry"},
           {"\"ranks\": 8", "\"ranks\": 2.5", "must be an integer"},
           {"\"ranks\": 8", "\"ranks\": 8, \"error\": 1", "has 'error', which needs 'derived'"},
           {"\"ranks\": 8", "\"ranks\": 8, \"derived\": \"a rule\"", "no number 'error'"},
           {"\"peak\"", "\"threads\": 1, \"peak\"", "but the machine has no 'cores'"},
           {"\"error\": {\"compute\": 0.1", "\"error\": {\"compute\": -1", "'compute' of error"}})
    EXPECT_NE(errorOf(replace(one.from, one.to)).find(one.words), std::string::npos)
        << one.words << " / " << errorOf(replace(one.from, one.to));
  EXPECT_EQ(errorOf(valid.str()), "");
  EXPECT_NE(errorOf("[]").find("must be an object"), std::string::npos);
  EXPECT_NE(errorOf("{").size(), 0u);
  llvm::Expected<Machine> unknown = Machine::load("no-such-machine");
  ASSERT_FALSE(bool(unknown));
  EXPECT_NE(llvm::toString(unknown.takeError()).find("h100-sxm"), std::string::npos);
}

TEST(Machine, RaisesTimesOfMoreWork) {
  unsigned raised = 0;
  Curve curve({{4, 2}, {1, 3}, {8, 5}}, &raised);
  EXPECT_EQ(raised, 1u);
  EXPECT_EQ(curve.at(0), 3);
  EXPECT_EQ(curve.at(2), 3);
  EXPECT_EQ(curve.at(6), 4);
  EXPECT_EQ(curve.at(12), 7); // the slope of the last segment
  EXPECT_TRUE(curve.extrapolates(12));
  EXPECT_FALSE(curve.extrapolates(8));
}

/// Derived tables have their own error. Times between two tables have the larger of both errors.
TEST(Machine, DerivedTimesCountAsExtrapolated) {
  for (const char *name : {"a100-sxm", "h100-sxm"}) {
    llvm::Expected<Machine> machine = Machine::load(name);
    ASSERT_TRUE(bool(machine));
    for (const char *kind : {"all_gather", "reduce_scatter"}) {
      auto get = [&](int64_t ranks) {
        return llvm::cantFail(machine->getCollective(kind, ranks, ranks, 1 << 20));
      };
      for (int64_t ranks : {2, 3, 4, 6}) {
        EXPECT_TRUE(get(ranks).extrapolates) << name << " " << kind << " " << ranks;
        EXPECT_EQ(get(ranks).error, 0.4);
      }
      EXPECT_FALSE(get(8).extrapolates);
      EXPECT_EQ(get(8).error, 0);
      EXPECT_GT(get(4).seconds, get(2).seconds * 0.5);
      EXPECT_LT(get(4).seconds, 2 * get(8).seconds);
    }
  }
}

/// The rule of derived gathers and scatters, against the measured tables of 8 ranks.
TEST(Machine, TheRuleOfDerivedTimesHoldsWithinItsError) {
  for (const char *name : {"a100-sxm", "h100-sxm"}) {
    llvm::Expected<Machine> machine = Machine::load(name);
    ASSERT_TRUE(bool(machine));
    auto get = [&](const char *kind, double bytes) {
      return llvm::cantFail(machine->getCollective(kind, 8, 8, bytes)).seconds;
    };
    for (const char *kind : {"all_gather", "reduce_scatter"}) {
      double constant = 2 * get(kind, 8192) - get("all_reduce", 8192);
      for (double bytes = 8192; bytes <= 512 << 20; bytes *= 4) {
        double rule = (get("all_reduce", bytes) + constant) / 2;
        EXPECT_NEAR(rule / get(kind, bytes), 1, 0.4) << name << " " << kind << " " << bytes;
      }
    }
  }
}

TEST(Machine, MeasuredTimesAreReturned) {
  llvm::Expected<Machine> machine = Machine::parse(valid);
  ASSERT_TRUE(bool(machine));
  const MatmulTable *table = machine->getMatmuls("bf16", 1);
  ASSERT_TRUE(table);
  EXPECT_NEAR(table->at(1, 64, 64).seconds, 2e-6, 2e-8);
  EXPECT_NEAR(table->at(512, 1024, 1024).seconds, 2e-3, 2e-5);
  EXPECT_FALSE(table->at(512, 64, 64).extrapolates);
  EXPECT_TRUE(table->at(512, 65536, 64).extrapolates);
  EXPECT_FALSE(machine->getMatmuls("f32", 1));
  EXPECT_EQ(machine->getMemory(4), 900);
}

TEST(Machine, LowerBoundsAreBelowTimes) {
  llvm::Expected<Machine> machine = Machine::load("h100-sxm");
  ASSERT_TRUE(bool(machine));
  const MatmulTable *table = machine->getMatmuls("bf16", 1);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    int64_t m = 1 << random() % 14, n = 1 + random() % 60000, k = 1 + random() % 20000;
    double flops = 2.0 * double(m) * double(n) * double(k), bytes = 2.0 * double(n) * double(k);
    EXPECT_LE(machine->getLeastMatmulSeconds(1, flops, bytes), table->at(m, n, k).seconds);
  }
}

TEST(Machine, OnlyGroupsThatCrossNodesUseTheNetwork) {
  llvm::Expected<Machine> complete = Machine::parse(valid);
  llvm::Expected<Machine> half =
      Machine::parse(replace("\"bandwidth\": 1e9", "\"bandwidth\": 5e8"));
  llvm::Expected<Machine> none =
      Machine::parse(replace("\"network\": {\"latency\": 1e-5, \"bandwidth\": 1e9},", ""));
  ASSERT_TRUE(complete && half && none);
  auto seconds = [](Machine &machine, int64_t members, int64_t perNode) {
    return llvm::cantFail(machine.getCollective("all_reduce", members, perNode, 1e6)).seconds;
  };
  EXPECT_EQ(seconds(*complete, 8, 8), seconds(*half, 8, 8));
  llvm::Expected<Machine> eager =
      Machine::parse(replace("\"launch\": 1e-6", "\"launch\": 1e-6, \"collective_launch\": 1e-3"));
  ASSERT_TRUE(bool(eager));
  for (int64_t perNode : {1, 4, 8})
    EXPECT_DOUBLE_EQ(seconds(*eager, 8, perNode), seconds(*complete, 8, perNode) + 1e-3);
  EXPECT_LT(seconds(*complete, 16, 8), seconds(*half, 16, 8));
  EXPECT_LT(seconds(*complete, 2, 2), seconds(*complete, 4, 4));
  EXPECT_LT(seconds(*complete, 4, 4), seconds(*complete, 8, 8));
  EXPECT_EQ(seconds(*complete, 1, 1), 0);
  auto problem = [](llvm::Expected<Machine::Transfer> transfer) {
    return transfer ? "" : llvm::toString(transfer.takeError());
  };
  EXPECT_NE(problem(none->getCollective("all_reduce", 16, 8, 1e6)).find("has no network"),
            std::string::npos);
  EXPECT_NE(problem(complete->getCollective("all_gather", 2, 2, 1)).find("no times of all_gather"),
            std::string::npos);
  EXPECT_NE(problem(complete->getCollective("all_reduce", 16, 16, 1)).find("16 ranks in one node"),
            std::string::npos);
  EXPECT_NE(problem(complete->getSend(false, 1)).find("no times of send"), std::string::npos);
}

} // namespace
