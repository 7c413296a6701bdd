//===- DiagnosticsTest.cpp - tpcc diagnostics -----------------------------===//

#include "Diagnostics.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace {

class Diagnostics : public testing::Test {
protected:
  Location nameOf(StringRef name, Location inner) {
    return NameLoc::get(builder.getStringAttr(name), inner);
  }
  Location node(StringRef name) { return nameOf(name, builder.getUnknownLoc()); }
  Location position(unsigned line, unsigned column) {
    return FileLineColLoc::get(&context, "m.mlir", line, column);
  }
  /// Returns the printed diagnostics of `report`.
  std::string print(llvm::function_ref<void()> report) {
    std::string text;
    llvm::raw_string_ostream os(text);
    severities.clear();
    {
      ::tpc::DiagnosticPrinter printer(
          &context, os, [&](DiagnosticSeverity severity) { severities.push_back(severity); });
      report();
    }
    return text;
  }

  MLIRContext context;
  Builder builder{&context};
  std::vector<DiagnosticSeverity> severities;
};

} // namespace

TEST_F(Diagnostics, NodesArePreferredToFileLocations) {
  EXPECT_EQ(::tpc::describeLocation(builder.getUnknownLoc()), "");
  EXPECT_EQ(::tpc::describeLocation(position(3, 7)), "m.mlir:3:7");
  EXPECT_EQ(::tpc::describeLocation(position(0, 0)), "m.mlir");
  EXPECT_EQ(::tpc::describeLocation(nameOf("fc1", position(3, 7))), "node 'fc1'");
  // An op that was fused from several has the first one's location.
  EXPECT_EQ(::tpc::describeLocation(builder.getFusedLoc({position(1, 2), position(3, 4)})),
            "m.mlir:1:2");
  EXPECT_EQ(::tpc::describeLocation(builder.getFusedLoc({position(1, 2), node("a"), node("b")})),
            "node 'a'");
  EXPECT_EQ(::tpc::describeLocation(CallSiteLoc::get(node("inner"), node("outer"))),
            "node 'inner'");
}

TEST_F(Diagnostics, MessagesNameTheirNodeOnce) {
  EXPECT_EQ(print([&] { emitError(node("fc1"), "is wrong"); }),
            "tpcc: error: node 'fc1': is wrong\n");
  // A message may begin with the node's name, for output without locations.
  EXPECT_EQ(print([&] { emitError(node("fc1"), "'fc1' (tpc.matmul) is wrong"); }),
            "tpcc: error: node 'fc1' (tpc.matmul) is wrong\n");
  EXPECT_EQ(print([&] { emitError(node("fc1"), "'fc2' is wrong"); }),
            "tpcc: error: node 'fc1': 'fc2' is wrong\n");
  EXPECT_EQ(print([&] { emitWarning(position(3, 7), "is odd"); }),
            "tpcc: warning: m.mlir:3:7: is odd\n");
  EXPECT_EQ(print([&] { emitError(builder.getUnknownLoc(), "is nowhere"); }),
            "tpcc: error: is nowhere\n");
}

TEST_F(Diagnostics, NotesAreIndented) {
  EXPECT_EQ(
      print([&] {
        InFlightDiagnostic error = emitError(node("a"), "waits");
        error.attachNote(node("b")) << "for this";
        error.attachNote(position(1, 1)) << "and this";
      }),
      "tpcc: error: node 'a': waits\n  note: node 'b': for this\n  note: m.mlir:1:1: and this\n");
}

TEST_F(Diagnostics, EqualMessagesArePrintedOnce) {
  auto report = [&] {
    for (StringRef name : {"a", "b", "a", "a"}) {
      InFlightDiagnostic error = emitError(node(name), "is wrong");
      error.attachNote(node(name)) << "here";
    }
  };
  EXPECT_EQ(print(report), "tpcc: error: node 'a': is wrong\n  note: node 'a': here\n"
                           "tpcc: error: node 'b': is wrong\n  note: node 'b': here\n");
  // Each diagnostic sets the error flag.
  EXPECT_EQ(severities, std::vector(4, DiagnosticSeverity::Error));
}

TEST_F(Diagnostics, RemarksAreLimited) {
  auto report = [&](int count) {
    return print([&] {
      for (int i = 0; i < count; ++i)
        emitRemark(node("n" + std::to_string(i % 10)), "was not recognized");
      emitError(node("last"), "is wrong");
    });
  };
  std::string eight = report(8);
  EXPECT_EQ(llvm::StringRef(eight).count("remark"), 8u);
  EXPECT_EQ(eight.find("more remarks"), std::string::npos);
  // There are ten different remarks, some of them twice. Errors are printed regardless of the
  // number of remarks.
  std::string ten = report(13);
  EXPECT_EQ(llvm::StringRef(ten).count("was not recognized"), 8u);
  EXPECT_NE(ten.find("tpcc: error: node 'last': is wrong\n"), std::string::npos);
  EXPECT_TRUE(
      llvm::StringRef(ten).ends_with("tpcc: remark: 2 more remarks (tpc-opt prints them all)\n"))
      << ten;
  EXPECT_EQ(severities.size(), 9u);
}

TEST_F(Diagnostics, ControlCharactersOfNamesAreEscaped) {
  EXPECT_EQ(print([&] { emitError(node("a\x1b[2Jb"), "is \x07wrong"); }),
            "tpcc: error: node 'a\\x1b[2Jb': is \\x07wrong\n");
  EXPECT_EQ(print([&] { emitError(node("a\nb"), "one\ntwo"); }),
            "tpcc: error: node 'a\nb': one\ntwo\n");
}
