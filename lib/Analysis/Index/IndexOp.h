//===- IndexOp.h - Elements as functions of their indices -------*- C++ -*-===//

#ifndef TPC_LIB_ANALYSIS_INDEX_INDEXOP_H
#define TPC_LIB_ANALYSIS_INDEX_INDEXOP_H

#include "tpc/Analysis/Index/IndexAnalysis.h"

#include "IndexOp.h.inc"

namespace mlir::tpc::indexing {

// An element of an element-wise op, by those of its operands; null where there is no answer.
// Without more, what is constant is computed.
IndexExpr ofElements(ScalarOpInterface op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(AddOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(AndOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(CastOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(CmpOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(DivOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(MaxOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(MinOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(ModOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(MulOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(NegOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(NotOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(OrOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(SelectOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(SubOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(XorOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);

} // namespace mlir::tpc::indexing

#endif // TPC_LIB_ANALYSIS_INDEX_INDEXOP_H
