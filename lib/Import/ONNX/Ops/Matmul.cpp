//===- Matmul.cpp - MatMul, Gemm, FusedMatMul -----------------------------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static LogicalResult importMatMul(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  return n.result(n.matmul(n.operand(0), n.operand(1)));
}

static Value transposed(Node &n, Value v, bool yes) {
  if (!v || !yes)
    return v;
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(v)));
  std::swap(permutation[permutation.size() - 2], permutation[permutation.size() - 1]);
  return n.transpose(v, permutation);
}

static Value scaled(Node &n, Value v, double by) {
  return by == 1 || !v ? v : n.binary<MulOp>(v, n.scalar(by, v));
}

/// Imports alpha A B + beta C. With alpha = beta = 1 and a vector C, this is the dialect's matmul
/// with a bias.
static LogicalResult importGemm(Node &n) {
  if (failed(n.expectInputs(n.version < 11 ? 3 : 2, 3)))
    return failure();
  double alpha = n.getFloat("alpha", 1), beta = n.getFloat("beta", 1);
  bool transA = n.getInt("transA", 0), transB = n.getInt("transB", 0);
  if (n.version < 7)
    n.ignore("broadcast");
  if (n.in(0).rank() != 2 || n.in(1).rank() != 2)
    return n.error() << "multiplies " << str(n.in(0).shape) << " and " << str(n.in(1).shape)
                     << "; both must be matrices";
  Value lhs = transposed(n, n.operand(0), transA), rhs = transposed(n, n.operand(1), transB);
  if (!lhs || !rhs)
    return failure();
  bool hasC = n.has(2) && beta != 0;
  if (!hasC)
    return n.result(scaled(n, n.matmul(lhs, rhs), alpha));
  const Tensor &c = n.in(2);
  const SymExpr columns = getSizes(rhs)[1];
  bool isRow =
      (c.rank() == 1 || (c.rank() == 2 && c.shape[0].isConstant(1))) && c.shape.back() == columns;
  if (isRow && alpha == 1 && beta == 1)
    return n.result(n.matmul(lhs, rhs, n.reshape(n.operand(2), {columns})));
  Value product = scaled(n, n.matmul(lhs, rhs), alpha);
  Value sum = n.binary<AddOp>(product, scaled(n, n.operand(2), beta));
  if (sum && sum.getType() != product.getType())
    return n.error() << "adds " << str(c.shape) << ", which does not broadcast to "
                     << str(getSizes(product));
  return n.result(sum);
}

static LogicalResult importFusedMatMul(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  double alpha = n.getFloat("alpha", 1);
  bool transA = n.getInt("transA", 0), transB = n.getInt("transB", 0);
  if (n.getInt("transBatchA", 0) || n.getInt("transBatchB", 0))
    return n.error() << "transposes batch dimensions, which tpc does not import";
  if ((transA && n.in(0).rank() < 2) || (transB && n.in(1).rank() < 2))
    return n.error()
           << "transposes a vector; transA and transB need operands of at least two dimensions";
  return n.result(
      scaled(n, n.matmul(transposed(n, n.operand(0), transA), transposed(n, n.operand(1), transB)),
             alpha));
}

void mlir::tpc::frontend::addMatmulOps(OpTable &t) {
  t.add("MatMul", {1, 9, 13}, importMatMul);
  t.add("Gemm", {1, 6, 7, 9, 11, 13}, importGemm, "A and B of rank 2; C broadcasts to the result");
  t.addMicrosoft("FusedMatMul", importFusedMatMul,
                 "transBatchA = transBatchB = 0; no transposed vector");
}
