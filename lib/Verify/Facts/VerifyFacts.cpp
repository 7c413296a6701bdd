//===- VerifyFacts.cpp - Check of facts against the model -----------------===//

#include "Facts.h"
#include "tpc/Verify/Passes.h"
#include "tpc/Verify/Verify.h"

#include "mlir/Parser/Parser.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYFACTS
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

LogicalResult mlir::tpc::verifyFacts(ModuleOp program, ModuleOp model, ModuleOp staged) {
  return failure(failed(facts::checkStep(program)) ||
                 (model && failed(compareFacts(program, model))) ||
                 (staged && failed(compareLoweredFacts(program, staged))));
}

namespace {
struct VerifyFacts : public mlir::tpc::impl::VerifyFactsBase<VerifyFacts> {
  using VerifyFactsBase::VerifyFactsBase;
  VerifyFacts() = default;
  explicit VerifyFacts(std::shared_ptr<ReferenceModel> recorded) : recorded(std::move(recorded)) {}

  /// Returns the recorded module, or the module in `file`; null if neither is given.
  FailureOr<ModuleOp> find(OwningOpRef<ModuleOp> ReferenceModel::*field, StringRef option,
                           StringRef file, OwningOpRef<ModuleOp> &parsed) {
    if (recorded)
      return ((*recorded).*field).get();
    if (file.empty())
      return ModuleOp();
    parsed = parseSourceFile<ModuleOp>(file, ParserConfig(&getContext()));
    if (!parsed)
      return emitError(getOperation().getLoc()) << option << ": cannot read '" << file << "'";
    return parsed.get();
  }

  void runOnOperation() override {
    OwningOpRef<ModuleOp> parsedModel, parsedStaged;
    auto model = find(&ReferenceModel::module, "reference", reference, parsedModel);
    auto before = find(&ReferenceModel::staged, "staged", staged, parsedStaged);
    if (failed(model) || failed(before) || failed(verifyFacts(getOperation(), *model, *before)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  std::shared_ptr<ReferenceModel> recorded;
};
} // namespace

std::unique_ptr<Pass> mlir::tpc::createVerifyFacts(std::shared_ptr<ReferenceModel> reference) {
  return std::make_unique<VerifyFacts>(std::move(reference));
}
