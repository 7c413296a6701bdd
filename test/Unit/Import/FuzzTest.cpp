//===- FuzzTest.cpp - Damaged ONNX files ----------------------------------===//
//
// Deterministic mutations of real files. Each must import, or fail with an
// error; a crash or a hang ends the test. TPC_FUZZ=N sets how many are tried.
//
//===----------------------------------------------------------------------===//

#include "TestFiles.h"

#include "tpc/Import/ONNX/Import.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <random>

using namespace tpc::test;

/// Imports; fails the test if nothing came of it and nothing was said.
static bool import(const std::string &path) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  int errors = 0;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &d) {
    errors += d.getSeverity() == mlir::DiagnosticSeverity::Error;
    EXPECT_FALSE(d.str().empty());
  });
  bool imported = !!tpc::importOnnxModel(path, &context);
  EXPECT_EQ(imported, errors == 0);
  return imported;
}

static std::string mutate(std::string bytes, std::mt19937 &random) {
  // Nodes come first in a file, weights last: those are less interesting.
  auto at = [&] {
    size_t range = random() % 4 ? std::min<size_t>(bytes.size(), 24 << 10) : bytes.size();
    return random() % std::max<size_t>(1, range);
  };
  static const char *tokens[] = {"input_ids", "seq", "batch", "Reshape", "Slice", "Concat", "\xff\xff\xff\xff\x0f",
                                 "-1", "**", "Split", "Gather", "ai.onnx", "com.microsoft", "external"};
  for (unsigned n = 1 + random() % 4; n && !bytes.empty(); --n)
    switch (random() % 8) {
    case 0: // one bit
      bytes[at()] ^= 1 << random() % 8;
      break;
    case 1: // one byte
      bytes[at()] = random();
      break;
    case 2: // a small number somewhere
      bytes[at()] = random() % 16;
      break;
    case 3: // less
      bytes.erase(at(), 1 + random() % 8);
      break;
    case 4: // more
      bytes.insert(at(), std::string(1 + random() % 4, char(random())));
      break;
    case 5: { // a piece of it, elsewhere
      size_t from = at();
      std::string piece = bytes.substr(from, 1 + random() % 64);
      bytes.replace(at(), std::min<size_t>(piece.size(), 64), piece);
      break;
    }
    case 6: { // something that means something
      std::string token = tokens[random() % std::size(tokens)];
      bytes.replace(at(), token.size(), token);
      break;
    }
    case 7:
      if (random() % 8 == 0) // truncated
        bytes.resize(at());
      else
        bytes[at()] = char(0x80 | random());
      break;
    }
  return bytes;
}

TEST(Fuzz, DamagedFiles) {
  const char *given = getenv("TPC_FUZZ");
  int rounds = given ? atoi(given) : 400;
  Folder folder;
  std::mt19937 random(1);
  int imported = 0, total = 0;
  for (const char *name : {"gpt2-124m.onnx", "gpt2-layer.onnx", "gpt2-layer-opset23.onnx",
                           "gpt2-mlp.onnx", "gpt2-odd-nopast.onnx"}) {
    auto buffer = llvm::MemoryBuffer::getFile(std::string(TPC_TEST_MODELS "/") + name);
    if (!buffer)
      GTEST_SKIP() << name << " is absent";
    std::string original = (*buffer)->getBuffer().str();
    ASSERT_TRUE(import(folder.write("m.onnx", original))) << name;
    for (int i = 0; i < rounds; ++i, ++total)
      imported += import(folder.write("m.onnx", mutate(original, random)));
  }
  // Mutations in weights and names do no harm; if nothing imported, nothing was tested.
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, total);
}
