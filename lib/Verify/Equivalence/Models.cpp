//===- Models.cpp - What the proof knows, op by op ------------------------===//

#include "Models.h"

#include "../Interpret/Models.h"

#include "tpc/Verify/Verify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "ProofOps.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

void mlir::tpc::registerVerification(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    context->getOrLoadDialect<func::FuncDialect>();
    attachFormulas(context);
    attachMoveLemmas(context);
    attachProgramLemmas(context);
    attachTermModels(context);
    attachRepeatModels(context);
    attachSizeModels(context);
    attachBoundsModels(context);
    interpret::attachModels(context);
  });
}

template <typename Interface> static OpConcern makeConcern(StringRef name, StringRef what) {
  return {name, what, {{"yes", TypeID::get<Interface>()}}};
}

SmallVector<OpConcern> mlir::tpc::getVerificationConcerns() {
  return {
      makeConcern<BoundsOpInterface>("bounds", "how often its loops run (`BoundsOpInterface`)"),
      makeConcern<LemmaOpInterface>(
          "lemma", "what its result is of the whole value, by what its operands are "
                   "(`LemmaOpInterface`)"),
      makeConcern<TermOpInterface>(
          "expression", "what its result is, as an expression of its operands (`TermOpInterface`)"),
      makeConcern<RepeatOpInterface>(
          "repetition", "what it makes of dimensions that repeat (`RepeatOpInterface`)"),
      makeConcern<SizesOpInterface>(
          "sizes", "what it needs of sizes that are made small (`SizesOpInterface`)"),
      {"evaluator",
       "what it computes in the reference interpreter: on each `rank` by itself "
       "(`EvaluatedOpInterface`), or on `all` together (`RankOpInterface`)",
       {{"rank", TypeID::get<interpret::EvaluatedOpInterface>()},
        {"all", TypeID::get<interpret::RankOpInterface>()}}},
      makeConcern<interpret::DomainOpInterface>(
          "domain", "which numbers it can be run with, so that inputs can be drawn "
                    "(`DomainOpInterface`)")};
}
