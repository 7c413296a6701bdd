//===- Build.cpp - Builders of ops with exact symbolic types --------------===//

#include "Importer.h"
#include "tpc/Dialect/Quantized.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

bool Node::sameTypes(Value lhs, Value rhs) {
  if (elementOf(lhs) == elementOf(rhs))
    return true;
  error() << "has operands of types " << elementOf(lhs) << " and " << elementOf(rhs)
          << "; they must be the same";
  return false;
}

Value Node::reshape(Value v, ArrayRef<SymExpr> sizes) {
  if (!v)
    return {};
  SymExpr from = product(getSizes(v)), to = product(sizes);
  if (!equate(from, to,
              "a value of shape " + str(getSizes(v)) + " cannot be reshaped to " + str(sizes)))
    return {};
  RankedTensorType t = type(elementOf(v), sizes);
  return t == v.getType() ? v : Value(ReshapeOp::create(b, loc, t, v));
}

Value Node::transpose(Value v, ArrayRef<int64_t> permutation) {
  if (!v)
    return {};
  Sizes sizes = getSizes(v), result;
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(permutation)) {
    result.push_back(sizes[p]);
    identity &= (int64_t)i == p;
  }
  if (identity)
    return v;
  return TransposeOp::create(b, loc, type(elementOf(v), result), v, permutation);
}

Value Node::expand(Value v, ArrayRef<SymExpr> sizes) {
  if (!v)
    return {};
  RankedTensorType t = type(elementOf(v), sizes);
  return t == v.getType() ? v : Value(ExpandOp::create(b, loc, t, v));
}

Value Node::slice(Value v, int64_t dim, const SymExpr &start, const SymExpr &size, int64_t step) {
  if (!v)
    return {};
  Sizes sizes = getSizes(v);
  if (start.isConstant(0) && step == 1 && size == sizes[dim])
    return v;
  sizes[dim] = size;
  return SliceOp::create(b, loc, type(elementOf(v), sizes), v, dim, start, step);
}

Value Node::concat(ArrayRef<Value> values, int64_t dim) {
  Sizes sizes;
  for (auto [i, value] : llvm::enumerate(values)) {
    if (!value)
      return {};
    Sizes next = getSizes(value);
    if (i == 0) {
      sizes = next;
      continue;
    }
    if (next.size() != sizes.size() || elementOf(value) != elementOf(values[0])) {
      error() << "joins " << values[0].getType() << " and " << value.getType()
              << "; they must have the same rank and element type";
      return {};
    }
    if (!isReasonable(sizes[dim])) {
      error() << "joins too many sizes: their sum is too complex";
      return {};
    }
    for (size_t d = 0; d < sizes.size(); ++d)
      if ((int64_t)d == dim)
        sizes[d] = sizes[d] + next[d];
      else if (!equate(sizes[d], next[d], "operands are joined along another dimension"))
        return {};
  }
  // Operands without elements, such as an empty past, change nothing.
  SmallVector<Value> parts(values);
  llvm::erase_if(parts, [&](Value value) { return getSizes(value)[dim].isConstant(0); });
  if (parts.empty())
    parts.push_back(values[0]);
  if (parts.size() == 1)
    return parts[0];
  return ConcatOp::create(b, loc, type(elementOf(values[0]), sizes), parts, dim);
}

Value Node::cast(Value v, Type element) {
  if (!v || elementOf(v) == element)
    return v;
  return CastOp::create(b, loc, type(element, getSizes(v)), v);
}

Value Node::matmul(Value lhs, Value rhs, Value bias) {
  if (!lhs || !rhs)
    return {};
  if (rankOf(lhs) == 0 || rankOf(rhs) == 0) {
    error() << "multiplies a scalar; operands must have at least one dimension";
    return {};
  }
  if (elementOf(lhs) != elementOf(rhs) || elementOf(lhs).isInteger(1)) {
    error() << "multiplies matrices of " << elementOf(lhs) << " and " << elementOf(rhs)
            << "; they must have the same numeric type";
    return {};
  }
  if (bias && !sameTypes(lhs, bias))
    return {};
  // A vector on the right is a column matrix. Its column dimension is removed from the result.
  bool column = rankOf(rhs) == 1;
  if (column) {
    Sizes sizes = getSizes(rhs);
    sizes.push_back(SymExpr(1));
    rhs = reshape(rhs, sizes);
  }
  bool row = rankOf(lhs) == 1;
  if (row) {
    Sizes sizes = getSizes(lhs);
    sizes.insert(sizes.begin(), SymExpr(1));
    lhs = reshape(lhs, sizes);
  }
  Sizes l = getSizes(lhs), r = getSizes(rhs);
  if (!equate(l.back(), r[r.size() - 2], "the columns of " + str(l) + " and the rows of " + str(r)))
    return {};
  FailureOr<Sizes> batch = broadcast(ArrayRef(l).drop_back(2), ArrayRef(r).drop_back(2));
  if (failed_(batch))
    return {};
  Sizes sizes = *batch;
  sizes.push_back(l[l.size() - 2]);
  sizes.push_back(r.back());
  Value result = MatmulOp::create(b, loc, type(elementOf(lhs), sizes), lhs, rhs, bias);
  if (row || column) {
    if (column)
      sizes.pop_back();
    if (row)
      sizes.erase(sizes.begin() + batch->size());
    result = reshape(result, sizes);
  }
  return result;
}

Value Node::dequantize(Value packed, Value scale, Value zero, int64_t bits, int64_t zeroPoint) {
  if (!packed || !scale)
    return {};
  Sizes sizes = getSizes(packed);
  sizes.push_back(SymExpr(8 / bits));
  return DequantizeOp::create(b, loc, type(elementOf(scale), sizes), packed, scale, zero, bits,
                              zeroPoint);
}

Value Node::softmax(Value v, int64_t dim) {
  return v ? Value(SoftmaxOp::create(b, loc, v.getType(), v, dim)) : v;
}

Value Node::layerNorm(Value x, Value scale, Value bias, double epsilon) {
  if (!x || !scale || !sameTypes(x, scale) || (bias && !sameTypes(x, bias)))
    return {};
  return LayerNormOp::create(b, loc, x.getType(), x, scale, bias, b.getF64FloatAttr(epsilon));
}

Value Node::rmsNorm(Value x, Value scale, double epsilon) {
  if (!x || !scale || !sameTypes(x, scale))
    return {};
  return RmsNormOp::create(b, loc, x.getType(), x, scale, b.getF64FloatAttr(epsilon));
}

Value Node::reduce(ReduceFunction function, Value v, ArrayRef<int64_t> dims, bool keep) {
  if (!v)
    return {};
  Sizes sizes = getSizes(v), result;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!llvm::is_contained(dims, (int64_t)i))
      result.push_back(sizes[i]);
    else if (keep)
      result.push_back(SymExpr(1));
  if (dims.empty())
    return v;
  return ReduceOp::create(b, loc, type(elementOf(v), result), function, v, dims, keep);
}

Value Node::iota(const SymExpr &size, int64_t dim, int64_t rank) {
  Sizes sizes(rank, SymExpr(1));
  sizes[dim] = size;
  return IotaOp::create(b, loc, type(b.getI64Type(), sizes), dim);
}

Value Node::argExtreme(ReduceFunction function, Value v, int64_t dim, bool keep, bool last) {
  Value best = reduce(function, v, {dim}, /*keep=*/true);
  if (!best)
    return {};
  const SymExpr extent = getSizes(v)[dim];
  Value none = last ? constant(b.getI64Type(), -1) : size(extent, b.getI64Type());
  Value found = compare(Predicate::EQ, v, best);
  // NaN is not equal to any number. As in numpy, NaN is treated as the extreme element.
  if (isa<FloatType>(elementOf(v)))
    found = binary<OrOp>(found, IsNanOp::create(b, loc, type(b.getI1Type(), getSizes(v)), v));
  Value candidates = select(found, iota(extent, dim, rankOf(v)), none);
  return reduce(last ? ReduceFunction::Max : ReduceFunction::Min, candidates, {dim}, keep);
}

Value Node::checkedIndex(Value v, const SymExpr &size, bool wraps) {
  v = cast(v, b.getI64Type());
  if (!v)
    return {};
  if (!wraps) {
    Value negative = compare(Predicate::LT, v, scalar(0, v));
    v = select(negative, binary<SubOp>(v, this->size(size, elementOf(v))), v);
  }
  return GatherOp::create(b, loc, v.getType(), iota(size, 0, 1), v, 0);
}

Value Node::constant(Type element, double number) {
  Tensor tensor;
  tensor.element = element;
  auto contents = std::make_shared<Contents>();
  contents->isFloat = isa<FloatType>(element);
  if (contents->isFloat)
    contents->floats.push_back(number);
  else
    contents->ints.push_back(SymExpr((int64_t)number));
  tensor.contents = contents;
  return materialize(tensor);
}

Value Node::size(const SymExpr &expr, Type element) {
  Tensor tensor;
  tensor.element = element;
  auto contents = std::make_shared<Contents>();
  contents->ints.push_back(expr);
  tensor.contents = contents;
  return materialize(tensor);
}

Value Node::compare(Predicate predicate, Value lhs, Value rhs) {
  if (!lhs || !rhs || !sameTypes(lhs, rhs))
    return {};
  FailureOr<Sizes> sizes = broadcast(getSizes(lhs), getSizes(rhs));
  if (failed_(sizes))
    return {};
  return CmpOp::create(b, loc, type(b.getI1Type(), *sizes), predicate, lhs, rhs);
}

Value Node::select(Value condition, Value lhs, Value rhs) {
  if (!condition || !lhs || !rhs || !sameTypes(lhs, rhs))
    return {};
  FailureOr<Sizes> sizes = broadcast(getSizes(lhs), getSizes(rhs));
  if (failed_(sizes))
    return {};
  sizes = broadcast(*sizes, getSizes(condition));
  if (failed_(sizes))
    return {};
  return SelectOp::create(b, loc, type(elementOf(lhs), *sizes), condition, lhs, rhs);
}
