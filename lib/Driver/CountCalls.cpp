//===- CountCalls.cpp - Calls and kernels of a staged program -------------===//

#include "CountCalls.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Driver/PassPipelines.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::tpc;

namespace tpc {
std::vector<FunctionRow> countCalls(ModuleOp staged) {
  // Ignores errors, which are reported when the program is compiled.
  ScopedDiagnosticHandler quiet(staged.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> plan = staged.clone();
  PassManager pm(staged.getContext());
  ::tpc::buildKernelsPassPipeline(pm);
  ::tpc::buildBuffersPassPipeline(pm);
  if (failed(pm.run(*plan)))
    return {};

  llvm::StringMap<int64_t> calls;
  plan->walk([&](buffer::CallOp call) { ++calls[call.getCallee()]; });
  std::vector<FunctionRow> rows;
  for (auto function : plan->getOps<buffer::FuncOp>()) {
    if (function.getStage())
      continue;
    auto of = plan->lookupSymbol<func::FuncOp>(function.getOfAttr());
    FunctionRow row{of.getName().str(), of->hasAttr(kLayerAttr),
                    calls.lookup(function.getSymName())};
    function.walk([&](Operation *op) {
      row.matmuls += isa<buffer::ProductOp, buffer::BatchProductOp, buffer::QuantizedProductOp>(op);
      row.attentions += isa<buffer::AttentionOp>(op);
      row.kernels += isa<buffer::LaunchOp>(op);
    });
    rows.push_back(row);
  }
  return rows;
}
} // namespace tpc
