//===- Report.cpp - Report of resources that kernels need -----------------===//

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

static StringRef getShapeName(cuda::Shape shape) {
  switch (shape) {
  case cuda::Shape::Elements:
    return "elements";
  case cuda::Shape::WarpPerRow:
    return "warp per row";
  case cuda::Shape::BlockPerRow:
    return "block per row";
  case cuda::Shape::RowByLength:
    return "warp or block per row";
  case cuda::Shape::AttentionTiles:
    return "tiles of attention";
  case cuda::Shape::AttentionSplit:
    return "attention over a part of the keys";
  case cuda::Shape::Tiles:
    return "tiles";
  }
  llvm_unreachable("all shapes are above");
}

llvm::json::Object cuda::makeReport(ModuleOp program, const Code &code) {
  llvm::json::Array kernels;
  for (auto [i, launch] : llvm::enumerate(code.launches)) {
    llvm::json::Object architectures;
    for (const Cubin &cubin : code.cubins) {
      const Resources &resources = cubin.kernels[i];
      architectures["sm_" + std::to_string(cubin.architecture)] =
          llvm::json::Object{{"registers", resources.registers},
                             {"shared_bytes", resources.sharedBytes},
                             {"stack_bytes", resources.stackBytes},
                             {"spill_bytes", resources.spillBytes}};
    }
    llvm::json::Array extents;
    for (const ::tpc::SymExpr &extent : launch.extents)
      extents.push_back(extent.str());
    kernels.push_back(llvm::json::Object{{"name", launch.name},
                                         {"shape", getShapeName(launch.shape)},
                                         {"threads", launch.threads},
                                         {"rows", launch.rows.str()},
                                         {"elements_per_row", launch.elementsPerRow.str()},
                                         {"elements_per_thread", launch.elementsPerThread},
                                         {"held_elements", launch.registerElements},
                                         {"shared_bytes", launch.sharedBytes},
                                         {"dynamic_shared_bytes", launch.dynamicSharedBytes},
                                         {"below_2_31", std::move(extents)},
                                         {"architectures", std::move(architectures)}});
  }
  // Launches, and matmuls of the library, by the tensor function or stage that contains them.
  llvm::json::Object functions, matmuls;
  auto count = [&](Operation *root, const std::string &name) {
    int64_t launches = 0, single = 0;
    llvm::DenseSet<std::pair<Value, Attribute>> merged;
    root->walk([&](func::CallOp call) {
      auto callee = program.lookupSymbol<func::FuncOp>(call.getCallee());
      launches += callee && callee->hasAttr(kKernelAttr);
    });
    root->walk([&](MatmulOp op) {
      if (Attribute mark = op->getAttr(kMergedAttr))
        merged.insert({op.getLhs(), mark});
      else
        ++single;
    });
    if (isa<StageOp>(root) && !launches && !single && merged.empty())
      return;
    functions[name] = launches;
    matmuls[name] = single + int64_t(merged.size());
  };
  for (auto function : program.getOps<func::FuncOp>())
    if (!function->hasAttr(kKernelAttr) && !function.isExternal())
      count(function, function.getName().str());
  auto getStageName = [](StageOp stage) { return "stage_" + std::to_string(stage.getIndex()); };
  program.walk([&](StageOp stage) { count(stage, getStageName(stage)); });
  llvm::json::Array attentions;
  program.walk([&](AttentionOp op) {
    auto function = op->getParentOfType<func::FuncOp>();
    // This succeeds, because the op's kernels were generated.
    FailureOr<AttentionVariant> variant = getVariant(op);
    auto entry = llvm::find_if(code.attentions,
                               [&](const AttentionEntry &e) { return e.variant == *variant; });
    StringRef whyNot = getLibraryLimitation(*variant);
    attentions.push_back(llvm::json::Object{
        {"node", mlir::tpc::getSourceName(op.getLoc())},
        {"function",
         function ? function.getName().str() : getStageName(op->getParentOfType<StageOp>())},
        {"computed_by", whyNot.empty()
                            ? "cuDNN if it is found and supports the shape, else generated kernels"
                            : "generated kernels"},
        {"kernels",
         llvm::json::Array{code.launches[entry->tiles].name, code.launches[entry->split].name}},
        {"library", whyNot.empty() ? "may compute it" : ("may not: " + whyNot).str()}});
  });
  llvm::json::Object ceilings;
  for (Shape shape : kShapes) {
    Ceiling ceiling = getCeiling(shape);
    ceilings[getShapeName(shape)] =
        llvm::json::Object{{"registers", ceiling.registers}, {"shared_bytes", ceiling.sharedBytes}};
  }
  return llvm::json::Object{
      {"kernels", std::move(kernels)},      {"ceilings", std::move(ceilings)},
      {"launches", std::move(functions)},   {"matmuls", std::move(matmuls)},
      {"attention", std::move(attentions)}, {"precision", code.tf32 ? "tf32" : "f32"}};
}
