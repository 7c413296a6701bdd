//===- Shape.cpp - Shape, Size, Constant, Identity, Cast ------------------===//

#include "Fold.h"
#include "Importer.h"
#include "OpTable.h"
#include "tpc/Dialect/Elements.h"

#include "onnx.pb.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using ::onnx::AttributeProto;

static LogicalResult importShape(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  int64_t rank = n.in(0).rank(), start = n.getInt("start", 0), end = n.getInt("end", rank);
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  start = clamp(start);
  end = std::max(start, clamp(end));
  Contents contents;
  for (int64_t i = start; i < end; ++i)
    contents.ints.push_back(n.in(0).shape[i]);
  return n.resultContents(n.b.getI64Type(), {SymExpr(end - start)}, std::move(contents));
}

static LogicalResult importSize(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  Contents contents;
  contents.ints.push_back(product(n.in(0).shape));
  return n.resultContents(n.b.getI64Type(), {}, std::move(contents));
}

static LogicalResult importConstant(Node &n) {
  for (const char *name : {"sparse_value", "value_string", "value_strings"})
    if (n.hasAttribute(name))
      return n.error() << "has its value in attribute '" << name << "', which tpc does not read";
  if (const AttributeProto *value = n.attribute("value", AttributeProto::TENSOR)) {
    // Names the constant after its result.
    ::onnx::TensorProto proto = value->t();
    proto.set_name(n.numOutputs() ? n.proto.output(0) : "");
    FailureOr<Tensor> tensor =
        n.importer.readTensor(proto, "constant '" + Twine(proto.name()) + "'", n.loc, false);
    return failed(tensor) ? failure() : n.result(std::move(*tensor));
  }
  Contents contents;
  if (const AttributeProto *value = n.attribute("value_int", AttributeProto::INT)) {
    contents.ints.push_back(SymExpr(value->i()));
    return n.resultContents(n.b.getI64Type(), {}, std::move(contents));
  }
  contents.isFloat = true;
  if (const AttributeProto *value = n.attribute("value_float", AttributeProto::FLOAT)) {
    contents.floats.push_back(value->f());
    return n.resultContents(n.b.getF32Type(), {}, std::move(contents));
  }
  if (const AttributeProto *value = n.attribute("value_floats", AttributeProto::FLOATS)) {
    if (value->floats_size() > kMaxContents)
      return n.error() << "has " << value->floats_size()
                       << " numbers in an attribute; store them as a tensor, in attribute 'value'";
    contents.floats.assign(value->floats().begin(), value->floats().end());
    return n.resultContents(n.b.getF32Type(), {SymExpr(value->floats_size())}, std::move(contents));
  }
  contents.isFloat = false;
  if (const AttributeProto *value = n.attribute("value_ints", AttributeProto::INTS)) {
    if (value->ints_size() > kMaxContents)
      return n.error() << "has " << value->ints_size()
                       << " numbers in an attribute; store them as a tensor, in attribute 'value'";
    contents.ints.assign(value->ints().begin(), value->ints().end());
    return n.resultContents(n.b.getI64Type(), {SymExpr(value->ints_size())}, std::move(contents));
  }
  if (n.failed())
    return failure();
  return n.error() << "has no value";
}

static LogicalResult importIdentity(Node &n) {
  return failed(n.expectInputs(1)) ? failure() : n.result(n.in(0));
}

//===----------------------------------------------------------------------===//
// Cast
//===----------------------------------------------------------------------===//

static std::optional<Contents> castContents(const Tensor &x, Type to) {
  Contents result;
  bool toFloat = result.isFloat = isa<FloatType>(to);
  if (x.isFloat()) {
    for (double value : x.contents->floats) {
      if (toFloat) {
        result.floats.push_back(roundTo(to, value));
      } else if (to.isInteger(1)) {
        result.ints.push_back(SymExpr(value != 0));
      } else {
        double whole = std::trunc(value);
        if (!(std::fabs(whole) < 9e18))
          return std::nullopt;
        auto wrapped = wrapInt(SymExpr((int64_t)whole), to);
        if (!wrapped)
          return std::nullopt;
        result.ints.push_back(*wrapped);
      }
    }
    return result;
  }
  for (const SymExpr &e : x.contents->ints) {
    std::optional<SymExpr> value = e;
    if (toFloat) {
      auto constant = e.asConstant();
      if (!constant)
        return std::nullopt;
      result.floats.push_back(roundTo(to, (double)*constant));
      continue;
    }
    if (to.isInteger(1)) {
      auto zero = foldCompare(Predicate::NE, e, SymExpr(0));
      if (!zero)
        return std::nullopt;
      value = SymExpr(*zero);
    } else if (!x.isBool()) {
      value = wrapInt(e, to);
    }
    if (!value)
      return std::nullopt;
    result.ints.push_back(*value);
  }
  return result;
}

static LogicalResult castTo(Node &n, Type to) {
  const Tensor &x = n.in(0);
  if (to == x.element)
    return n.result(x);
  if (x.contents)
    if (std::optional<Contents> contents = castContents(x, to))
      return n.resultContents(to, x.shape, std::move(*contents));
  Tensor result = n.wrap(n.cast(n.operand(0), to));
  if (isa<IntegerType>(to) && !to.isInteger(1))
    result.interval = x.isBool() ? std::optional(Interval{SymExpr(0), SymExpr(1)}) : x.interval;
  return n.result(result);
}

static LogicalResult importCast(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  n.ignore("saturate");
  n.ignore("round_mode");
  int64_t to = 0;
  if (n.version < 6) {
    // In old operator sets, `to` is the name of the type.
    std::string name = n.getString("to", "");
    for (int i = 1; i < 17; ++i)
      if (::onnx::TensorProto_DataType_IsValid(i) &&
          ::onnx::TensorProto_DataType_Name((::onnx::TensorProto_DataType)i) ==
              StringRef(name).upper())
        to = i;
  } else {
    to = n.getInt("to", 0);
  }
  if (n.failed())
    return failure();
  Type element = to > 0 && to < 1000 ? getElementType(n.b.getContext(), to) : Type();
  if (!element)
    return n.error() << "casts to " << getDataTypeName(to) << ", which tpc does not have";
  return castTo(n, element);
}

static LogicalResult importCastLike(Node &n) {
  n.ignore("saturate");
  n.ignore("round_mode");
  return failed(n.expectInputs(2)) ? failure() : castTo(n, n.in(1).element);
}

void mlir::tpc::frontend::addShapeOps(OpTable &t) {
  t.add("Shape", {1, 13, 15, 19, 21, 23, 24, 25}, importShape);
  t.add("Size", {1, 13, 19, 21, 23, 24, 25}, importSize);
  t.add("Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, importConstant,
        "no strings, no sparse tensors");
  t.add("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, importIdentity);
  t.add("Cast", {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, importCast, "to a supported element type");
  t.add("CastLike", {15, 19, 21, 23, 24, 25}, importCastLike);
}
