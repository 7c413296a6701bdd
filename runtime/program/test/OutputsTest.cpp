//===- OutputsTest.cpp - Invalid runtime calls of a program ---------------===//
//
// The runtime must report wrong arguments of tpc_output, tpc_input and tpc_parameter before it
// accesses memory outside of the tensor.
//
//===----------------------------------------------------------------------===//

#include "program/Error.h"
#include "program/Execution.h"
#include <gtest/gtest.h>

using namespace tpc::rt;

namespace {

/// Block that a program delivers of its output, f32 [2, 3].
struct Block {
  int32_t index;
  std::vector<int64_t> global, offset, size;
};

std::function<void(tpc_context *)> body;

/// Returns the error of a step.
std::string errorOf(const std::function<void(tpc_context *)> &step) {
  constexpr const char *text = R"({"format": 1, "grid": {"sizes": {"tp": 1}, "order": ["tp"]},
    "inputs": [], "outputs": [{"name": "y", "dtype": "f32", "shape": [2, 3]}]})";
  body = step;
  tpc_stage_fn stage = [](tpc_context *ctx, const int64_t *) { body(ctx); };
  tpc_program program{};
  program.abi_version = TPC_ABI_VERSION;
  program.num_stages = 1;
  program.manifest = text;
  program.stages = &stage;
  Manifest manifest = parseManifest(text);
  Execution execution(program, manifest, Options{}, nullptr);
  try {
    execution.step(readInputs(manifest, {}, {}));
  } catch (const UserError &error) {
    return error.what();
  }
  return "no error";
}

std::string errorOf(const Block &block) {
  return errorOf([&](tpc_context *ctx) {
    float data[6] = {};
    tpc_output(ctx, block.index, data, static_cast<int32_t>(block.global.size()),
               block.global.data(), block.offset.data(), block.size.data());
  });
}

TEST(Outputs, InvalidBlocks) {
  EXPECT_EQ(errorOf({0, {2, 3}, {0, 0}, {2, 3}}), "no error");
  EXPECT_EQ(errorOf({0, {6}, {0}, {6}}), "no error") << "factors may be merged";
  EXPECT_EQ(errorOf({1, {2, 3}, {0, 0}, {2, 3}}),
            "internal error: output 1: there is no such output");
  EXPECT_EQ(errorOf({-1, {2, 3}, {0, 0}, {2, 3}}),
            "internal error: output -1: there is no such output");
  EXPECT_EQ(errorOf({0, std::vector<int64_t>(17, 1), std::vector<int64_t>(17), {}}),
            "internal error: output 0: a block of 17 dimensions");
  EXPECT_EQ(errorOf({0, {2, 3}, {1, 0}, {2, 3}}),
            "internal error: output 0: a block of 2 from 1 on exceeds dimension 0, of size 2");
  EXPECT_EQ(errorOf({0, {2, 3}, {0, -1}, {2, 3}}),
            "internal error: output 0: a block of 3 from -1 on exceeds dimension 1, of size 3");
  EXPECT_EQ(errorOf({0, {2, 2}, {0, 0}, {2, 2}}),
            "internal error: output 0: a block of another tensor");
  EXPECT_EQ(errorOf({0, {2, 3}, {1, 0}, {1, 3}}),
            "internal error: 3 of 6 elements of output 'y' were delivered");
}

TEST(Outputs, MissingInputsAndParameters) {
  for (int32_t index : {-1, 0}) {
    EXPECT_EQ(errorOf([&](tpc_context *ctx) { tpc_input(ctx, index); }),
              "internal error: there is no input " + std::to_string(index));
    EXPECT_EQ(errorOf([&](tpc_context *ctx) { tpc_parameter(ctx, index); }),
              "internal error: parameter " + std::to_string(index) +
                  " is not on this rank, or is packed");
  }
}

} // namespace
