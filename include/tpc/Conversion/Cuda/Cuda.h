//===- Cuda.h - Kernels of a program as PTX and machine code ----*- C++ -*-===//
//
//   auto code = cuda::emitPtx(module, {80, 90}, 3);                  // a program at the level of
//   kernels cuda::assemble(*code, {80, 90}, cuda::findAssembler());          // a cubin for each
//   architecture
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

/// 90 is sm_90. A program runs on these and later ones.
using Architectures = std::vector<unsigned>;

/// What --gpu-arch=sm_80,sm_90 names, ascending.
llvm::Expected<Architectures> parseArchitectures(StringRef text);
/// Those that are compiled for where none are named.
inline constexpr llvm::StringLiteral kDefaultArchitectures = "sm_80,sm_90,sm_100";

//===--- code ---------------------------------------------------------------===//

/// What an assembled kernel needs.
struct Resources {
  unsigned registers = 0, sharedBytes = 0, stackBytes = 0, spillBytes = 0;
};

/// Machine code for one architecture.
struct Cubin {
  unsigned architecture = 0;
  std::vector<char> bytes;
  std::vector<Resources> kernels; // in the order of Code::launches
};

/// The kernels of a variant, as places in Code::launches.
struct AttentionEntry {
  AttentionVariant variant;
  unsigned tiles = 0, split = 0, combine = 0;
};

struct Code {
  unsigned architecture = 0; // of the text
  bool tf32 = false;         // products of f32 are computed in it
  std::string ptx;
  std::vector<Launch> launches;
  std::vector<AttentionEntry> attentions;
  std::vector<Cubin> cubins;
  ArrayAttr nodes; // names of those that kernels report, by their places; null: none
};

/// Each tpc_kernel.func becomes LLVM functions of threads, in place. `program` is at the level of
/// kernels.
FailureOr<std::vector<Launch>> lowerKernels(ModuleOp program);

/// Functions of threads as PTX that the gate takes: a module of the LLVM dialect and NVVM, with
/// scalar ops of `arith` and `math`, which are lowered in place.
llvm::Expected<std::string> writePtx(ModuleOp kernels, const Architectures &architectures,
                                     unsigned optLevel);

/// One text for all kernels of a program, which stays as it is.
llvm::Expected<Code> emitPtx(ModuleOp program, const Architectures &architectures,
                             unsigned optLevel);

/// No float arithmetic may leave its rounding to the assembler, which would contract products and
/// sums, or be approximate. Errors name the line.
llvm::Error checkRounding(StringRef ptx);

/// The path of ptxas: of CUDA_HOME if that is set, else the one in PATH, else in /usr/local/cuda;
/// empty if there is none.
std::string findAssembler();
/// Where it was looked for, for messages.
std::string getAssemblerPlaces();

/// Adds a cubin for each architecture. An error keeps the PTX in a file that it names.
llvm::Error assemble(Code &code, const Architectures &architectures, StringRef assembler);

/// Puts the code into the host's program, in place of its kernels: as data that the runtime reads
/// (tpc/gpu.h). `program` is at the level of buffers.
LogicalResult embed(ModuleOp program, const Code &code);

/// What --report says: per kernel its launch and, per architecture, what it needs; per function of
/// the program how many kernels it launches; per attention its kernels, and why no library does it.
llvm::json::Object makeReport(ModuleOp program, const Code &code);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_CUDA_H
