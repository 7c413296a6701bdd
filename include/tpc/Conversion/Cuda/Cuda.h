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

/// Compute capabilities: 90 is sm_90. A program runs on these and later ones.
using Architectures = std::vector<unsigned>;

/// Parses the value of --gpu-arch, such as sm_80,sm_90. Ascending.
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

/// Kernels of a variant, as indices into Code::launches.
struct AttentionEntry {
  AttentionVariant variant;
  unsigned tiles = 0, split = 0, combine = 0;
};

struct Code {
  unsigned architecture = 0; // of the PTX
  bool tf32 = false;         // f32 matmuls are computed in TF32
  std::string ptx;
  std::vector<Launch> launches;
  std::vector<AttentionEntry> attentions;
  std::vector<Cubin> cubins;
  ArrayAttr nodes; // names of nodes that kernels report, by index; null: none
};

/// Replaces each tpc_kernel.func by LLVM functions for GPU threads. `program` is at the level of
/// kernels.
FailureOr<std::vector<Launch>> lowerKernels(ModuleOp program);

/// Writes GPU functions as PTX. `kernels` is a module of the LLVM dialect and NVVM, with scalar ops
/// of `arith` and `math`, which are lowered in place.
llvm::Expected<std::string> writePtx(ModuleOp kernels, const Architectures &architectures,
                                     unsigned optLevel);

/// Emits one PTX text for all kernels of a program. Does not change the program.
llvm::Expected<Code> emitPtx(ModuleOp program, const Architectures &architectures,
                             unsigned optLevel);

/// Checks that no float arithmetic leaves its rounding to the assembler, which would contract
/// multiplications and additions, and that none is approximate. Errors name the line.
llvm::Error checkRounding(StringRef ptx);

/// Returns the path of ptxas: in CUDA_HOME if that is set, else in PATH, else in /usr/local/cuda;
/// empty if there is none.
std::string findAssembler();
/// Returns the paths that findAssembler searches, for messages.
std::string getAssemblerSearchPaths();

/// Adds a cubin for each architecture. On an error, keeps the PTX in a file that the error names.
llvm::Error assemble(Code &code, const Architectures &architectures, StringRef assembler);

/// Embeds the code into the host's program, in place of its kernels, as data that the runtime reads
/// (tpc/gpu.h). `program` is at the level of buffers.
LogicalResult embed(ModuleOp program, const Code &code);

/// Returns the GPU section of --report: per kernel its launch and its resources by architecture;
/// per function of the program the number of its kernel launches; per attention its kernels, and
/// the reason why no library computes it.
llvm::json::Object makeReport(ModuleOp program, const Code &code);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_CUDA_H
