//===- Node.cpp - Inputs, attributes and results of an ONNX node ----------===//

#include "Fold.h"
#include "Importer.h"

#include "tpc/Dialect/Sharding.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using ::onnx::AttributeProto;

Node::Node(Importer &importer, Scope &scope, const ::onnx::NodeProto &proto, StringRef domain,
           int64_t version, Location loc)
    : importer(importer), scope(scope), proto(proto), domain(domain), version(version), loc(loc),
      b(importer.builder) {
  for (const std::string &name : proto.input()) {
    FailureOr<const Tensor *> tensor(nullptr);
    if (!name.empty())
      tensor = importer.lookup(scope, name);
    hasFailed |= mlir::failed(tensor);
    inputs.push_back(mlir::failed(tensor) ? nullptr : *tensor);
  }
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

InFlightDiagnostic Node::error() {
  hasFailed = true;
  importer.noteNodeError();
  std::string type = (domain.empty() ? "" : domain.str() + ".") + proto.op_type();
  InFlightDiagnostic diag = emitError(loc);
  diag << "node '" << getSourceName(loc) << "' (" << type << ", opset " << version << ") ";
  return diag;
}

LogicalResult Node::needsKnown(unsigned i, StringRef what) {
  return error() << "has " << what << " ('" << proto.input(i)
                 << "') that is computed from data; tpc needs " << what
                 << " to follow from constants and from the sizes of the inputs"
                 << importer.explainFixInput(in(i).value);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

Value Node::weight(unsigned i) {
  Value value = importer.materializeWeight(in(i), loc);
  hasFailed |= !value;
  return value;
}

Value Node::materialize(const Tensor &tensor) {
  Value value = importer.materialize(tensor, loc);
  hasFailed |= !value;
  return value;
}

LogicalResult Node::expectInputs(unsigned minInputs, unsigned maxInputs) {
  unsigned given = inputs.size();
  while (given && !inputs[given - 1])
    --given;
  if (given > maxInputs)
    return error() << "has " << given << " inputs, but takes at most " << maxInputs;
  for (unsigned i = 0; i < minInputs; ++i)
    if (!has(i))
      return error() << "lacks input " << i;
  return success();
}

LogicalResult Node::expectWholeBytes() {
  for (auto [i, input] : llvm::enumerate(inputs))
    if (input && input->packedBits)
      return error() << "has the input '" << proto.input(i) << "' of " << input->packedBits
                     << (input->packedBits == 8 ? "-bit floats, which only DequantizeLinear takes"
                                                : "-bit integers, which only DequantizeLinear and "
                                                  "GatherBlockQuantized take");
  return success();
}

LogicalResult Node::expectFloat(unsigned i) {
  if (!in(i).isFloat())
    return error() << "needs a floating-point input, but '" << proto.input(i) << "' has elements "
                   << in(i).element;
  return success();
}

FailureOr<std::vector<SymExpr>> Node::knownInts(unsigned i, StringRef what) {
  const Tensor &tensor = in(i);
  if (!isa<IntegerType>(tensor.element) || tensor.rank() > 1)
    return error() << "needs a vector of integers for " << what << ", but '" << proto.input(i)
                   << "' is " << str(tensor.shape) << " of " << tensor.element;
  if (!tensor.contents)
    return needsKnown(i, what);
  return tensor.contents->ints;
}

FailureOr<Sizes> Node::knownSizes(unsigned i, StringRef what) {
  FailureOr<std::vector<SymExpr>> known = knownInts(i, what);
  if (mlir::failed(known))
    return failure();
  // -1 is a size to be inferred.
  Sizes sizes(known->begin(), known->end()), checked = sizes;
  for (SymExpr &size : checked)
    if (size.isConstant(-1))
      size = SymExpr(1);
  if (std::string fault = findFault(checked); !fault.empty())
    return error() << "has " << what << " that " << fault;
  return sizes;
}

RankedTensorType Node::type(Type element, ArrayRef<SymExpr> sizes) {
  std::string fault = findFault(sizes);
  if (fault.empty())
    return makeTensorType(element, sizes);
  // The node fails after its handler returns; until then, any type is sufficient.
  error() << "computes a value that " << fault;
  return makeTensorType(element, Sizes(std::min<size_t>(sizes.size(), 32), SymExpr(1)));
}

FailureOr<SmallVector<int64_t>> Node::constantInts(unsigned i, StringRef what) {
  FailureOr<std::vector<SymExpr>> known = knownInts(i, what);
  if (mlir::failed(known))
    return failure();
  SmallVector<int64_t> result;
  for (const SymExpr &e : *known) {
    std::optional<int64_t> value = e.asConstant();
    if (!value)
      return error() << "needs constant " << what << ", but has `" << e.str() << "`";
    result.push_back(*value);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static const char *typeName(int type) {
  switch (type) {
  case AttributeProto::FLOAT:
    return "a float";
  case AttributeProto::INT:
    return "an integer";
  case AttributeProto::STRING:
    return "a string";
  case AttributeProto::TENSOR:
    return "a tensor";
  case AttributeProto::GRAPH:
    return "a graph";
  case AttributeProto::FLOATS:
    return "floats";
  case AttributeProto::INTS:
    return "integers";
  default:
    return "something else";
  }
}

/// Files of IR version 1 omit the type of an attribute.
static int typeOf(const AttributeProto &a) {
  if (a.has_type() && a.type() != AttributeProto::UNDEFINED)
    return a.type();
  return a.has_f()          ? AttributeProto::FLOAT
         : a.has_i()        ? AttributeProto::INT
         : a.has_s()        ? AttributeProto::STRING
         : a.has_t()        ? AttributeProto::TENSOR
         : a.has_g()        ? AttributeProto::GRAPH
         : a.floats_size()  ? AttributeProto::FLOATS
         : a.ints_size()    ? AttributeProto::INTS
         : a.strings_size() ? AttributeProto::STRINGS
                            : AttributeProto::UNDEFINED;
}

static const AttributeProto *find(const ::onnx::NodeProto &proto, const Scope &scope,
                                  StringRef name) {
  for (const AttributeProto &a : proto.attribute()) {
    if (a.name() != name)
      continue;
    if (a.ref_attr_name().empty())
      return &a;
    auto it = scope.attributes.find(a.ref_attr_name());
    return it == scope.attributes.end() ? nullptr : it->second;
  }
  return nullptr;
}

const AttributeProto *Node::attribute(StringRef name, int type) {
  seen.insert(name);
  const AttributeProto *a = find(proto, scope, name);
  if (!a || typeOf(*a) == type)
    return a;
  error() << "has attribute '" << name << "' of the wrong type: it must be " << typeName(type)
          << ", and is " << typeName(typeOf(*a));
  return nullptr;
}

bool Node::hasAttribute(StringRef name) const { return find(proto, scope, name); }

int64_t Node::getInt(StringRef name, int64_t otherwise) {
  const AttributeProto *a = attribute(name, AttributeProto::INT);
  return a ? a->i() : otherwise;
}

double Node::getFloat(StringRef name, double otherwise) {
  const AttributeProto *a = attribute(name, AttributeProto::FLOAT);
  return a ? a->f() : otherwise;
}

std::string Node::getString(StringRef name, StringRef otherwise) {
  const AttributeProto *a = attribute(name, AttributeProto::STRING);
  return a ? a->s() : otherwise.str();
}

std::optional<SmallVector<int64_t>> Node::getInts(StringRef name) {
  const AttributeProto *a = attribute(name, AttributeProto::INTS);
  if (!a)
    return std::nullopt;
  return SmallVector<int64_t>(a->ints().begin(), a->ints().end());
}

LogicalResult Node::expectNoMoreAttributes() {
  for (const AttributeProto &a : proto.attribute())
    if (!seen.contains(a.name()) && a.name() != "consumed_inputs")
      return error() << "has an attribute '" << a.name() << "', which the op does not have";
  return success();
}

FailureOr<int64_t> Node::normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return error() << "has axis " << axis << ", but its operand has " << rank << " dimensions";
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>> Node::normalizeAxes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    FailureOr<int64_t> normal = normalizeAxis(axis, rank);
    if (mlir::failed(normal))
      return failure();
    if (llvm::is_contained(result, *normal))
      return error() << "names axis " << axis << " twice";
    result.push_back(*normal);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

unsigned Node::numOutputs() const { return proto.output_size(); }

bool Node::isUsed(unsigned i) const {
  return i < numOutputs() && !proto.output(i).empty() && scope.used.contains(proto.output(i));
}

LogicalResult Node::expectUnused(unsigned i, StringRef what) {
  if (isUsed(i))
    return error() << "has a use of its output '" << proto.output(i) << "' (" << what
                   << "), which tpc does not compute";
  return success();
}

Tensor Node::wrap(Value value) {
  Tensor tensor;
  if (!value)
    return tensor;
  tensor.value = value;
  tensor.element = elementOf(value);
  tensor.shape = getSizes(value);
  return tensor;
}

/// Wraps the elements to the range of an integer type: 200 + 100 in eight bits is 44.
static std::shared_ptr<const Contents> wrapped(std::shared_ptr<const Contents> contents,
                                               Type element) {
  if (contents->isFloat || element.isInteger(1) || element.isInteger(64))
    return contents;
  auto result = std::make_shared<Contents>(*contents);
  for (SymExpr &e : result->ints)
    if (std::optional<SymExpr> wrapped = wrapInt(e, element))
      e = *wrapped;
  return result;
}

LogicalResult Node::set(unsigned i, Tensor tensor) {
  if (hasFailed || !tensor.element) {
    // Either an error was reported, or the node is about to be imported again.
    hasFailed = true;
    return failure();
  }
  if (std::string fault = findFault(tensor.shape); !fault.empty())
    return error() << "has a result that " << fault;
  if (tensor.interval &&
      (!isReasonable(tensor.interval->low) || !isReasonable(tensor.interval->high)))
    tensor.interval.reset();
  if (tensor.contents && !importer.countFolded(tensor.contents->size()))
    return error() << "is one of too many nodes that compute shapes";
  if (!isUsed(i))
    return success();
  if (tensor.contents && !llvm::all_of(tensor.shape, [](auto &e) { return e.isConstant(); })) {
    // A tensor [0, n] has no elements, but handlers cannot compute with its shape, so it becomes an
    // expanded constant.
    tensor = wrap(expand(constant(tensor.element, 0), tensor.shape));
    if (hasFailed)
      return failure();
  }
  if (tensor.contents)
    tensor.contents = wrapped(std::move(tensor.contents), tensor.element);
  // The defining op gets the value's name in its location, because annotations refer to values by
  // name.
  if (Operation *op = tensor.value ? tensor.value.getDefiningOp() : nullptr;
      op && op->getNumResults() == 1 && op->getLoc() == loc)
    op->setLoc(nameValue(loc, proto.output(i)));
  scope.values[proto.output(i)] = std::move(tensor);
  return success();
}

LogicalResult Node::resultContents(Type element, Sizes shape, Contents contents) {
  Tensor tensor;
  tensor.element = element;
  tensor.shape = std::move(shape);
  if (llvm::all_of(contents.ints, isReasonable)) {
    tensor.contents = std::make_shared<Contents>(std::move(contents));
    return result(std::move(tensor));
  }
  return error() << "computes a size whose expression is too complex";
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

bool Node::equate(const SymExpr &a, const SymExpr &b, const Twine &what) {
  if (a == b)
    return true;
  if (hasFailed)
    return false; // sizes of this node may have become equal
  if (importer.equate(a, b) || importer.chooseOperand(a, b)) {
    hasFailed = true;
    return false;
  }
  if (importer.assumeEmptyPast(a - b)) {
    importer.warnLater(loc, "node '" + Twine(getSourceName(loc)) + "' (" + proto.op_type() +
                                ") has sizes `" + a.str() + "` and `" + b.str() +
                                "` that are equal only without past tokens: the program takes "
                                "empty caches, and --generate derives its own");
    hasFailed = true;
    return false;
  }
  InFlightDiagnostic diag = error();
  diag << "has sizes `" << a.str() << "` and `" << b.str() << "` that should be equal";
  SymExpr difference = a - b;
  if (!difference.isOverflow() && difference.isMonomial() && !difference.isConstant())
    diag << ", which they are only if `"
         << (difference.getTerms()[0].coefficient < 0 ? -difference : difference).str() << "` is 0";
  diag << ": " << what;
  return false;
}

FailureOr<Sizes> Node::broadcast(ArrayRef<SymExpr> a, ArrayRef<SymExpr> c) {
  if (a.size() < c.size())
    std::swap(a, c);
  Sizes result(a.begin(), a.end());
  size_t shift = a.size() - c.size();
  for (size_t i = 0; i < c.size(); ++i) {
    SymExpr &size = result[shift + i];
    if (size == c[i] || c[i].isConstant(1))
      continue;
    if (size.isConstant(1))
      size = c[i];
    else if (!equate(size, c[i], "operands " + str(a) + " and " + str(c) + " do not broadcast"))
      return failure();
  }
  return result;
}

void Node::constrain(const SymExpr &expr, std::optional<int64_t> low, std::optional<int64_t> high,
                     const Twine &why) {
  importer.constrain(expr, low.value_or(INT64_MIN), high.value_or(INT64_MAX), why);
}

bool Node::assumeNonNegative(const SymExpr &e, const Twine &why) {
  std::optional<int64_t> lower = e.lowerBound(0);
  if (lower && *lower >= 0)
    return true;
  std::optional<int64_t> value = e.asConstant();
  if (value || e.isOverflow())
    return value && *value >= 0;
  // Keeps the constant term as the bound: 8 - sequence >= 0 becomes sequence <= 8.
  int64_t constant = 0;
  for (const auto &term : e.getTerms())
    if (term.atoms.empty())
      constant = term.coefficient;
  SymExpr rest = e - SymExpr(constant);
  if (llvm::all_of(rest.getTerms(), [](const auto &t) { return t.coefficient < 0; }))
    constrain(-rest, 0, constant, why);
  else
    constrain(rest, -constant, std::nullopt, why);
  return true;
}

/// Returns true or false if a <= b or b <= a for all sizes. A constraint excludes sizes of zero.
std::optional<bool> Node::isLess(const SymExpr &a, const SymExpr &b, const Twine &why) {
  auto holds = [](const SymExpr &e, int64_t atLeast) {
    std::optional<int64_t> lower = e.lowerBound(atLeast);
    return lower && *lower >= 0;
  };
  for (int64_t atLeast : {0, 1}) {
    bool first = holds(b - a, atLeast);
    if (!first && !holds(a - b, atLeast))
      continue;
    if (atLeast)
      assumeNonNegative(first ? b - a : a - b, why);
    return first;
  }
  return std::nullopt;
}

SymExpr Node::minimum(const SymExpr &a, const SymExpr &b, const Twine &why) {
  std::optional<bool> less = isLess(a, b, why);
  if (less)
    return *less ? a : b;
  SymExpr both = SymExpr::min(a, b);
  const SymExpr *choice = importer.findChoice(both);
  return choice && assumeNonNegative(a + b - *choice - *choice, why) ? *choice : both;
}

SymExpr Node::maximum(const SymExpr &a, const SymExpr &b, const Twine &why) {
  std::optional<bool> less = isLess(a, b, why);
  if (less)
    return *less ? b : a;
  SymExpr both = SymExpr::max(a, b);
  const SymExpr *choice = importer.findChoice(both);
  return choice && assumeNonNegative(*choice + *choice - a - b, why) ? *choice : both;
}
