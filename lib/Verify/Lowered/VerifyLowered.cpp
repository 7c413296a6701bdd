//===- VerifyLowered.cpp - Verification of lowered programs ---------------===//

#include "CheckKernels.h"
#include "CompareLowered.h"
#include "CompareTensors.h"
#include "RunBuffers.h"

#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Verify.h"

#include "mlir/Parser/Parser.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYLOWERED
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct VerifyLowered : public mlir::tpc::impl::VerifyLoweredBase<VerifyLowered> {
  using VerifyLoweredBase::VerifyLoweredBase;
  VerifyLowered() = default;
  explicit VerifyLowered(std::shared_ptr<ReferenceModel> recorded)
      : recorded(std::move(recorded)) {}

  /// Returns the recorded module, or the module in `file`. Emits an error and returns null if
  /// neither is given.
  ModuleOp find(OwningOpRef<ModuleOp> ReferenceModel::*field, StringRef option, StringRef file,
                StringRef what, OwningOpRef<ModuleOp> &parsed) {
    if (recorded && (*recorded).*field)
      return *((*recorded).*field);
    Location loc = getOperation().getLoc();
    if (file.empty()) {
      emitError(loc) << "there is no " << what << " to compare with: give it as " << option
                     << "=FILE";
      return {};
    }
    parsed = parseSourceFile<ModuleOp>(file, ParserConfig(&getContext()));
    if (!parsed)
      emitError(loc) << option << ": cannot read '" << file << "'";
    return parsed ? *parsed : ModuleOp();
  }

  /// Checks, for all sizes, properties that runs at small sizes do not exercise.
  LogicalResult checkKernels(ModuleOp staged) {
    if (failed(lowered::checkFunctions(staged, getOperation())) ||
        failed(lowered::checkAttributes(getOperation())))
      return failure();
    using Check = LogicalResult (*)(kernel::FuncOp, func::FuncOp);
    auto checkEach = [&](ArrayRef<Check> checks) {
      if (ModuleOp library = kernel::getKernels(getOperation()))
        for (auto function : library.getOps<kernel::FuncOp>()) {
          FailureOr<func::FuncOp> tensors = lowered::getTensors(getOperation(), function);
          if (failed(tensors) ||
              llvm::any_of(checks, [&](Check check) { return failed(check(function, *tensors)); }))
            return failure();
        }
      return success();
    };
    return failure(failed(checkEach(
                       {lowered::checkConstants, lowered::checkIndices, lowered::checkLookups})) ||
                   failed(lowered::checkWidths(getOperation())) ||
                   failed(lowered::checkFrames(getOperation())) ||
                   failed(checkEach({lowered::checkDecisions, lowered::checkArithmetic})));
  }

  /// Records the facts that this run does not exercise, unless tpc-verify-equivalence has recorded
  /// its own.
  LogicalResult reportUnexercised(ModuleOp before, const interpret::RunReport &found) {
    ModuleOp program = getOperation();
    if (before->hasAttr(kNoRandomizedCheckAttr))
      return success(); // verifyFacts has compared the attributes
    StringAttr text;
    if (!found.unexercised.empty())
      text = StringAttr::get(&getContext(), found.unexercised);
    // The two texts may differ: they name ops, by locations if the parsed program has them.
    if (Attribute stated = program->getAttr(kNoRandomizedCheckAttr)) {
      if (text)
        return success();
      return emitError(program.getLoc())
             << "the program has the '" << kNoRandomizedCheckAttr << "' " << stated
             << ", but the run at small sizes exercises all facts";
    }
    if (text)
      program->setAttr(kNoRandomizedCheckAttr, text);
    return success();
  }

  void runOnOperation() override {
    OwningOpRef<ModuleOp> parsedModel, parsedStaged;
    // There is no model if the compiled text is a staged program.
    bool hasModel = !recorded || recorded->module;
    ModuleOp model;
    if (hasModel)
      model = find(&ReferenceModel::module, "reference", reference, "program of the model level",
                   parsedModel);
    ModuleOp before =
        find(&ReferenceModel::staged, "staged", staged, "staged program", parsedStaged);
    interpret::RunReport found;
    if ((hasModel && !model) || !before ||
        (hasModel && failed(verifyFacts(getOperation(), model, before))) ||
        (symbolic && (failed(lowered::compareTensors(before, getOperation())) ||
                      failed(checkKernels(before)))) ||
        (hasModel && this->interpret &&
         failed(lowered::compareLowered(model, before, getOperation(), symbolic, found))))
      return signalPassFailure();
    if (report)
      llvm::outs() << found.facts;
    if (!found.skipped.empty())
      emitWarning(getOperation().getLoc())
          << "tpc-verify-lowered: not run at small sizes: " << found.skipped;
    if (hasModel && this->interpret && failed(reportUnexercised(before, found)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  std::shared_ptr<ReferenceModel> recorded;
};
} // namespace

std::unique_ptr<Pass> mlir::tpc::createVerifyLowered(std::shared_ptr<ReferenceModel> reference) {
  return std::make_unique<VerifyLowered>(std::move(reference));
}

void mlir::tpc::registerLoweredInterpreter(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, buffer::BufferDialect *) {
    lowered::attachMemoryRuns(context);
    lowered::attachComputeRuns(context);
    lowered::attachStateRuns(context);
    lowered::attachCommunicationRuns(context);
  });
}
