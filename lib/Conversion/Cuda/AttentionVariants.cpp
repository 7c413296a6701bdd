//===- AttentionVariants.cpp - Attention variants of a program ------------===//

#include "AttentionTensorTiles.h"
#include "tpc/Conversion/Cuda/Passes.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_ATTENTIONTONVVM
#include "tpc/Conversion/Cuda/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static StringRef getName(int32_t dtype) {
  return dtype == TPC_F32 ? "f32" : dtype == TPC_F16 ? "f16" : "bf16";
}

std::string cuda::getName(const AttentionVariant &variant) {
  std::string name = ("attention_" + ::getName(variant.element) + "_").str();
  name += std::to_string(variant.headSize);
  if (variant.valueSize != variant.headSize)
    name += "_" + std::to_string(variant.valueSize);
  auto mark = [&](bool has, const llvm::Twine &what) {
    if (has)
      name += ("_" + what).str();
  };
  mark(variant.causal, "causal");
  mark(variant.windowed, "window");
  mark(variant.keyMask, "keys");
  mark(variant.mask, "mask");
  mark(variant.bias >= 0, "bias_" + ::getName(variant.bias));
  mark(variant.slopes >= 0, "slopes_" + ::getName(variant.slopes));
  mark(variant.sinks >= 0, "sinks_" + ::getName(variant.sinks));
  mark(variant.softcap, "softcap");
  mark(variant.uniformRows, "uniform");
  mark(variant.cached, "cached");
  return name;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

FailureOr<AttentionVariant> cuda::getVariant(AttentionOp op) {
  AttentionVariant variant;
  auto getDtype = [&](Value value, StringRef what) -> FailureOr<int32_t> {
    if (!value)
      return -1;
    Type type = getElementTypeOrSelf(value);
    if (type.isF32())
      return TPC_F32;
    if (type.isF16())
      return TPC_F16;
    if (type.isBF16())
      return TPC_BF16;
    return op.emitOpError() << "has " << what << " of " << type
                            << ": kernels for GPUs read f32, f16 and bf16";
  };
  Type type = getElementTypeOrSelf(op.getQ());
  for (Value other : {op.getK(), op.getV()})
    if (getElementTypeOrSelf(other) != type)
      return op.emitOpError() << "has queries of " << type << " and keys or values of "
                              << getElementTypeOrSelf(other)
                              << ": kernels for GPUs read one type; cast one of them";
  auto element = getDtype(op.getQ(), "elements");
  if (failed(element))
    return failure();
  auto bias = getDtype(op.getBias(), "a bias"), slopes = getDtype(op.getSlopes(), "slopes"),
       sinks = getDtype(op.getSinks(), "sinks");
  if (failed(bias) || failed(slopes) || failed(sinks))
    return failure();
  variant.element = *element;
  variant.bias = *bias;
  variant.slopes = *slopes;
  variant.sinks = *sinks;
  MeshAttr grid = MeshAttr::lookup(op);
  auto getSize = [&](Value value, StringRef what) -> FailureOr<int32_t> {
    ::tpc::SymExpr size =
        substituteNumbers(getLocalSize(getDist(value).getDims().back(), grid), grid);
    auto known = size.asConstant();
    if (!known)
      return op.emitOpError() << "has a " << what << " size of " << size.str()
                              << ": kernels for GPUs need one constant size on all ranks";
    if (*known < 1 || *known > kMaxHeadSize)
      return op.emitOpError() << "has a " << what << " size of " << *known
                              << ": kernels for GPUs support 1 to " << kMaxHeadSize;
    return static_cast<int32_t>(*known);
  };
  auto head = getSize(op.getK(), "head");
  if (failed(head))
    return failure();
  auto value = getSize(op.getV(), "value");
  if (failed(value))
    return failure();
  variant.headSize = *head;
  variant.valueSize = *value;
  variant.causal = op.getCausal();
  variant.windowed = op.getWindow().has_value();
  variant.keyMask = op.getKeyMask() != nullptr;
  variant.mask = op.getMask() != nullptr;
  variant.softcap = !op.getSoftcap().isZero();
  variant.cached = op.getLengths() != nullptr;
  // With a cache, each row has a visible key.
  variant.uniformRows = op.getMaskedRow() == MaskedRow::Uniform && !variant.cached;
  return variant;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

AttentionKernels cuda::makeAttentionKernels(ModuleOp kernels, const AttentionVariant &variant) {
  std::string name = getName(variant);
  Launch tiles = getTensorTile(variant) ? TensorTileEmitter(kernels, variant).emit(name)
                                        : TileEmitter(kernels, variant).emit(name);
  return {variant, std::move(tiles), SplitEmitter(kernels, variant).emit(name + "_split")};
}

FailureOr<std::vector<AttentionKernels>> cuda::makeAllAttentionKernels(ModuleOp program) {
  MLIRContext *context = program.getContext();
  // Without a pass manager, no pass has loaded the dialects.
  context
      ->loadDialect<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect, NVVM::NVVMDialect>();
  std::vector<AttentionVariant> variants;
  WalkResult walk = program.walk([&](AttentionOp op) {
    auto variant = getVariant(op);
    if (failed(variant))
      return WalkResult::interrupt();
    if (!llvm::is_contained(variants, *variant))
      variants.push_back(*variant);
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  ModuleOp kernels = kernel::getKernels(program);
  if (!kernels) {
    kernels = ModuleOp::create(program.getLoc(), "kernels");
    SymbolTable(program).insert(kernels);
  }
  std::vector<AttentionKernels> made;
  for (const AttentionVariant &variant : variants)
    made.push_back(makeAttentionKernels(kernels, variant));
  return made;
}

namespace {
struct AttentionToNvvm : mlir::tpc::impl::AttentionToNvvmBase<AttentionToNvvm> {
  void runOnOperation() override {
    if (failed(cuda::makeAllAttentionKernels(getOperation())))
      signalPassFailure();
  }
};
} // namespace
