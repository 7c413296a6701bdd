//===- TargetFlags.cpp - Checks of target flags ---------------------------===//

#include "TargetFlags.h"

#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/MakeError.h"

#include "llvm/ADT/StringExtras.h"

using namespace tpc;
using llvm::Error;
using mlir::tpc::TargetTraits;

using mlir::tpc::makeError;

const TargetTraits *tpc::findTarget(const TpccOptions &options) {
  return options.target.empty() ? TargetTraits::getAll().front()
                                : TargetTraits::lookup(options.target);
}

Error tpc::checkTarget(const TpccOptions &options, const TargetTraits &target) {
  llvm::StringRef name = target.name;
  if (options.kernelText && options.kernelTextName != target.kernelText)
    for (const TargetTraits *other : TargetTraits::getAll())
      if (other->kernelText == options.kernelTextName)
        return makeError("--emit=" + options.kernelTextName + " needs --target=" + other->name +
                         "; kernels for " + name + " are part of --emit=llvm");
  if (!options.architectures.empty()) {
    if (!target.checkArchitectures)
      return makeError("--gpu-arch needs a target with GPUs, such as --target=cuda; for " + name +
                       " it is --march");
    if (Error problem = target.checkArchitectures(options.architectures))
      return makeError("--gpu-arch: " + llvm::toString(std::move(problem)));
  }
  if (options.precision == "tf32" && !target.hasTf32)
    return makeError("--precision=tf32 needs a target that has TF32, such as --target=cuda; " +
                     name + " computes matmuls in f32");
  return Error::success();
}

std::optional<int64_t> tpc::getOverlapChunks(const TpccOptions &options) {
  if (options.overlap == "off")
    return 1;
  if (options.overlap == "on")
    return 4;
  if (options.overlap == "auto")
    return 0;
  int64_t chunks = 0;
  if (llvm::StringRef(options.overlap).getAsInteger(10, chunks) || chunks < 2 ||
      chunks > mlir::tpc::AllReduceStartOp::maxChunks)
    return std::nullopt;
  return chunks;
}

Error tpc::checkTarget(const TpccOptions &options) {
  if (!getOverlapChunks(options))
    return makeError("--overlap: must be off, on, auto, or a number of chunks from 2 to " +
                     std::to_string(mlir::tpc::AllReduceStartOp::maxChunks) + ", not '" +
                     options.overlap + "'");
  if (!llvm::is_contained({"f32", "tf32", "bf16", "f16"}, options.precision))
    return makeError("--precision: there is no precision '" + options.precision +
                     "'; there are f32, tf32, bf16, f16");
  if (llvm::is_contained({"bf16", "f16"}, options.precision) && !options.gradients)
    return makeError("--precision=" + options.precision +
                     " is for --train and --gradients; convert other models with "
                     "an exporter");
  if (options.residual != "f32" && options.residual != "same")
    return makeError("--residual: must be f32 or same (the model's type), not '" +
                     options.residual + "'");
  if (options.target.empty())
    return Error::success();
  if (const TargetTraits *target = findTarget(options))
    return checkTarget(options, *target);
  auto names = llvm::map_range(TargetTraits::getAll(), [](auto *target) { return target->name; });
  return makeError("--target: there is no target '" + options.target + "'; there are " +
                   llvm::join(names, ", "));
}
