//===- GradientBuilder.cpp - Ops of backward programs ---------------------===//

#include "../Model/Constants.h"
#include "../Model/Movement.h"
#include "GradientOp.h"
#include "tpc/Dialect/Training.h"
#include "tpc/Transforms/Backward/Passes.h"

#include "GradientOp.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

void GradientBuilder::accumulate(Value v, Value term) {
  if (!isActive(v))
    return;
  Value &cotangent = cotangents[v];
  cotangent = cotangent ? add(cotangent, term) : term;
}

void GradientBuilder::accumulateSum(Value v, Value term) {
  if (isActive(v))
    accumulate(v, sumTo(term, getSizes(v)));
}

Value GradientBuilder::number(double x) {
  return createScalar(builder, loc, builder.getF32Type(), x);
}
Value GradientBuilder::integer(int64_t x) {
  return createScalar(builder, loc, builder.getI64Type(), x);
}
Value GradientBuilder::size(const SymExpr &size) {
  return SizeOp::create(builder, loc, RankedTensorType::get({}, builder.getF32Type()), size);
}
Value GradientBuilder::add(Value x, Value y) { return AddOp::create(builder, loc, x, y); }
Value GradientBuilder::sub(Value x, Value y) { return SubOp::create(builder, loc, x, y); }
Value GradientBuilder::mul(Value x, Value y) { return MulOp::create(builder, loc, x, y); }
Value GradientBuilder::div(Value x, Value y) { return DivOp::create(builder, loc, x, y); }
Value GradientBuilder::neg(Value x) { return NegOp::create(builder, loc, x); }
Value GradientBuilder::select(Value condition, Value x, Value y) {
  return SelectOp::create(builder, loc, condition, x, y);
}
Value GradientBuilder::toFloat(Value condition, Type element) {
  return CastOp::create(builder, loc, makeTensorType(element, getSizes(condition)), condition);
}

Value GradientBuilder::matmul(Value lhs, Value rhs) {
  return MatmulOp::create(builder, loc, lhs, rhs, Value());
}

Value GradientBuilder::transpose(Value v, ArrayRef<int64_t> permutation) {
  // Not createTranspose, which would read a parameter once more through another view.
  return TransposeOp::create(builder, loc, v, permutation);
}

Value GradientBuilder::transposeMatrix(Value v) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, getSizes(v).size()));
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(v, permutation);
}

Value GradientBuilder::reshape(Value v, ArrayRef<SymExpr> sizes) {
  return createReshape(builder, loc, v, sizes);
}

Value GradientBuilder::sumKeep(Value v, ArrayRef<int64_t> dims) {
  return ReduceOp::create(builder, loc, ReduceFunction::Sum, v, dims, /*keep_dims=*/true);
}

Value GradientBuilder::sumTo(Value v, ArrayRef<SymExpr> sizes) {
  SmallVector<SymExpr> wide = getSizes(v);
  int64_t added = wide.size() - sizes.size();
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < int64_t(wide.size()); ++i)
    if (i < added || (sizes[i - added] == SymExpr(1) && wide[i] != SymExpr(1)))
      dims.push_back(i);
  if (dims.empty())
    return v;
  bool onlyAdded = int64_t(dims.size()) == added;
  Value sum = ReduceOp::create(builder, loc, ReduceFunction::Sum, v, dims, !onlyAdded);
  return reshape(sum, sizes);
}

Value GradientBuilder::zeros(Type type) {
  return createSplat(builder, loc, cast<RankedTensorType>(type), 0);
}

Value GradientBuilder::scatterAdd(Value updates, Value ids, const SymExpr &rows) {
  Type type = makeTensorType(elementTypeOf(updates), {rows, getSizes(updates).back()});
  return ScatterAddOp::create(builder, loc, type, updates, ids);
}

void mlir::tpc::registerGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    attachScalarGradients(context);
    attachShapeGradients(context);
    attachModelGradients(context);
  });
}

SmallVector<CoverageColumn> mlir::tpc::getGradientCoverage() {
  return {{"gradient",
           "its gradient (`GradientOpInterface`)",
           {{"yes", TypeID::get<GradientOpInterface>()}}}};
}
