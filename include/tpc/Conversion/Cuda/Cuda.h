//===- Cuda.h - PTX and machine code of a program's kernels -----*- C++ -*-===//
//
//   // `program` is at the level of kernels.
//   auto code = cuda::emitPtx(program, {80, 90}, 3);
//   cuda::assemble(*code, {80, 90}, cuda::findAssembler());  // one cubin per architecture
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_CUDA_CUDA_H
#define TPC_CONVERSION_CUDA_CUDA_H

#include "tpc/Conversion/Cuda/Attention.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace mlir::tpc::cuda {

/// Registers the target `cuda`.
void registerCudaTarget();

//===--- architectures ------------------------------------------------------===//

/// Compute capabilities: 90 is sm_90. A program runs on the listed and on later capabilities.
using Architectures = std::vector<unsigned>;

/// Parses the value of --gpu-arch, such as sm_80,sm_90. The result is in ascending order.
llvm::Expected<Architectures> parseArchitectures(StringRef text);
/// Default of --gpu-arch.
inline constexpr llvm::StringLiteral kDefaultArchitectures = "sm_80,sm_90,sm_100";

//===--- code ---------------------------------------------------------------===//

/// Resources of an assembled kernel.
struct Resources {
  unsigned registers = 0, sharedBytes = 0, stackBytes = 0, spillBytes = 0;
};

/// Machine code for one architecture.
struct Cubin {
  unsigned architecture = 0;
  std::vector<char> bytes;
  std::vector<Resources> kernels; // in the order of Code::launches
};

/// Attention kernels of a variant, as indices into Code::launches.
struct AttentionEntry {
  AttentionVariant variant;
  unsigned tiles = 0, split = 0;
};

struct Code {
  unsigned architecture = 0; // of the PTX
  bool tf32 = false;         // f32 matmuls are computed in TF32
  std::string ptx;
  std::vector<Launch> launches;
  std::vector<AttentionEntry> attentions;
  std::vector<Cubin> cubins;
  ArrayAttr nodes; // names of ONNX nodes in run-time errors of kernels, by index; null: none
};

/// Replaces each tpc_kernel.func by LLVM functions for GPU threads. `program` is at the kernels
/// level.
FailureOr<std::vector<Launch>> lowerKernels(ModuleOp program);

/// Translates GPU functions to PTX. `kernels` is a module of the LLVM and NVVM dialects, with
/// scalar ops of `arith` and `math`, which are lowered in place.
llvm::Expected<std::string> writePtx(ModuleOp kernels, const Architectures &architectures,
                                     unsigned optLevel);

/// Emits one PTX text for all kernels of a program. Does not change the program.
llvm::Expected<Code> emitPtx(ModuleOp program, const Architectures &architectures,
                             unsigned optLevel);

/// Checks that all float instructions have an explicit rounding mode, so that ptxas does not
/// contract multiplications and additions, and that none is approximate. Errors name the line.
llvm::Error checkRounding(StringRef ptx);

/// Checks that a kernel may begin before the previous one ends (tpc/dependent_launch.h):
/// `constants` are its pointer parameters to memory that no kernel writes. Errors name the line.
llvm::Error checkDependentLaunch(StringRef ptx, StringRef kernel, ArrayRef<unsigned> constants);

/// Returns the path of ptxas: in CUDA_HOME if that is set, else in PATH, else in /usr/local/cuda;
/// empty if there is none.
std::string findAssembler();
/// Returns the paths that findAssembler searches, for error messages.
std::string getAssemblerSearchPaths();

/// Adds a cubin for each architecture. On an error, keeps the PTX in a file, whose path is in the
/// error.
llvm::Error assemble(Code &code, const Architectures &architectures, StringRef assembler);

/// Replaces the kernels of the host program by the code, as data that the runtime reads
/// (tpc/gpu.h). `program` is at the buffers level.
LogicalResult embed(ModuleOp program, const Code &code);

/// Returns the GPU section of --report. For each kernel: launch parameters, and resources by
/// architecture. For each function of the program: number of kernel launches. For each attention
/// variant: its kernels, and the reason why the library does not support it.
llvm::json::Object makeReport(ModuleOp program, const Code &code);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_CUDA_H
