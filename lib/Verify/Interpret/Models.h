//===- Models.h - Registration of the interpreter's op models ---*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_MODELS_H
#define TPC_LIB_VERIFY_INTERPRET_MODELS_H

#include "Evaluation.h"
#include "InterpretOps.h"

#include "tpc/Dialect/AttachModels.h"

namespace mlir::tpc::interpret {

template <typename A> using Data = Tensor<typename A::Element>;
template <typename A> using Result = FailureOr<Data<A>>;

/// Base class of the evaluation of an op, which is a template over the arithmetic domain:
///
///     struct Model : EvaluationModel<Model, OpT> {
///       template <typename A> static Result<A> evaluate(OpT op, Evaluation<A> &e);
///     };
template <typename Model, typename OpT>
struct EvaluationModel : EvaluatedOpInterface::ExternalModel<Model, OpT> {
  Result<Doubles> evaluateDoubles(Operation *op, Evaluation<Doubles> &e) const {
    return Model::evaluate(cast<OpT>(op), e);
  }
  Result<Field> evaluateField(Operation *op, Evaluation<Field> &e) const {
    return Model::evaluate(cast<OpT>(op), e);
  }
  double countWork(Operation *, llvm::function_ref<double(DimAttr)>) const { return 4; }
};

/// Base class of the evaluation of an op that is run on all ranks at once:
///
///     template <typename A>
///     static LogicalResult run(OpT op, Machine<A> &machine, Frame<A> &frame);
template <typename Model, typename OpT>
struct RankModel : RankOpInterface::ExternalModel<Model, OpT> {
  LogicalResult runDoubles(Operation *op, Machine<Doubles> &machine, Frame<Doubles> &frame) const {
    return Model::run(cast<OpT>(op), machine, frame);
  }
  LogicalResult runField(Operation *op, Machine<Field> &machine, Frame<Field> &frame) const {
    return Model::run(cast<OpT>(op), machine, frame);
  }
};

void attachScalarEvaluations(MLIRContext *context);  // EvaluateScalars.cpp
void attachProductEvaluations(MLIRContext *context); // EvaluateMatmuls.cpp
void attachRowEvaluations(MLIRContext *context);     // EvaluateRows.cpp
void attachLookupEvaluations(MLIRContext *context);  // EvaluateLookups.cpp
void attachMoveEvaluations(MLIRContext *context);    // EvaluateMoves.cpp
void attachSourceEvaluations(MLIRContext *context);  // EvaluateSources.cpp
void attachRankModels(MLIRContext *context);         // RankModels.cpp
void attachDomainModels(MLIRContext *context);       // Domains.cpp

/// Attaches all models.
void attachModels(MLIRContext *context);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_MODELS_H
