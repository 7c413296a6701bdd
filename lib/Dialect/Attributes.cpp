//===- Attributes.cpp - Distribution attributes ---------------------------===//

#include "tpc/Dialect/Dist.h"

#include "mlir/IR/AttributeSupport.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Storage of sizes
//===----------------------------------------------------------------------===//

namespace mlir::tpc::detail {

/// Sizes are uniqued by canonical text.
struct SymExprAttrStorage : public AttributeStorage {
  struct KeyTy {
    KeyTy(const SymExpr &value) : value(value), text(value.str()) {}
    SymExpr value;
    std::string text;
  };

  explicit SymExprAttrStorage(const KeyTy &key) : key(key) {}
  static SymExprAttrStorage *construct(AttributeStorageAllocator &allocator, const KeyTy &key) {
    return new (allocator.allocate<SymExprAttrStorage>()) SymExprAttrStorage(key);
  }
  // An overflow is printed like a symbol, but is not equal to any size.
  bool operator==(const KeyTy &other) const {
    return key.text == other.text && key.value.isOverflow() == other.value.isOverflow();
  }
  static llvm::hash_code hashKey(const KeyTy &key) { return llvm::hash_value(key.text); }

  KeyTy key;
};

struct DimAttrStorage : public AttributeStorage {
  using KeyTy = std::tuple<ArrayRef<FactorAttr>, ArrayRef<StringAttr>>;

  DimAttrStorage(ArrayRef<FactorAttr> factors, ArrayRef<StringAttr> axes)
      : factors(factors), axes(axes), expr(1) {
    for (FactorAttr factor : factors)
      expr = expr * factor.getExpr();
  }
  static DimAttrStorage *construct(AttributeStorageAllocator &allocator, const KeyTy &key) {
    return new (allocator.allocate<DimAttrStorage>())
        DimAttrStorage(allocator.copyInto(std::get<0>(key)), allocator.copyInto(std::get<1>(key)));
  }
  KeyTy getAsKey() const { return {factors, axes}; }
  bool operator==(const KeyTy &key) const { return key == getAsKey(); }
  static llvm::hash_code hashKey(const KeyTy &key) {
    return llvm::hash_combine(std::get<0>(key), std::get<1>(key));
  }

  ArrayRef<FactorAttr> factors;
  ArrayRef<StringAttr> axes;
  SymExpr expr;
};

} // namespace mlir::tpc::detail

#define GET_ATTRDEF_CLASSES
#include "tpc/Dialect/TpcAttrs.cpp.inc"

void TpcDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tpc/Dialect/TpcAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// InputDefaultAttr; see InputDefault.cpp
//===----------------------------------------------------------------------===//

InputDefaultAttr InputDefaultAttr::get(MLIRContext *context, InputDefaultKind kind) {
  return Base::get(context, kind, SymExprAttr(), StringAttr());
}

InputDefaultAttr InputDefaultAttr::get(MLIRContext *context, const SymExpr &past) {
  // "No default" has only one representation: the null attribute.
  SymExprAttr before = past.isConstant(0) ? SymExprAttr() : SymExprAttr::get(context, past);
  return Base::get(context, InputDefaultKind::Positions, before, StringAttr());
}

InputDefaultAttr InputDefaultAttr::get(MLIRContext *context, StringAttr mask) {
  return Base::get(context, InputDefaultKind::Positions, SymExprAttr(), mask);
}

//===----------------------------------------------------------------------===//
// FactorAttr and DimAttr
//===----------------------------------------------------------------------===//

FactorAttr FactorAttr::get(MLIRContext *context, const SymExpr &size, ArrayRef<StringAttr> axes) {
  return get(context, SymExprAttr::get(context, size), axes);
}

const SymExpr &SymExprAttr::getExpr() const { return getImpl()->key.value; }
const SymExpr &FactorAttr::getExpr() const { return getSize().getExpr(); }

static void printAxes(AsmPrinter &printer, ArrayRef<StringAttr> axes) {
  if (axes.empty())
    return;
  printer << "{";
  llvm::interleaveComma(axes, printer, [&](StringAttr a) { printer << a.getValue(); });
  printer << "}";
}

static ParseResult parseOptionalAxes(AsmParser &parser, SmallVectorImpl<StringAttr> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalBraces, [&]() -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  });
}

static void printFactor(AsmPrinter &printer, FactorAttr factor) {
  std::string text = factor.getExpr().str();
  bool plain = llvm::all_of(text, [](char c) { return isalnum((unsigned char)c) || c == '_'; });
  bool monomial =
      llvm::all_of(text, [](char c) { return isalnum((unsigned char)c) || c == '_' || c == '*'; });
  if (plain || (monomial && factor.getAxes().empty()))
    printer << text;
  else if (monomial)
    printer << "(" << text << ")";
  else
    printer << '"' << text << '"';
  printAxes(printer, factor.getAxes());
}

/// Parses a dimension. The depth of parentheses is bounded because files are untrusted.
static ParseResult parseDim(AsmParser &parser, DimAttr &dim, int depth = 0) {
  constexpr int maxDepth = 64; // as in SymExprText.cpp
  MLIRContext *context = parser.getContext();
  SmallVector<FactorAttr> factors;
  DimAttr wrapped; // a parenthesized product with axes
  SMLoc loc = parser.getCurrentLocation();
  do {
    SmallVector<StringAttr> axes;
    if (succeeded(parser.parseOptionalLParen())) {
      DimAttr inner;
      if (depth == maxDepth)
        return parser.emitError(loc, "not a size: nested too deeply");
      if (parseDim(parser, inner, depth + 1) || parser.parseRParen() ||
          parseOptionalAxes(parser, axes))
        return failure();
      if (axes.empty()) {
        if (!inner.getAxes().empty())
          wrapped = inner;
        llvm::append_range(factors, inner.getFactors());
      } else if (!inner.isSharded()) {
        factors.push_back(FactorAttr::get(context, inner.getExpr(), axes));
      } else {
        wrapped = DimAttr::get(context, inner.getFactors(), axes);
        llvm::append_range(factors, inner.getFactors());
        if (!inner.getAxes().empty())
          return parser.emitError(loc, "axes on a product must not be nested");
      }
      continue;
    }
    SymExprAttr size;
    if (parseSymExpr(parser, size) || parseOptionalAxes(parser, axes))
      return failure();
    factors.push_back(FactorAttr::get(context, size, axes));
  } while (succeeded(parser.parseOptionalStar()));
  if (wrapped) {
    if (factors.size() != wrapped.getFactors().size())
      return parser.emitError(loc, "axes on a product must be on the whole dimension");
    dim = wrapped;
    return success();
  }
  dim = DimAttr::get(context, factors);
  return success();
}

static void printDim(AsmPrinter &printer, DimAttr dim) {
  if (!dim.getAxes().empty())
    printer << "(";
  llvm::interleave(
      dim.getFactors(), [&](FactorAttr f) { printFactor(printer, f); }, [&] { printer << "*"; });
  if (!dim.getAxes().empty()) {
    printer << ")";
    printAxes(printer, dim.getAxes());
  }
}

Attribute FactorAttr::parse(AsmParser &parser, Type) {
  DimAttr dim;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseDim(parser, dim) || parser.parseGreater())
    return {};
  if (dim.getFactors().size() != 1 || !dim.getAxes().empty())
    return parser.emitError(loc, "expected one factor"), Attribute();
  return dim.getFactors()[0];
}

void FactorAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printFactor(printer, *this);
  printer << ">";
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  DimAttr dim;
  if (parser.parseLess() || parseDim(parser, dim) || parser.parseGreater())
    return {};
  return dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDim(printer, *this);
  printer << ">";
}

DimAttr DimAttr::get(MLIRContext *context, ArrayRef<FactorAttr> factors,
                     ArrayRef<StringAttr> axes) {
  SmallVector<FactorAttr> merged;
  for (FactorAttr f : factors) {
    // Drop unsplit factors of size 1.
    if (f.getAxes().empty() && f.getExpr().isConstant(1))
      continue;
    if (!merged.empty() && f.getAxes().empty() && merged.back().getAxes().empty())
      merged.back() = FactorAttr::get(context, merged.back().getExpr() * f.getExpr());
    else
      merged.push_back(f);
  }
  if (merged.empty())
    merged.push_back(FactorAttr::get(context, SymExpr(1)));
  SmallVector<StringAttr> outer(axes);
  if (merged.size() == 1 && !outer.empty()) {
    SmallVector<StringAttr> all(merged[0].getAxes());
    all.append(outer);
    merged[0] = FactorAttr::get(context, merged[0].getSize(), all);
    outer.clear();
  }
  return Base::get(context, ArrayRef<FactorAttr>(merged), ArrayRef<StringAttr>(outer));
}

DimAttr DimAttr::get(MLIRContext *context, const SymExpr &size) {
  return get(context, {FactorAttr::get(context, size)});
}

ArrayRef<FactorAttr> DimAttr::getFactors() const { return getImpl()->factors; }
ArrayRef<StringAttr> DimAttr::getAxes() const { return getImpl()->axes; }
const SymExpr &DimAttr::getExpr() const { return getImpl()->expr; }

bool DimAttr::isSharded() const {
  return !getAxes().empty() ||
         llvm::any_of(getFactors(), [](FactorAttr f) { return !f.getAxes().empty(); });
}

SmallVector<StringAttr> DimAttr::getAllAxes() const {
  SmallVector<StringAttr> all;
  for (FactorAttr f : getFactors())
    llvm::append_range(all, f.getAxes());
  llvm::append_range(all, getAxes());
  return all;
}

bool DimAttr::usesAxis(StringRef axis) const {
  return llvm::any_of(getAllAxes(), [&](StringAttr a) { return a.getValue() == axis; });
}

DimAttr DimAttr::getGlobal() const { return get(getContext(), getExpr()); }

static int64_t coordinateOf(const std::map<std::string, int64_t> &coordinates, StringRef axis) {
  auto it = coordinates.find(axis.str());
  return it == coordinates.end() ? 0 : it->second;
}

std::optional<int64_t> DimAttr::getLocalSize(MeshAttr grid,
                                             const std::map<std::string, int64_t> &coordinates,
                                             const std::map<std::string, int64_t> &symbols) const {
  auto part = [&](int64_t size, ArrayRef<StringAttr> axes) {
    for (StringAttr axis : axes)
      size = ::tpc::shardSize(size, grid.getAxisSize(axis), coordinateOf(coordinates, axis));
    return size;
  };
  int64_t local = 1;
  for (FactorAttr f : getFactors()) {
    auto size = f.getExpr().evaluate(symbols);
    if (!size || *size < 0 || __builtin_mul_overflow(local, part(*size, f.getAxes()), &local))
      return std::nullopt;
  }
  return part(local, getAxes());
}

std::optional<int64_t> DimAttr::getStaticLocalSize(MeshAttr grid) const {
  auto part = [&](int64_t size, ArrayRef<StringAttr> axes) -> std::optional<int64_t> {
    for (StringAttr axis : axes) {
      int64_t n = grid ? grid.getAxisSize(axis) : 1;
      if (size % n)
        return std::nullopt;
      size /= n;
    }
    return size;
  };
  int64_t local = 1;
  for (FactorAttr f : getFactors()) {
    auto size = f.getExpr().asConstant();
    if (!size)
      return std::nullopt;
    auto own = part(*size, f.getAxes());
    if (!own || __builtin_mul_overflow(local, *own, &local))
      return std::nullopt;
  }
  return part(local, getAxes());
}

//===----------------------------------------------------------------------===//
// PartialAttr and DistAttr
//===----------------------------------------------------------------------===//

static ParseResult parsePartial(AsmParser &parser, StringRef keyword, PartialAttr &partial) {
  auto kind = symbolizeReductionKind(keyword);
  SMLoc loc = parser.getCurrentLocation();
  if (!kind)
    return parser.emitError(loc, "expected 'sum', 'max', 'min' or 'local'");
  SmallVector<StringAttr> axes;
  if (parseOptionalAxes(parser, axes))
    return failure();
  if (axes.empty())
    return parser.emitError(loc, "expected the axes of the unreduced value");
  partial = PartialAttr::get(parser.getContext(), *kind, axes);
  return success();
}

static void printPartial(AsmPrinter &printer, PartialAttr partial) {
  printer << stringifyReductionKind(partial.getKind());
  printAxes(printer, partial.getAxes());
}

Attribute PartialAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  PartialAttr partial;
  if (parser.parseLess() || parser.parseKeyword(&keyword) ||
      parsePartial(parser, keyword, partial) || parser.parseGreater())
    return {};
  return partial;
}

void PartialAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printPartial(printer, *this);
  printer << ">";
}

Attribute DistAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  PartialAttr partial;
  bool local = false;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
        DimAttr dim;
        if (parseDim(parser, dim))
          return failure();
        dims.push_back(dim);
        return success();
      }))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    if (parser.parseKeyword(&keyword))
      return {};
    if (keyword == "local")
      local = true;
    else if (parsePartial(parser, keyword, partial))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return DistAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                              ArrayRef<DimAttr>(dims), partial, local);
}

void DistAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, [&](DimAttr dim) { printDim(printer, dim); });
  printer << "]";
  if (getPartial()) {
    printer << ", ";
    printPartial(printer, getPartial());
  }
  if (getLocal())
    printer << ", local";
  printer << ">";
}

LogicalResult DistAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<DimAttr> dims,
                               PartialAttr partial, bool local) {
  llvm::StringSet<> seen;
  auto once = [&](ArrayRef<StringAttr> axes) -> LogicalResult {
    for (StringAttr axis : axes)
      if (!seen.insert(axis.getValue()).second)
        return emitError() << "axis '" << axis.getValue() << "' occurs twice in a distribution";
    return success();
  };
  for (DimAttr dim : dims) {
    for (FactorAttr f : dim.getFactors()) {
      if (f.getExpr().isOverflow())
        return emitError() << "a size does not fit in 64 bits";
      auto constant = f.getExpr().asConstant();
      if (constant && *constant < 0)
        return emitError() << "a dimension cannot have size " << *constant;
    }
    if (failed(once(dim.getAllAxes())))
      return failure();
  }
  return partial ? once(partial.getAxes()) : success();
}

// The grid is unknown here, so only properties of local sizes that are independent of the grid are
// checked.
LogicalResult DistAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getDims().size())
    return emitError() << "a tensor of rank " << shape.size() << " cannot have " << *this;
  bool needed = getPartial() != nullptr;
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    auto size = dim.getExpr().asConstant();
    bool isStatic = !ShapedType::isDynamic(shape[i]);
    bool split = getLocal() && dim.isSharded();
    needed |= dim.isSharded() || !size;
    if ((isStatic && !size) || (!isStatic && size && !split) ||
        (isStatic && (split ? shape[i] > *size : shape[i] != *size)))
      return emitError() << "dimension " << i << " of the tensor does not have "
                         << "the size that " << *this << " gives it";
  }
  if (!needed)
    return emitError() << *this << " is redundant: a static, replicated tensor "
                       << "must not have a distribution";
  return success();
}

bool DistAttr::isSharded() const {
  return llvm::any_of(getDims(), [](DimAttr d) { return d.isSharded(); });
}

bool DistAttr::usesAxis(StringRef axis) const {
  return isUnreducedOver(axis) ||
         llvm::any_of(getDims(), [&](DimAttr d) { return d.usesAxis(axis); });
}

bool DistAttr::isUnreducedOver(StringRef axis) const {
  return llvm::any_of(getPartialAxes(), [&](StringAttr a) { return a.getValue() == axis; });
}

ArrayRef<StringAttr> DistAttr::getPartialAxes() const {
  return getPartial() ? getPartial().getAxes() : ArrayRef<StringAttr>();
}

DistAttr DistAttr::withDims(ArrayRef<DimAttr> dims) const {
  return get(getContext(), dims, getPartial(), getLocal());
}
DistAttr DistAttr::withPartial(PartialAttr partial) const {
  if (partial && partial.getAxes().empty())
    partial = {};
  return get(getContext(), getDims(), partial, getLocal());
}
DistAttr DistAttr::withLocal(bool local) const {
  return get(getContext(), getDims(), getPartial(), local);
}
DistAttr DistAttr::getGlobal() const {
  SmallVector<DimAttr> dims;
  for (DimAttr d : getDims())
    dims.push_back(d.getGlobal());
  return get(getContext(), dims, PartialAttr(), false);
}
SmallVector<SymExpr> DistAttr::getGlobalSizes() const {
  SmallVector<SymExpr> sizes;
  for (DimAttr d : getDims())
    sizes.push_back(d.getExpr());
  return sizes;
}
