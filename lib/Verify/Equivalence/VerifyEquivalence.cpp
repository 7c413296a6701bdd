//===- VerifyEquivalence.cpp - Equivalence of split program and model -----===//
//
// Verifies a split program in three ways:
//
//   1. A proof for all sizes, in two steps. RelationChecker proves that each local value is the
//      slice of a global value that its type declares. Then both programs are converted to
//      expressions over inputs and weights, and outputs must be equal (readProgram,
//      compareOutputs).
//   2. A randomized check that uses no lemmas: both programs run at small sizes over a prime field
//      (comparePrograms).
//   3. A comparison of facts, which are not part of the computation (compareFacts).
//
// See docs/design/verification.md.
//
//===----------------------------------------------------------------------===//

#include "tpc/Verify/Verify.h"

#include "CompareRuns.h"
#include "ExpandNorms.h"
#include "RelationChecker.h"
#include "Terms.h"
#include "tpc/Verify/Passes.h"

#include "mlir/Parser/Parser.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYEQUIVALENCE
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

/// Proves equivalence for all sizes by lemmas.
static LogicalResult prove(ModuleOp model, ModuleOp program) {
  if (failed(verifyOutsideOfMicroBatches(program)) || failed(RelationChecker(program).run()))
    return failure();
  Terms terms;
  FailureOr<ProgramTerms> expected = readProgram(model, terms);
  if (failed(expected))
    return failure();
  terms.beginProgram();
  FailureOr<ProgramTerms> actual = readProgram(program, terms);
  if (failed(actual))
    return failure();
  return compareOutputs(program, terms, *actual, *expected);
}

LogicalResult mlir::tpc::verifyEquivalence(ModuleOp model, ModuleOp program,
                                           EquivalenceMethods methods, std::string *skipped,
                                           std::string *unexercised) {
  OwningOpRef<ModuleOp> modelCopy, programCopy;
  if (program->hasAttr(kNormsDecomposedAttr)) {
    modelCopy = model.clone();
    programCopy = program.clone();
    expandNorms(model = *modelCopy);
    expandNorms(program = *programCopy);
  }
  if (methods.symbolic && failed(prove(model, program)))
    return failure();
  interpret::RunReport found;
  if (methods.interpret && failed(comparePrograms(model, program, methods.symbolic, found)))
    return failure();
  if (skipped)
    *skipped = found.skipped;
  if (unexercised)
    *unexercised = found.unexercised;
  if (methods.report)
    llvm::outs() << found.facts;
  return compareFacts(program, model);
}

LogicalResult mlir::tpc::verifyDistribution(ModuleOp program) {
  OwningOpRef<ModuleOp> copy;
  if (program->hasAttr(kNormsDecomposedAttr)) {
    copy = program.clone();
    expandNorms(program = *copy);
  }
  return failure(failed(verifyOutsideOfMicroBatches(program)) ||
                 failed(RelationChecker(program).run()));
}

namespace {

struct VerifyEquivalence : public mlir::tpc::impl::VerifyEquivalenceBase<VerifyEquivalence> {
  using VerifyEquivalenceBase::VerifyEquivalenceBase;
  VerifyEquivalence() = default;
  VerifyEquivalence(std::shared_ptr<ReferenceModel> recorded, EquivalenceMethods methods)
      : recorded(std::move(recorded)) {
    symbolic = methods.symbolic;
    report = methods.report;
    interpret = methods.interpret;
  }

  void runOnOperation() override {
    ModuleOp program = getOperation();
    OwningOpRef<ModuleOp> parsed;
    ModuleOp model = recorded ? recorded->module.get() : ModuleOp();
    if (!model && !reference.empty()) {
      parsed = parseSourceFile<ModuleOp>(reference, ParserConfig(&getContext()));
      if (!parsed) {
        emitError(program.getLoc()) << "reference: cannot read '" << reference << "'";
        return signalPassFailure();
      }
      model = *parsed;
    }
    if (!model) {
      emitError(program.getLoc()) << "there is no model to compare with: give the program of the "
                                     "model level as reference=FILE";
      return signalPassFailure();
    }
    std::string skipped, unexercised;
    if (failed(verifyEquivalence(model, program, {symbolic, interpret, report}, &skipped,
                                 &unexercised)))
      return signalPassFailure();
    program->removeAttr(kNoRandomizedCheckAttr);
    if (!skipped.empty()) {
      emitWarning(program.getLoc()) << "tpc-verify-equivalence: "
                                    << (symbolic ? "proved, but not run at small sizes as well: "
                                                 : "not run at small sizes: ")
                                    << skipped;
      program->setAttr(kNoRandomizedCheckAttr, StringAttr::get(&getContext(), skipped));
    } else if (!unexercised.empty()) {
      program->setAttr(kNoRandomizedCheckAttr, StringAttr::get(&getContext(), unexercised));
    }
    markAllAnalysesPreserved();
  }

  std::shared_ptr<ReferenceModel> recorded;
};

struct RecordReference : public PassWrapper<RecordReference, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RecordReference)
  using Field = OwningOpRef<ModuleOp> ReferenceModel::*;
  RecordReference(std::shared_ptr<ReferenceModel> reference, Field field)
      : reference(std::move(reference)), field(field) {}
  StringRef getName() const override { return "RecordReference"; }
  void runOnOperation() override {
    (*reference).*field = getOperation().clone();
    markAllAnalysesPreserved();
  }
  std::shared_ptr<ReferenceModel> reference;
  Field field;
};

} // namespace

std::unique_ptr<Pass> mlir::tpc::createRecordReference(std::shared_ptr<ReferenceModel> reference) {
  return std::make_unique<RecordReference>(std::move(reference), &ReferenceModel::module);
}

std::unique_ptr<Pass> mlir::tpc::createRecordStaged(std::shared_ptr<ReferenceModel> reference) {
  return std::make_unique<RecordReference>(std::move(reference), &ReferenceModel::staged);
}

std::unique_ptr<Pass> mlir::tpc::createVerifyEquivalence(std::shared_ptr<ReferenceModel> reference,
                                                         EquivalenceMethods methods) {
  return std::make_unique<VerifyEquivalence>(std::move(reference), methods);
}
