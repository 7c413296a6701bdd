//===- SplitFusedProjections.cpp - Slices of products become products -----===//

#include "Movement.h"
#include "tpc/Transforms/Model/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SPLITFUSEDPROJECTIONS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// The slice as a movement of the product that it takes columns of, if it
/// takes nothing but columns.
std::optional<Movement> columnSlice(SliceOp slice) {
  Movement m = Movement::of(slice.getResult(), Movement::Slices);
  auto matmul = m.base.getDefiningOp<MatmulOp>();
  if (!matmul || rankOf(matmul.getRhs()) != 2 || !matmul.getRhs().getDefiningOp<ParameterOp>() ||
      (matmul.getBias() && !matmul.getBias().getDefiningOp<ParameterOp>()))
    return std::nullopt;
  bool any = false;
  for (auto [dim, factors] : llvm::enumerate(m.baseDims))
    for (int f : factors)
      if (m.factors[f].isSliced()) {
        if (dim + 1 != m.baseDims.size())
          return std::nullopt;
        any = true;
      }
  return any ? std::optional(m) : std::nullopt;
}

/// Whether slices of columns are all that uses `v`, directly or rearranged.
bool onlySliced(Value v) {
  return !v.use_empty() && llvm::all_of(v.getUsers(), [](Operation *user) {
    if (isa<ReshapeOp, TransposeOp>(user))
      return onlySliced(user->getResult(0));
    auto slice = dyn_cast<SliceOp>(user);
    return slice && columnSlice(slice).has_value();
  });
}

/// The columns of `v`, its last dimension, that the movement keeps.
Value sliceColumns(OpBuilder &builder, Value v, const Movement &m) {
  SmallVector<SymExpr> rows = llvm::to_vector(ArrayRef(getSizes(v)).drop_back());
  SmallVector<SymExpr> sizes = rows;
  for (int f : m.baseDims.back())
    sizes.push_back(m.factors[f].whole);
  v = createReshape(builder, v.getLoc(), v, sizes);
  SymExpr columns(1);
  for (auto [i, f] : llvm::enumerate(m.baseDims.back())) {
    const Movement::Factor &factor = m.factors[f];
    columns = columns * factor.size;
    if (factor.isSliced())
      v = createSlice(builder, v.getLoc(), v, rows.size() + i, factor.start, factor.size,
                      factor.step);
  }
  rows.push_back(columns);
  return createReshape(builder, v.getLoc(), v, rows);
}

struct SplitFusedProjections
    : public mlir::tpc::impl::SplitFusedProjectionsBase<SplitFusedProjections> {
  void runOnOperation() override {
    SmallVector<SliceOp> slices;
    getOperation().walk([&](SliceOp op) { slices.push_back(op); });
    // Decide before anything is changed: each product is split by all of its
    // slices or by none.
    std::vector<std::pair<SliceOp, Movement>> work;
    for (SliceOp op : slices)
      if (auto m = columnSlice(op); m && onlySliced(m->base))
        work.push_back({op, *m});
    for (auto &[op, m] : work)
      split(op, m);
  }

  void split(SliceOp op, Movement &m) {
    auto matmul = m.base.getDefiningOp<MatmulOp>();
    OpBuilder builder(op);
    Value rhs = sliceColumns(builder, matmul.getRhs(), m);
    Value bias = matmul.getBias() ? sliceColumns(builder, matmul.getBias(), m) : Value();
    // A view that has no such form: the slice stays.
    if (!rhs.getDefiningOp<ParameterOp>() || (bias && !bias.getDefiningOp<ParameterOp>()))
      return;
    m.base = MatmulOp::create(builder, matmul.getLoc(), matmul.getLhs(), rhs, bias);
    for (Movement::Factor &factor : m.factors)
      if (factor.isSliced()) {
        factor.whole = factor.size;
        factor.start = SymExpr(0);
        factor.step = 1;
      }
    // Factors of one element are no factors.
    for (SmallVector<Movement::Dim> *list : {&m.baseDims, &m.dims})
      for (Movement::Dim &dim : *list)
        llvm::erase_if(dim, [&](int f) { return m.factors[f].size.isConstant(1); });
    op.getResult().replaceAllUsesWith(m.build(builder, op.getLoc()));
  }
};

} // namespace
