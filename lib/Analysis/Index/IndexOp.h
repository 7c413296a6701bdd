//===- IndexOp.h - Interface of index models --------------------*- C++ -*-===//

#ifndef TPC_LIB_ANALYSIS_INDEX_INDEXOP_H
#define TPC_LIB_ANALYSIS_INDEX_INDEXOP_H

#include "tpc/Analysis/Index/IndexAnalysis.h"

#include "IndexOp.h.inc"

namespace mlir::tpc::indexing {

// Returns an element of an element-wise op from the elements of its operands; null if unknown. The
// default model folds only constants.
IndexExpr ofElements(ScalarOpInterface op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
IndexExpr ofElements(AbsOp op, IndexAnalysis &a, ArrayRef<IndexExpr> operands);
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
