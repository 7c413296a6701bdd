//===- KernelRun.h - Compiled kernels in the PTX simulator ------*- C++ -*-===//

#ifndef TPC_TEST_UNIT_CUDA_KERNELRUN_H
#define TPC_TEST_UNIT_CUDA_KERNELRUN_H

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Driver/Register.h"

#include "Ptx/Ptx.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/Twine.h"

#include <gtest/gtest.h>

namespace mlir::tpc::cuda {

/// Compiled kernels of a program whose sizes may depend on n and m.
struct Compiled {
  Code code;
  ptx::Module module;

  const Launch &launch(StringRef name) const {
    return *llvm::find_if(code.launches, [&](const Launch &l) { return l.name == name; });
  }
};

inline Compiled compile(const Twine &kernels, unsigned architecture = 80) {
  DialectRegistry registry;
  ::tpc::registerAllDialects(registry);
  MLIRContext context(registry);
  std::string text = (R"(module attributes {tpc.target = "cuda"} {
tpc.pipeline @main(%x: tensor<?x?xf32, #tpc.dist<[n, m]>>) inputs [{tpc.name = "x"}] outputs [] {
  tpc.stage 0 {
  }
}
module @kernels {
)" + kernels + "\n}\n}\n")
                         .str();
  OwningOpRef<ModuleOp> program = parseSourceString<ModuleOp>(text, &context);
  Compiled compiled;
  EXPECT_TRUE(program) << text;
  if (!program)
    return compiled;
  llvm::Expected<Code> code = emitPtx(*program, {architecture}, /*optLevel=*/3);
  if (!code) {
    ADD_FAILURE() << llvm::toString(code.takeError());
    return compiled;
  }
  compiled.code = std::move(*code);
  std::string error;
  auto module = ptx::parse(compiled.code.ptx, error);
  EXPECT_TRUE(module) << error << compiled.code.ptx;
  if (module)
    compiled.module = *module;
  return compiled;
}

/// Memory and arguments of one launch.
class KernelRun {
public:
  explicit KernelRun(std::vector<int64_t> sizes, uint64_t seed = 1) : memory(seed), seed(seed) {
    sizes.resize(16); // env: sizes, then the rank's coordinates, which are zero
    input("env", sizes);
    arguments.push_back(
        ptx::Argument::pointer(memory.allocate(256, "status", 256, ptx::Fill::Zero)));
  }

  /// `offset`: distance of the pointer from an aligned one, in elements.
  template <class T> void input(std::string name, const std::vector<T> &values, int offset = 0) {
    uint64_t at = allocate(name, values.size(), sizeof(T), offset);
    EXPECT_TRUE(memory.copyIn(at, values.data(), values.size() * sizeof(T)));
    memory.setReadOnly(at - offset * sizeof(T));
  }
  template <class T> void result(std::string name, size_t count, int offset = 0) {
    outputs[name] = allocate(name, count, sizeof(T), offset);
  }
  template <class T> std::vector<T> get(std::string name, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(memory.copyOut(values.data(), outputs.at(name), count * sizeof(T)));
    return values;
  }

  ptx::Counters launch(const Compiled &compiled, StringRef name, uint32_t blocks) {
    ptx::Result result =
        ptx::launch(compiled.module, name.str(), arguments, memory,
                    {.grid = {blocks}, .block = {compiled.launch(name).threads}, .seed = seed});
    EXPECT_TRUE(result.clean()) << result.str() << compiled.code.ptx;
    return result.counters;
  }

private:
  uint64_t allocate(std::string name, size_t count, size_t bytes, int offset) {
    uint64_t at = memory.allocate(std::max<size_t>((count + offset) * bytes, 1), name);
    arguments.push_back(ptx::Argument::pointer(at + offset * bytes));
    return at + offset * bytes;
  }

  ptx::Memory memory;
  uint64_t seed;
  std::vector<ptx::Argument> arguments;
  std::map<std::string, uint64_t> outputs;
};

/// Pseudorandom numbers between -4 and 4.
inline std::vector<float> numbers(size_t count, uint64_t seed) {
  std::vector<float> values;
  uint64_t state = seed * 2 + 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    values.push_back(float(int64_t(state >> 40) - (1 << 23)) / float(1 << 21));
  }
  return values;
}

} // namespace mlir::tpc::cuda

#endif // TPC_TEST_UNIT_CUDA_KERNELRUN_H
