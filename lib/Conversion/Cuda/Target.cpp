//===- Target.cpp - The CUDA target ---------------------------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Target/TargetTraits.h"

using namespace mlir;
using namespace mlir::tpc;

static bool computesMatmuls(Type element) {
  return element.isF32() || element.isF16() || element.isBF16();
}

/// cuBLASLt has no SiLU, and its GELU variant is undocumented.
static bool isActivation(Operation *) { return false; }

static llvm::Error checkArchitectures(StringRef names) {
  return cuda::parseArchitectures(names).takeError();
}

static llvm::Expected<KernelCode> emitKernels(ModuleOp program, const KernelCodeOptions &options) {
  auto architectures = cuda::parseArchitectures(options.architectures.empty()
                                                    ? StringRef(cuda::kDefaultArchitectures)
                                                    : StringRef(options.architectures));
  if (!architectures)
    return architectures.takeError();
  options.onStep("generating code for GPUs");
  auto code = cuda::emitPtx(program, *architectures, options.optLevel);
  if (!code)
    return code.takeError();
  code->tf32 = options.tf32;
  KernelCode result;
  std::string assembler = cuda::findAssembler();
  if (assembler.empty()) {
    std::string names;
    for (unsigned architecture : *architectures)
      names += (names.empty() ? "sm_" : ", sm_") + std::to_string(architecture);
    result.note = "there is no ptxas (" + cuda::getAssemblerSearchPaths() + "): no cubins for " +
                  names + "; the executable contains PTX, which the driver assembles";
  } else {
    options.onStep("assembling with " + assembler);
    if (llvm::Error error = cuda::assemble(*code, *architectures, assembler))
      return std::move(error);
  }
  result.report = cuda::makeReport(program, *code);
  result.text = code->ptx;
  result.embed = [made = std::make_shared<cuda::Code>(std::move(*code))](ModuleOp host) {
    return cuda::embed(host, *made);
  };
  return result;
}

// A multiprocessor has 65536 registers and 2048 threads: with 64 registers per thread, four blocks
// of 256 threads fit, which is half of the maximum number of threads.
cuda::Ceiling cuda::getCeiling(Shape shape) {
  switch (shape) {
  case Shape::Elements:
    return {.registers = 64, .sharedBytes = 0};
  case Shape::WarpPerRow:
  case Shape::BlockPerRow:
  case Shape::RowByLength:
    return {.registers = 64, .sharedBytes = 1024};
  case Shape::Tiles:
    return {.registers = 64, .sharedBytes = 32 << 10};
  // Blocks of 128 or 256 threads: one of them fits with any number of registers. Their shared
  // memory is allocated at launch.
  case Shape::AttentionTiles:
  case Shape::AttentionSplit:
    return {.registers = 255, .sharedBytes = 1024};
  }
  llvm_unreachable("all shapes are above");
}

// cuBLASLt adds a residual as beta times C, which saves a kernel. A GPU has many threads and slow
// memory: recomputation costs less than on CPUs.
static constexpr TargetTraits traits = {
    .name = "cuda",
    .computesMatmuls = computesMatmuls,
    .computesExperts = true,
    // An assumption, not measured: a wait for the device, launches, and those of the layer's other
    // kernels, which are not in a graph.
    .dispatchSeconds = 100e-6,
    .addsBias = true,
    .addsResidual = true,
    .isActivation = isActivation,
    .hasStridedResults = true,
    .hasTf32 = true,
    .hasFusedProducts = true,
    .cheapCost = 1,
    .expensiveCost = 16,
    .storedFrom = 16,
    .maxKernelOps = 128,
    .maxGeneratedDepth = 32,
    .mergesAttentionOperands = true,
    .elementsPerTask = 1024,
    .kernelText = "ptx",
    .checkArchitectures = checkArchitectures,
    .emitKernels = emitKernels,
};

void cuda::registerCudaTarget() { registerTarget(traits); }
