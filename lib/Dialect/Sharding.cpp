//===- Sharding.cpp - User-requested sharding of weights and values -------===//

#include "tpc/Dialect/Sharding.h"

#include "tpc/Dialect/Dist.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

static LogicalResult verifyAxis(StringRef axis, MeshAttr grid,
                                function_ref<InFlightDiagnostic()> emitError) {
  if (axis == kPipelineAxis || axis == kMicroBatchAxis)
    return emitError() << "'" << axis << "' splits "
                       << (axis == kPipelineAxis ? "layers" : "the batch in time")
                       << ", not dimensions; use ppN or mbN";
  if (grid && !grid.hasAxis(axis)) {
    InFlightDiagnostic diag = emitError() << "the grid has no axis '" << axis << "'; it has ";
    llvm::interleaveComma(grid.getOrder(), diag, [&](StringAttr a) { diag << a.getValue(); });
    return diag;
  }
  return success();
}

LogicalResult mlir::tpc::verifySharding(Attribute sharding, ArrayRef<::tpc::SymExpr> sizes,
                                        MeshAttr grid,
                                        function_ref<InFlightDiagnostic()> emitError) {
  auto dims = dyn_cast<ArrayAttr>(sharding);
  if (!dims)
    return emitError() << "must be an array of #tpc.dim, not " << sharding;
  if (dims.size() != sizes.size())
    return emitError() << "has " << dims.size() << " entries, but the tensor has " << sizes.size()
                       << (sizes.size() == 1 ? " dimension" : " dimensions");
  llvm::StringSet<> seen;
  for (auto [i, entry] : llvm::enumerate(dims)) {
    if (isa<UnitAttr>(entry))
      continue;
    auto dim = dyn_cast<DimAttr>(entry);
    if (!dim)
      return emitError() << "entry " << i << " must be a #tpc.dim or unit, not " << entry;
    if (dim.getExpr() != sizes[i])
      return emitError() << "entry " << i << " has size " << dim.getExpr().str()
                         << ", but the dimension has " << sizes[i].str();
    if (!dim.getAxes().empty())
      return emitError() << "entry " << i << " splits a product; name the factor to split";
    for (StringAttr axis : dim.getAllAxes()) {
      if (failed(verifyAxis(axis.getValue(), grid, emitError)))
        return failure();
      if (!seen.insert(axis.getValue()).second)
        return emitError() << "uses axis '" << axis.getValue() << "' twice";
    }
  }
  return success();
}

std::string mlir::tpc::getValueName(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location inner : fused.getLocations())
      if (std::string name = getValueName(inner); !name.empty())
        return name;
    return "";
  }
  auto node = dyn_cast<NameLoc>(loc);
  auto type = node ? dyn_cast<NameLoc>(node.getChildLoc()) : NameLoc();
  auto value = type ? dyn_cast<NameLoc>(type.getChildLoc()) : NameLoc();
  return value ? value.getName().str() : "";
}

Location mlir::tpc::nameValue(Location loc, StringRef name) {
  auto node = dyn_cast<NameLoc>(loc);
  auto type = node ? dyn_cast<NameLoc>(node.getChildLoc()) : NameLoc();
  if (!type || name.empty() || isa<NameLoc>(type.getChildLoc()))
    return loc;
  auto value = NameLoc::get(StringAttr::get(loc.getContext(), name));
  return NameLoc::get(node.getName(), NameLoc::get(type.getName(), value));
}

void mlir::tpc::collectNodeNames(Location loc, SmallVectorImpl<std::string> &names) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location inner : fused.getLocations())
      collectNodeNames(inner, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collectNodeNames(call.getCaller(), names);
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    names.push_back(name.getName().str());
  }
}

std::string mlir::tpc::printSharding(ArrayAttr sharding) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "[";
  llvm::interleaveComma(sharding, os, [&](Attribute entry) {
    auto dim = dyn_cast<DimAttr>(entry);
    if (!dim) {
      os << "?";
      return;
    }
    if (dim.getFactors().size() == 1) {
      SmallVector<StringAttr> axes = dim.getAllAxes();
      os << (axes.empty() ? "-" : "");
      llvm::interleave(axes, os, [&](StringAttr axis) { os << axis.getValue(); }, "+");
      return;
    }
    llvm::interleave(
        dim.getFactors(), os,
        [&](FactorAttr factor) {
          os << factor.getExpr().str();
          if (factor.getAxes().empty())
            return;
          os << "{";
          llvm::interleaveComma(factor.getAxes(), os, [&](StringAttr a) { os << a.getValue(); });
          os << "}";
        },
        "*");
  });
  os << "]";
  return text;
}
