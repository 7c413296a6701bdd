//===- Dist.cpp - Distributed tensor types and their sizes ----------------===//

#include "tpc/Dialect/Dist.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

DistAttr mlir::tpc::getDist(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (auto dist = dyn_cast_if_present<DistAttr>(tensor.getEncoding()))
    return dist;
  SmallVector<DimAttr> dims;
  for (int64_t size : tensor.getShape())
    dims.push_back(
        DimAttr::get(type.getContext(), SymExpr(ShapedType::isDynamic(size) ? 0 : size)));
  return DistAttr::get(type.getContext(), dims);
}

SmallVector<SymExpr> mlir::tpc::getSizes(Type type) { return getDist(type).getGlobalSizes(); }

RankedTensorType mlir::tpc::makeTensorType(Type element, DistAttr dist, MeshAttr grid) {
  SmallVector<int64_t> shape;
  bool plain = !dist.isSharded() && !dist.getPartial();
  for (DimAttr dim : dist.getDims()) {
    auto size = dist.getLocal() ? dim.getStaticLocalSize(grid) : dim.getExpr().asConstant();
    shape.push_back(size ? *size : ShapedType::kDynamic);
    plain &= dim.getExpr().isConstant();
  }
  if (plain)
    return RankedTensorType::get(shape, element);
  return RankedTensorType::get(shape, element, dist);
}

RankedTensorType mlir::tpc::makeTensorType(Type element, ArrayRef<SymExpr> sizes) {
  MLIRContext *context = element.getContext();
  SmallVector<DimAttr> dims;
  for (const SymExpr &size : sizes)
    dims.push_back(DimAttr::get(context, size));
  return makeTensorType(element, DistAttr::get(context, dims));
}

// Assigns factors to the dimensions from the major end. An unsplit factor that is larger than the
// rest of a dimension is divided; a split factor must fit.
std::optional<SmallVector<DimAttr>> mlir::tpc::splitDim(DimAttr dim, ArrayRef<SymExpr> sizes) {
  if (sizes.size() == 1) {
    if (sizes[0] != dim.getExpr())
      return std::nullopt;
    return SmallVector<DimAttr>{dim};
  }
  if (!dim.getAxes().empty())
    return std::nullopt;
  MLIRContext *context = dim.getContext();
  SmallVector<FactorAttr> rest = llvm::to_vector(llvm::reverse(dim.getFactors()));
  SmallVector<DimAttr> parts;
  for (const SymExpr &size : sizes) {
    SmallVector<FactorAttr> taken;
    SymExpr need = size;
    // A dimension of size 1 gets a split factor of size 1 (one head over two ranks).
    if (need.isConstant(1) && !rest.empty() && rest.back().getExpr().isConstant(1))
      taken.push_back(rest.pop_back_val());
    while (!need.isConstant(1)) {
      if (rest.empty())
        return std::nullopt;
      FactorAttr factor = rest.pop_back_val();
      SymExpr have = factor.getExpr();
      if (auto quotient = need.divideExact(have)) {
        taken.push_back(factor);
        need = *quotient;
        continue;
      }
      auto left = have.divideExact(need);
      if (!left || !factor.getAxes().empty())
        return std::nullopt;
      taken.push_back(FactorAttr::get(context, need));
      rest.push_back(FactorAttr::get(context, *left));
      need = SymExpr(1);
    }
    parts.push_back(DimAttr::get(context, taken));
  }
  // Split factors of size 1 (one head over eight ranks) may remain.
  for (FactorAttr factor : llvm::reverse(rest)) {
    if (!factor.getExpr().isConstant(1))
      return std::nullopt;
    if (!parts.empty()) {
      SmallVector<FactorAttr> factors(parts.back().getFactors());
      factors.push_back(factor);
      parts.back() = DimAttr::get(context, factors);
    }
  }
  return parts;
}

DimAttr mlir::tpc::joinDims(MLIRContext *context, ArrayRef<DimAttr> dims) {
  if (dims.size() == 1)
    return dims[0];
  SmallVector<FactorAttr> factors;
  for (DimAttr dim : dims)
    llvm::append_range(factors, dim.getFactors());
  return DimAttr::get(context, factors);
}

SymExpr mlir::tpc::product(ArrayRef<SymExpr> sizes) {
  SymExpr result(1);
  for (const SymExpr &size : sizes)
    result = result * size;
  return result;
}

std::string mlir::tpc::getSourceName(Location loc) {
  return llvm::TypeSwitch<LocationAttr, std::string>(loc)
      .Case<NameLoc>([](NameLoc l) { return l.getName().str(); })
      .Case<CallSiteLoc>([](CallSiteLoc l) { return getSourceName(l.getCallee()); })
      .Case<FusedLoc>([](FusedLoc l) {
        for (Location inner : l.getLocations())
          if (std::string name = getSourceName(inner); !name.empty())
            return name;
        return std::string();
      })
      .Case<FileLineColLoc>([](FileLineColLoc l) {
        return l.getFilename().str() + ":" + std::to_string(l.getLine());
      })
      .Default([](LocationAttr) { return std::string(); });
}
