//===- Target.cpp - The CPU target ----------------------------------------===//

#include "tpc/Conversion/Cpu/Target.h"
#include "tpc/Conversion/Target/TargetTraits.h"

using namespace mlir;
using namespace mlir::tpc;

static bool computesMatmuls(Type element) { return element.isF32(); }

/// Returns whether tpc_products supports the op as an epilogue.
static bool isActivation(Operation *op) {
  if (auto gelu = dyn_cast<GeluOp>(op))
    return gelu.getApproximate() != GeluApproximation::Sigmoid;
  return isa<SiluOp, ReluOp>(op);
}

static constexpr TargetTraits cpu = {
    .name = "cpu",
    .computesMatmuls = computesMatmuls,
    .computesExperts = true,
    .computesAttentionGradients = true,
    .addsBias = true,
    .addsResidual = true,
    .isActivation = isActivation,
    .multipliesQuantized = true,
    .cheapCost = 1,
    .expensiveCost = 8,
    .storedFrom = 8,
    .maxKernelOps = 128,
    .maxGeneratedDepth = 32,
    .elementsPerTask = 8192,
};

void mlir::tpc::registerCpuTarget() { registerTarget(cpu); }
