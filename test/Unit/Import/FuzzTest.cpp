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

/// Returns a file with operators on quantized weights: MatMulNBits with packed zero points,
/// GatherBlockQuantized, DequantizeLinear of columns and of blocks, dynamic quantization.
static std::string makeQuantized() {
  using onnx::TensorProto;
  onnx::ModelProto model;
  model.set_ir_version(10);
  auto *opset = model.add_opset_import();
  opset->set_version(21);
  opset = model.add_opset_import();
  opset->set_domain("com.microsoft");
  opset->set_version(1);
  onnx::GraphProto &graph = *model.mutable_graph();
  graph.set_name("quantized");
  auto addPort = [](onnx::ValueInfoProto &port, const char *name, int type, int64_t columns) {
    port.set_name(name);
    auto &tensor = *port.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape()->add_dim()->set_dim_param("batch");
    if (columns)
      tensor.mutable_shape()->add_dim()->set_dim_value(columns);
  };
  addPort(*graph.add_input(), "ids", TensorProto::INT64, 0);
  addPort(*graph.add_output(), "y", TensorProto::FLOAT, 32);
  auto addTensor = [&](const char *name, int type, std::vector<int64_t> dims, int64_t bytes) {
    TensorProto &tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (int64_t dim : dims)
      tensor.add_dims(dim);
    std::string raw(bytes, '\x3c'); // floats of 0.01
    tensor.set_raw_data(raw);
  };
  auto addNode = [&](const char *op, const char *domain, std::vector<const char *> inputs,
                     std::vector<const char *> outputs,
                     std::vector<std::pair<const char *, int64_t>> attributes = {}) {
    onnx::NodeProto &node = *graph.add_node();
    node.set_op_type(op);
    node.set_domain(domain);
    node.set_name(outputs[0]);
    for (const char *input : inputs)
      node.add_input(input);
    for (const char *output : outputs)
      node.add_output(output);
    for (auto [name, value] : attributes) {
      onnx::AttributeProto &attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(value);
    }
  };
  const char *microsoft = "com.microsoft";
  addTensor("table", TensorProto::UINT8, {6, 16}, 96);
  addTensor("table_scale", TensorProto::FLOAT, {6, 2}, 48);
  addTensor("table_zero", TensorProto::UINT8, {6, 1}, 6);
  addNode("GatherBlockQuantized", microsoft, {"table", "ids", "table_scale", "table_zero"}, {"x"},
          {{"bits", 4}, {"block_size", 16}, {"gather_axis", 0}, {"quantize_axis", 1}});
  addTensor("w", TensorProto::UINT8, {32, 2, 8}, 512);
  addTensor("w_scale", TensorProto::FLOAT, {32, 2}, 256);
  addTensor("w_zero", TensorProto::UINT8, {32, 1}, 32);
  addNode("MatMulNBits", microsoft, {"x", "w", "w_scale", "w_zero"}, {"x1"},
          {{"K", 32}, {"N", 32}, {"bits", 4}, {"block_size", 16}});
  addTensor("columns", TensorProto::INT8, {32, 32}, 1024);
  addTensor("columns_scale", TensorProto::FLOAT, {32}, 128);
  addNode("DequantizeLinear", "", {"columns", "columns_scale"}, {"f"}, {{"axis", 1}});
  addNode("MatMul", "", {"x1", "f"}, {"x2"});
  addTensor("blocks", TensorProto::INT4, {32, 32}, 512);
  addTensor("blocks_scale", TensorProto::FLOAT, {2, 32}, 256);
  addTensor("blocks_zero", TensorProto::INT4, {2, 32}, 32);
  addNode("DequantizeLinear", "", {"blocks", "blocks_scale", "blocks_zero"}, {"g"},
          {{"axis", 0}, {"block_size", 16}});
  addNode("MatMul", "", {"x2", "g"}, {"x3"});
  addNode("DynamicQuantizeLinear", "", {"x3"}, {"q", "s", "z"});
  addNode("MatMulInteger", "", {"q", "columns", "z"}, {"i"});
  addNode("Cast", "", {"i"}, {"j"}, {{"to", TensorProto::FLOAT}});
  addNode("Mul", "", {"j", "s"}, {"y"});
  return model.SerializeAsString();
}

static const char *const models[] = {"gpt2-124m.onnx", "gpt2-layer.onnx", "gpt2-layer-opset23.onnx",
                                     "gpt2-mlp.onnx", "gpt2-odd-nopast.onnx"};

static std::vector<std::string> readModels() {
  std::vector<std::string> files;
  for (const char *name : models) {
    auto buffer = llvm::MemoryBuffer::getFile(std::string(TPC_TEST_MODELS "/") + name);
    EXPECT_TRUE(buffer) << name << " is absent";
    files.push_back(buffer ? (*buffer)->getBuffer().str() : "");
  }
  return files;
}

/// Imports many mutations of each file.
static void fuzz(const std::vector<std::string> &files,
                 llvm::function_ref<std::string(const std::string &, std::mt19937 &)> mutate) {
  const char *given = getenv("TPC_FUZZ");
  int rounds = given ? atoi(given) : 200;
  Folder folder;
  std::mt19937 random(1);
  int imported = 0, total = 0;
  for (const std::string &original : files) {
    ASSERT_TRUE(import(folder.write("m.onnx", original)));
    for (int i = 0; i < rounds; ++i, ++total)
      imported += import(folder.write("m.onnx", mutate(original, random)));
  }
  // Mutations in weights and names are harmless. If nothing was imported, the test is useless.
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, total);
}

TEST(Fuzz, DamagedFiles) { fuzz(readModels(), mutate); }

TEST(Fuzz, DamagedQuantizedFiles) { fuzz({makeQuantized()}, mutate); }

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
                              "BiasGelu",
                              "MatMulNBits",
                              "GatherBlockQuantized",
                              "DequantizeLinear",
                              "QuantizeLinear",
                              "DynamicQuantizeLinear",
                              "MatMulInteger",
                              "MatMulIntegerToFloat",
                              "QLinearMatMul"};
  static const char *attributes[] = {
      "axis",         "axes",      "perm",      "keepdims", "allowzero",
      "epsilon",      "to",        "num_heads", "split",    "q_num_heads",
      "kv_num_heads", "is_causal", "transA",    "upper",    "batch_dims",
      "block_size",   "bits",      "K",         "N",        "quantize_axis"};
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

TEST(Fuzz, InvalidGraphs) { fuzz(readModels(), mutateGraph); }

/// Returns a file with other scales, zero points, bytes, types or sizes of quantized weights.
static std::string mutateQuantized(const std::string &bytes, std::mt19937 &random) {
  if (random() % 3 == 0)
    return mutateGraph(bytes, random);
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  onnx::GraphProto &graph = *model.mutable_graph();
  auto pick = [&](int n) { return int(random() % n); };
  static const int64_t numbers[] = {0,  1,  -1, 2,  3,       4,         7,         8,        15,
                                    16, 17, 31, 32, 1 << 20, 1ll << 31, INT64_MAX, INT64_MIN};
  static const uint32_t floats[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0,
                                    0x80000000, 0xbf800000, 0x00000001, 0x7f7fffff, 0xff7fffff};
  for (int n = 1 + pick(3); n; --n) {
    onnx::TensorProto &tensor = *graph.mutable_initializer(pick(graph.initializer_size()));
    onnx::NodeProto &node = *graph.mutable_node(pick(graph.node_size()));
    std::string &raw = *tensor.mutable_raw_data();
    switch (pick(7)) {
    case 0: // NaN, infinities, zeros, negative and extreme scales
      if (tensor.data_type() == onnx::TensorProto::FLOAT && raw.size() >= 4)
        raw.replace(4 * pick(raw.size() / 4), 4,
                    reinterpret_cast<const char *>(&floats[pick(std::size(floats))]), 4);
      break;
    case 1: // sizes that do not fit
      tensor.set_dims(pick(tensor.dims_size()), numbers[pick(std::size(numbers))]);
      break;
    case 2: // bytes that do not fit
      raw.resize(pick(2) ? raw.size() / 2 : raw.size() + 1 + pick(64));
      break;
    case 3:
      tensor.set_data_type(pick(28));
      break;
    case 4: // attributes
      if (node.attribute_size())
        node.mutable_attribute(pick(node.attribute_size()))
            ->set_i(numbers[pick(std::size(numbers))]);
      break;
    case 5: // one dimension more, or less
      if (pick(2))
        tensor.add_dims(1 + pick(2));
      else if (tensor.dims_size() > 1)
        tensor.mutable_dims()->RemoveLast();
      break;
    case 6: // other scales or zero points
      if (node.input_size())
        node.set_input(pick(node.input_size()),
                       graph.initializer(pick(graph.initializer_size())).name());
      break;
    }
  }
  return model.SerializeAsString();
}

TEST(Fuzz, InvalidQuantizedWeights) { fuzz({makeQuantized()}, mutateQuantized); }
