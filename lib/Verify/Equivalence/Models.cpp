//===- Models.cpp - Registration of the proof's op models -----------------===//

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

template <typename Interface> static CoverageColumn makeColumn(StringRef name, StringRef what) {
  return {name, what, {{"yes", TypeID::get<Interface>()}}};
}

SmallVector<CoverageColumn> mlir::tpc::getVerificationCoverage() {
  return {
      makeColumn<BoundsOpInterface>("bounds", "trip counts of its loops (`BoundsOpInterface`)"),
      makeColumn<LemmaOpInterface>(
          "lemma", "relation of its result's slice to those of its operands (`LemmaOpInterface`)"),
      makeColumn<TermOpInterface>(
          "expression", "its result as an expression of its operands (`TermOpInterface`)"),
      makeColumn<RepeatOpInterface>("repetition",
                                    "operands whose dimensions repeat (`RepeatOpInterface`)"),
      makeColumn<SizesOpInterface>("sizes", "constraints on reduced sizes (`SizesOpInterface`)"),
      {"evaluator",
       "evaluation by the reference interpreter: on each `rank` separately "
       "(`EvaluatedOpInterface`), or on `all` together (`RankOpInterface`)",
       {{"rank", TypeID::get<interpret::EvaluatedOpInterface>()},
        {"all", TypeID::get<interpret::RankOpInterface>()}}},
      makeColumn<interpret::DomainOpInterface>("domain",
                                               "valid inputs, so that inputs can be drawn "
                                               "(`DomainOpInterface`)")};
}
