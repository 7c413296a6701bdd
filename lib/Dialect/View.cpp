//===- View.cpp - Views of weights ----------------------------------------===//

#include "tpc/Dialect/Tpc.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mlir::tpc;

Attribute StridedFactorAttr::parse(AsmParser &parser, Type) {
  int64_t size, stride;
  if (parser.parseLess() || parser.parseInteger(size) || parser.parseKeyword("x") ||
      parser.parseInteger(stride) || parser.parseGreater())
    return {};
  return get(parser.getContext(), size, stride);
}

void StridedFactorAttr::print(AsmPrinter &printer) const {
  printer << "<" << getSize() << " x " << getStride() << ">";
}

Attribute ViewAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  int64_t offset;
  SmallVector<ArrayAttr> dims;
  auto factors = [&]() -> ParseResult {
    SmallVector<Attribute> list;
    auto factor = [&]() -> ParseResult {
      int64_t size, stride;
      SMLoc loc = parser.getCurrentLocation();
      if (parser.parseInteger(size) || parser.parseKeyword("x") || parser.parseInteger(stride))
        return failure();
      if (size < 0)
        return parser.emitError(loc, "negative size");
      list.push_back(StridedFactorAttr::get(context, size, stride));
      return success();
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, factor))
      return failure();
    dims.push_back(ArrayAttr::get(context, list));
    return success();
  };
  if (parser.parseLess() || parser.parseInteger(offset) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, factors) ||
      parser.parseGreater())
    return {};
  return get(context, offset, dims);
}

void ViewAttr::print(AsmPrinter &printer) const {
  printer << "<" << getOffset() << " [";
  llvm::interleaveComma(getDims(), printer, [&](ArrayAttr dim) {
    printer << "[";
    llvm::interleaveComma(dim.getAsRange<StridedFactorAttr>(), printer, [&](StridedFactorAttr f) {
      printer << f.getSize() << " x " << f.getStride();
    });
    printer << "]";
  });
  printer << "]>";
}

using Factors = SmallVector<std::pair<int64_t, int64_t>>; // size, stride

static Factors factorsOf(ArrayAttr dim) {
  Factors list;
  for (auto f : dim.getAsRange<StridedFactorAttr>())
    list.push_back({f.getSize(), f.getStride()});
  return list;
}

/// Drops factors of size 1 and merges contiguous neighbors.
static ArrayAttr makeDim(MLIRContext *context, const Factors &factors) {
  Factors merged;
  for (auto [size, stride] : factors) {
    if (size == 1)
      continue;
    if (!merged.empty() && merged.back().second == size * stride) {
      merged.back() = {merged.back().first * size, stride};
      continue;
    }
    merged.push_back({size, stride});
  }
  if (merged.empty())
    merged.push_back({1, 1});
  SmallVector<Attribute> attrs;
  for (auto [size, stride] : merged)
    attrs.push_back(StridedFactorAttr::get(context, size, stride));
  return ArrayAttr::get(context, attrs);
}

static int64_t sizeOf(const Factors &factors) {
  int64_t n = 1;
  for (auto [size, stride] : factors)
    n *= size;
  return n;
}

ViewAttr ViewAttr::getDense(MLIRContext *context, ArrayRef<int64_t> shape) {
  SmallVector<ArrayAttr> dims(shape.size());
  int64_t stride = 1;
  for (int i = (int)shape.size() - 1; i >= 0; --i) {
    dims[i] = makeDim(context, {{shape[i], stride}});
    stride *= shape[i];
  }
  return get(context, 0, dims);
}

SmallVector<StridedFactorAttr> ViewAttr::getFactors(unsigned dim) const {
  return llvm::to_vector(getDims()[dim].getAsRange<StridedFactorAttr>());
}

SmallVector<int64_t> ViewAttr::getShape() const {
  SmallVector<int64_t> shape;
  for (ArrayAttr dim : getDims())
    shape.push_back(sizeOf(factorsOf(dim)));
  return shape;
}

ViewAttr ViewAttr::transpose(ArrayRef<int64_t> permutation) const {
  SmallVector<ArrayAttr> dims;
  for (int64_t p : permutation)
    dims.push_back(getDims()[p]);
  return get(getContext(), getOffset(), dims);
}

// Slices a dimension that has several factors. For step 1 there are two cases. If start and size
// are multiples of the product of the minor factors, the major factor is sliced. If the slice is
// within one index of the major factor, this index is fixed and the other factors are sliced. The
// number of factors decreases, so the recursion terminates.
ViewAttr ViewAttr::slice(unsigned dim, int64_t start, int64_t size, int64_t step) const {
  Factors factors = factorsOf(getDims()[dim]);
  int64_t offset = getOffset();
  if (size <= 0 || step == 0 || start < 0 || start >= sizeOf(factors))
    return {};
  int64_t last;
  if (__builtin_mul_overflow(size - 1, step, &last) || __builtin_add_overflow(start, last, &last) ||
      last < 0 || last >= sizeOf(factors))
    return {};
  Factors kept;
  while (factors.size() > 1) {
    int64_t minor = sizeOf(Factors(factors.begin() + 1, factors.end()));
    auto [major, stride] = factors[0];
    if (step == 1 && start % minor == 0 && size % minor == 0) {
      offset += start / minor * stride;
      factors[0] = {size / minor, stride};
      kept = factors;
      break;
    }
    if (start / minor != last / minor)
      return {};
    offset += start / minor * stride;
    start %= minor;
    last %= minor;
    factors.erase(factors.begin());
  }
  if (kept.empty()) {
    offset += start * factors[0].second;
    kept = {{size, factors[0].second * step}};
  }
  SmallVector<ArrayAttr> dims(getDims());
  dims[dim] = makeDim(getContext(), kept);
  return get(getContext(), offset, dims);
}

ViewAttr ViewAttr::reshape(ArrayRef<int64_t> shape) const {
  Factors all;
  for (ArrayAttr dim : getDims())
    for (auto [size, stride] : factorsOf(dim))
      if (size != 1)
        all.push_back({size, stride});
  // Assigns factors to the new dimensions from the minor end, and divides a factor at a boundary
  // between dimensions.
  SmallVector<ArrayAttr> dims(shape.size());
  for (int i = (int)shape.size() - 1; i >= 0; --i) {
    int64_t need = shape[i];
    Factors taken;
    while (need != 1) {
      if (need <= 0 || all.empty())
        return {};
      auto [size, stride] = all.pop_back_val();
      if (need % size == 0) {
        taken.insert(taken.begin(), {size, stride});
        need /= size;
        continue;
      }
      if (size % need)
        return {};
      taken.insert(taken.begin(), {need, stride});
      all.push_back({size / need, stride * need});
      need = 1;
    }
    dims[i] = makeDim(getContext(), taken);
  }
  if (!all.empty())
    return {};
  return get(getContext(), getOffset(), dims);
}
