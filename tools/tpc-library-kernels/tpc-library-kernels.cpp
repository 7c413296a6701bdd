//===- tpc-library-kernels.cpp - PTX of the runtime's GPU library ---------===//
//
// Writes a C++ source file that defines the functions of cuda/library/GemvText.h: the PTX of
// the kernels of GEMVs, experts and exchanged tokens, which are the same for all programs and all
// GPUs from sm_80 on.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Cuda/Experts.h"
#include "tpc/Conversion/Cuda/Gemv.h"
#include "tpc/standard_output.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

#include <cstdio>
#include <cstring>

using namespace mlir;
using namespace mlir::tpc;

static constexpr unsigned kLowestArchitecture = 80, kOptLevel = 3;

/// Returns the PTX of all kernels of a type and layout.
static llvm::Expected<std::string> makeText(int32_t element, bool transposed, bool fused) {
  MLIRContext context;
  cuda::loadKernelDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  SmallVector<std::string> names;
  for (int64_t m = 1; m <= ::tpc::gemv::kMaxRows; ++m) {
    cuda::GemvVariant variant{.element = element, .transposed = transposed, .m = m, .fused = fused};
    cuda::makeGemvKernel(*module, variant);
    names.push_back(cuda::getName(variant));
  }
  auto text = cuda::writePtx(*module, {kLowestArchitecture}, kOptLevel);
  if (!text)
    return text;
  for (const std::string &name : names)
    if (llvm::Error error = cuda::checkDependentLaunch(*text, name, ::tpc::gemv::kConstants))
      return std::move(error);
  return text;
}

static llvm::Expected<std::string> makeText(void (*makeKernels)(ModuleOp)) {
  MLIRContext context;
  cuda::loadKernelDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  makeKernels(*module);
  return cuda::writePtx(*module, {kLowestArchitecture}, kOptLevel);
}

static llvm::Error write(llvm::raw_ostream &os) {
  os << "// Written by tpc-library-kernels.\n\n"
        "#include \"cuda/library/GemvText.h\"\n\n"
        "const char *tpc::rt::cuda::gemvText(int32_t element, bool transposed, bool fused) {\n";
  for (int32_t element : {TPC_F32, TPC_F16, TPC_BF16})
    for (auto [transposed, fused] : {std::pair(false, false), {true, false}, {false, true}}) {
      auto text = makeText(element, transposed, fused);
      if (!text)
        return text.takeError();
      os << "  if (element == " << element << " && " << (transposed ? "" : "!") << "transposed && "
         << (fused ? "" : "!") << "fused)\n    return R\"ptx(" << *text << ")ptx\";\n";
    }
  os << "  return nullptr;\n}\n";
  using Makers = std::pair<const char *, void (*)(ModuleOp)>;
  for (auto [name, makeKernels] : {Makers("expertsText", cuda::makeExpertKernels),
                                   Makers("routedText", cuda::makeRoutedKernels)}) {
    auto text = makeText(makeKernels);
    if (!text)
      return text.takeError();
    os << "\nconst char *tpc::rt::cuda::" << name << "() {\n  return R\"ptx(" << *text
       << ")ptx\";\n}\n";
  }
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  bool isHelp = argc == 2 && !std::strcmp(argv[1], "--help");
  if (isHelp || argc != 2 || argv[1][0] == '-') {
    std::fputs(
        "usage: tpc-library-kernels FILE\nWrites the PTX of the runtime's own kernels as C++.\n",
        isHelp ? stdout : stderr);
    return ::tpc::finishStandardOutput("tpc-library-kernels", !isHelp);
  }
  std::error_code problem;
  llvm::ToolOutputFile file(argv[1], problem, llvm::sys::fs::OF_None);
  if (problem) {
    llvm::errs() << "'" << argv[1] << "' cannot be written: " << problem.message() << "\n";
    return 1;
  }
  if (llvm::Error error = write(file.os())) {
    llvm::errs() << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  file.keep();
  return 0;
}
