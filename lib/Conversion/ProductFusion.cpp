//===- ProductFusion.cpp - Matmuls with a norm and an activation ----------===//

#include "ProductFusion.h"
#include "MergedResults.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns the tensor function of a call of a kernel with one result.
static func::FuncOp getKernel(func::CallOp call) {
  if (!call || call.getNumResults() != 1)
    return {};
  auto callee = dyn_cast_or_null<func::FuncOp>(
      SymbolTable::lookupNearestSymbolFrom(call, call.getCalleeAttr()));
  return callee && callee->hasAttr(kKernelAttr) ? callee : func::FuncOp();
}

/// Returns the op that computes a kernel's result, if the kernel has `count` ops.
static Operation *getLastOp(func::FuncOp kernel, unsigned count) {
  Block &body = kernel.front();
  if (body.getOperations().size() != count + 1)
    return nullptr;
  return body.getTerminator()->getOperand(0).getDefiningOp();
}

/// Returns the operand that the call passes for an argument of the kernel; null for other values.
static Value getOperand(func::CallOp call, Value inKernel) {
  auto argument = dyn_cast_or_null<BlockArgument>(inKernel);
  return argument ? call.getOperand(argument.getArgNumber()) : Value();
}

static bool isDense(func::FuncOp kernel, Value inKernel) {
  auto argument = dyn_cast<BlockArgument>(inKernel);
  return argument && !kernel.getArgAttr(argument.getArgNumber(), kRowStrideAttr);
}

/// Adds the norm that computes the matmuls' operand.
static void addNorm(ProductFusion &fusion, MatmulOp matmul, size_t matmuls) {
  Value lhs = matmul.getLhs();
  auto call = lhs.getDefiningOp<func::CallOp>();
  func::FuncOp kernel = getKernel(call);
  Operation *op = kernel ? getLastOp(kernel, 1) : nullptr;
  size_t uses = std::distance(lhs.use_begin(), lhs.use_end());
  if (!op || uses != matmuls || call->getBlock() != matmul->getBlock())
    return;
  Value x, scale, shift;
  if (auto rms = dyn_cast<RmsNormOp>(op)) {
    fusion.norm = buffer::Norm::Rms;
    fusion.epsilon = rms.getEpsilon();
    x = rms.getX(), scale = rms.getScale();
  } else if (auto layer = dyn_cast<LayerNormOp>(op)) {
    fusion.norm = buffer::Norm::Layer;
    fusion.epsilon = layer.getEpsilon();
    x = layer.getX(), scale = layer.getScale(), shift = layer.getBias();
  } else {
    return;
  }
  Type element = getElementTypeOrSelf(lhs);
  auto isSupported = [&](Value value) {
    Type type = getElementTypeOrSelf(value);
    return isDense(kernel, value) && (type == element || type.isF32());
  };
  if (!isSupported(x) || !isSupported(scale) ||
      (shift &&
       (!isSupported(shift) || getElementTypeOrSelf(shift) != getElementTypeOrSelf(scale)))) {
    fusion.norm = buffer::Norm::None;
    return;
  }
  fusion.normCall = call;
  fusion.source = getOperand(call, x);
  fusion.scale = getOperand(call, scale);
  fusion.shift = getOperand(call, shift);
}

static buffer::Epilogue getActivation(Operation *op) {
  if (isa_and_nonnull<SiluOp>(op))
    return buffer::Epilogue::Silu;
  if (isa_and_nonnull<ReluOp>(op))
    return buffer::Epilogue::Relu;
  auto gelu = dyn_cast_or_null<GeluOp>(op);
  if (gelu && gelu.getApproximate() == GeluApproximation::Tanh)
    return buffer::Epilogue::GeluTanh;
  return gelu && gelu.getApproximate() == GeluApproximation::None ? buffer::Epilogue::GeluErf
                                                                  : buffer::Epilogue::None;
}

/// Returns a matmul's result with its bias, if it has no other epilogue; else null. Adds the ops of
/// the epilogue to the fusion.
static Value getBiased(MatmulOp matmul, SmallVectorImpl<Operation *> &ops) {
  Value last = matmul.getResult();
  bool isPlain = true;
  while (last.hasOneUse()) {
    Operation *user = *last.user_begin();
    auto fused = user->getAttrOfType<IntegerAttr>(kFusedAttr);
    if (!fused || user->getOperand(fused.getInt()) != last)
      break;
    isPlain &=
        isa<AddOp>(user) &&
        cast<RankedTensorType>(user->getOperand(1 - fused.getInt()).getType()).getRank() == 1;
    ops.push_back(user);
    last = user->getResult(0);
  }
  return isPlain && last.hasOneUse() ? last : Value();
}

/// Adds the activation of the matmuls' results.
static void addActivation(ProductFusion &fusion, ArrayRef<Value> results) {
  if (results.empty() || results.size() > 2 || llvm::is_contained(results, Value()))
    return;
  Value first = results[0];
  auto call = dyn_cast<func::CallOp>(*first.user_begin());
  func::FuncOp kernel = getKernel(call);
  Operation *last = kernel ? getLastOp(kernel, results.size()) : nullptr;
  if (!last || call->getBlock() != first.getParentBlock() ||
      getElementTypeOrSelf(call.getResult(0)) != getElementTypeOrSelf(results[0]) ||
      getDist(call.getResult(0)).getDims() != getDist(results[0]).getDims())
    return;
  Operation *activationOp = last;
  if (results.size() == 2) {
    auto mul = dyn_cast<MulOp>(last);
    if (!mul)
      return;
    unsigned side = mul.getOperand(0).getDefiningOp() ? 0 : 1;
    activationOp = mul.getOperand(side).getDefiningOp();
    if (!activationOp || getOperand(call, mul.getOperand(1 - side)) != results[1] ||
        getDist(results[0]).getDims() != getDist(results[1]).getDims())
      return;
  }
  buffer::Epilogue activation = getActivation(activationOp);
  if (activation == buffer::Epilogue::None ||
      getOperand(call, activationOp->getOperand(0)) != results[0])
    return;
  fusion.activation = activation;
  fusion.isGated = results.size() == 2;
  fusion.activationCall = call;
}

/// Returns whether all ops between two ops of a block are in the list, or need no code.
static bool areAdjacent(Operation *first, Operation *last, ArrayRef<Operation *> ops) {
  for (Operation *op = first; op != last; op = op->getNextNode())
    if (!llvm::is_contained(ops, op) && !isa<ParameterOp, ConstantOp>(op) &&
        !(isa<ReshapeOp>(op) && !op->hasAttr(kAliasedAttr)))
      return false;
  return true;
}

/// Returns the fusion of matmuls that run in one call, or nothing.
static std::optional<ProductFusion> findFusion(ArrayRef<MatmulOp> merged) {
  ProductFusion fusion;
  SmallVector<Value> results;
  for (MatmulOp matmul : merged) {
    fusion.ops.push_back(matmul);
    results.push_back(getBiased(matmul, fusion.ops));
  }
  llvm::sort(fusion.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  ProductFusion extended = fusion;
  addNorm(extended, merged.front(), merged.size());
  if (extended.normCall)
    extended.ops.insert(extended.ops.begin(), extended.normCall);
  if (extended.normCall && areAdjacent(extended.getFirst(), extended.getLast(), extended.ops))
    fusion = extended;
  extended = fusion;
  addActivation(extended, results);
  if (extended.activationCall)
    extended.ops.push_back(extended.activationCall);
  if (extended.activationCall && areAdjacent(extended.getFirst(), extended.getLast(), extended.ops))
    fusion = extended;
  if (!fusion.normCall && !fusion.activationCall)
    return std::nullopt;
  return fusion;
}

std::vector<ProductFusion> mlir::tpc::findProductFusions(Block &block,
                                                         const ParameterTable &parameters) {
  std::vector<ProductFusion> fusions;
  if (!TargetTraits::get(block.getParentOp()).hasFusedProducts)
    return fusions;
  for (auto matmul : block.getOps<MatmulOp>()) {
    if (!parameters.isPackedMatmul(matmul))
      continue;
    SmallVector<MatmulOp> merged = getMerged(matmul);
    if (matmul != merged.front())
      continue;
    if (std::optional<ProductFusion> fusion = findFusion(merged))
      fusions.push_back(std::move(*fusion));
  }
  return fusions;
}
