//===- FuzzTest.cpp - Damaged ONNX files ----------------------------------===//
//
// Imports deterministic mutations of real files. Each must be imported, or fail with an error. A
// crash or a hang ends the test. TPC_FUZZ=N sets the number of mutations.
//
//===----------------------------------------------------------------------===//

#include "../TestFiles.h"

#include "mlir/IR/MLIRContext.h"
#include "onnx.pb.h"
#include "tpc/Import/ONNX/Import.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <random>

using namespace tpc::test;

/// Imports a file. The test fails if the import fails without an error message.
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
  // Positions near the beginning are more likely: nodes come first in a file, and weights last.
  auto at = [&] {
    size_t range = random() % 4 ? std::min<size_t>(bytes.size(), 24 << 10) : bytes.size();
    return random() % std::max<size_t>(1, range);
  };
  static const char *tokens[] = {
      "input_ids", "seq", "batch", "Reshape", "Slice",   "Concat",        "\xff\xff\xff\xff\x0f",
      "-1",        "**",  "Split", "Gather",  "ai.onnx", "com.microsoft", "external"};
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
    case 3: // a removal
      bytes.erase(at(), 1 + random() % 8);
      break;
    case 4: // an insertion
      bytes.insert(at(), std::string(1 + random() % 4, char(random())));
      break;
    case 5: { // a copy of a range elsewhere
      size_t from = at();
      std::string piece = bytes.substr(from, 1 + random() % 64);
      bytes.replace(at(), std::min<size_t>(piece.size(), 64), piece);
      break;
    }
    case 6: { // a meaningful value
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

static const char *const models[] = {"gpt2-124m.onnx", "gpt2-layer.onnx", "gpt2-layer-opset23.onnx",
                                     "gpt2-mlp.onnx", "gpt2-odd-nopast.onnx"};

/// Imports many mutations of each model.
static void fuzz(llvm::function_ref<std::string(const std::string &, std::mt19937 &)> mutate) {
  const char *given = getenv("TPC_FUZZ");
  int rounds = given ? atoi(given) : 200;
  Folder folder;
  std::mt19937 random(1);
  int imported = 0, total = 0;
  for (const char *name : models) {
    auto buffer = llvm::MemoryBuffer::getFile(std::string(TPC_TEST_MODELS "/") + name);
    ASSERT_TRUE(buffer) << name << " is absent";
    std::string original = (*buffer)->getBuffer().str();
    ASSERT_TRUE(import(folder.write("m.onnx", original))) << name;
    for (int i = 0; i < rounds; ++i, ++total)
      imported += import(folder.write("m.onnx", mutate(original, random)));
  }
  // Mutations in weights and names are harmless. If nothing was imported, the test is useless.
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, total);
}

TEST(Fuzz, DamagedFiles) { fuzz(mutate); }

/// Returns a valid file of a model with changed ops, operands, attributes or sizes, mostly invalid.
static std::string mutateGraph(const std::string &bytes, std::mt19937 &random) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  onnx::GraphProto &graph = *model.mutable_graph();
  auto pick = [&](int n) { return int(random() % std::max(1, n)); };
  auto number = [&]() -> int64_t {
    static const int64_t odd[] = {0,  1,  -1,        2,         3,         7,
                                  -7, 64, INT32_MAX, INT64_MAX, INT64_MIN, 1ll << 40};
    return odd[pick(std::size(odd))];
  };
  static const char *ops[] = {"Add",
                              "Sub",
                              "Mul",
                              "Div",
                              "Mod",
                              "Pow",
                              "Min",
                              "Max",
                              "Mean",
                              "And",
                              "Equal",
                              "Less",
                              "Where",
                              "Not",
                              "Neg",
                              "IsNaN",
                              "Reshape",
                              "Squeeze",
                              "Unsqueeze",
                              "Flatten",
                              "Expand",
                              "Tile",
                              "Transpose",
                              "Slice",
                              "Split",
                              "Concat",
                              "Pad",
                              "Gather",
                              "GatherND",
                              "GatherElements",
                              "Range",
                              "ConstantOfShape",
                              "Trilu",
                              "CumSum",
                              "Shape",
                              "Size",
                              "Cast",
                              "CastLike",
                              "MatMul",
                              "Gemm",
                              "Softmax",
                              "LayerNormalization",
                              "RMSNormalization",
                              "Attention",
                              "RotaryEmbedding",
                              "ReduceSum",
                              "ReduceProd",
                              "Clip",
                              "Dropout",
                              "Identity",
                              "Gelu",
                              "If",
                              "SkipLayerNormalization",
                              "FusedMatMul",
                              "BiasGelu"};
  static const char *attributes[] = {"axis",      "axes",        "perm",         "keepdims",
                                     "allowzero", "epsilon",     "to",           "num_heads",
                                     "split",     "q_num_heads", "kv_num_heads", "is_causal",
                                     "transA",    "upper",       "batch_dims"};
  auto anyName = [&]() -> std::string {
    if (pick(3) == 0 && graph.initializer_size())
      return graph.initializer(pick(graph.initializer_size())).name();
    const auto &node = graph.node(pick(graph.node_size()));
    return node.output_size() ? node.output(0) : "";
  };
  for (int n = 1 + pick(3); n; --n) {
    onnx::NodeProto &node = *graph.mutable_node(pick(graph.node_size()));
    switch (pick(12)) {
    case 0:
      node.set_op_type(ops[pick(std::size(ops))]);
      node.set_domain(pick(8) ? "" : "com.microsoft");
      break;
    case 1:
    case 2: // another operand, likely an earlier value
      if (node.input_size())
        node.set_input(pick(node.input_size()), anyName());
      break;
    case 3:
      node.add_input(pick(3) ? anyName() : "");
      break;
    case 4:
      if (node.input_size())
        node.mutable_input()->RemoveLast();
      break;
    case 5:
      node.add_output("extra" + std::to_string(pick(100)));
      break;
    case 6:
    case 7: {
      onnx::AttributeProto &a = node.attribute_size() && pick(2)
                                    ? *node.mutable_attribute(pick(node.attribute_size()))
                                    : *node.add_attribute();
      if (a.name().empty())
        a.set_name(attributes[pick(std::size(attributes))]);
      a.clear_ints();
      if (pick(2)) {
        a.set_type(onnx::AttributeProto::INT);
        a.set_i(number());
      } else {
        a.set_type(onnx::AttributeProto::INTS);
        for (int k = pick(5); k; --k)
          a.add_ints(number());
      }
      break;
    }
    case 8: { // another small tensor
      if (!graph.initializer_size())
        break;
      onnx::TensorProto &t = *graph.mutable_initializer(pick(graph.initializer_size()));
      if (t.data_type() == onnx::TensorProto::INT64 && t.raw_data().size() >= 8) {
        int64_t value = number();
        t.mutable_raw_data()->replace(8 * pick(t.raw_data().size() / 8), 8, (const char *)&value,
                                      8);
      } else if (t.dims_size()) {
        t.set_dims(pick(t.dims_size()), number());
      }
      break;
    }
    case 9: { // another input
      auto *shape = graph.mutable_input(pick(graph.input_size()))
                        ->mutable_type()
                        ->mutable_tensor_type()
                        ->mutable_shape();
      static const char *sizes[] = {"batch", "batch*batch", "batch + seq", "max(batch, seq)",
                                    "",      "0",           "(batch"};
      if (pick(2))
        shape->add_dim()->set_dim_value(number());
      else if (shape->dim_size())
        shape->mutable_dim(pick(shape->dim_size()))->set_dim_param(sizes[pick(std::size(sizes))]);
      break;
    }
    case 10:
      graph.mutable_input(pick(graph.input_size()))
          ->mutable_type()
          ->mutable_tensor_type()
          ->set_elem_type(pick(20));
      break;
    case 11:
      model.mutable_opset_import(0)->set_version(1 + pick(28));
      break;
    }
  }
  return model.SerializeAsString();
}

TEST(Fuzz, InvalidGraphs) { fuzz(mutateGraph); }
