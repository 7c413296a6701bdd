//===- Models.h - Registration of the proof's op models ---------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_MODELS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_MODELS_H

#include "ProofOps.h"

#include "tpc/Dialect/AttachModels.h"

namespace mlir::tpc::equivalence {

void attachFormulas(MLIRContext *context);      // Lemmas.cpp
void attachMoveLemmas(MLIRContext *context);    // LemmasMoves.cpp
void attachProgramLemmas(MLIRContext *context); // LemmasProgram.cpp
void attachTermModels(MLIRContext *context);    // TermModels.cpp
void attachRepeatModels(MLIRContext *context);  // RepeatModels.cpp
void attachSizeModels(MLIRContext *context);    // SizeModels.cpp
void attachBoundsModels(MLIRContext *context);  // BoundsModels.cpp

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_MODELS_H
