//===- GridAttr.cpp - Text and checks of #tpc.grid ------------------------===//
//
//   #tpc.grid<tp = 2, dp = 1, pp = 2, mb = 4, gpus_per_node = 8>
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/MeshViews.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

Attribute GridAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> order;
  SmallVector<int64_t> sizes;
  int64_t microBatches = 1, gpusPerNode = 0, chunksPerRank = 1;
  auto entry = [&]() -> ParseResult {
    StringRef name;
    int64_t size;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual() || parser.parseInteger(size))
      return failure();
    if (name == "mb") {
      microBatches = size;
      return success();
    }
    if (name == "vpp") {
      chunksPerRank = size;
      return success();
    }
    if (name == "gpus_per_node") {
      gpusPerNode = size;
      return size > 0 ? success() : parser.emitError(loc, "gpus_per_node must be at least 1");
    }
    order.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, entry))
    return {};
  return GridAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                              ArrayRef<StringAttr>(order), ArrayRef<int64_t>(sizes), microBatches,
                              gpusPerNode, chunksPerRank);
}

void GridAttr::print(AsmPrinter &printer) const {
  printer << "<";
  for (auto [name, size] : llvm::zip(getOrder(), getSizes()))
    printer << name.getValue() << " = " << size << ", ";
  printer << "mb = " << getMicroBatches();
  if (getChunksPerRank() != 1)
    printer << ", vpp = " << getChunksPerRank();
  if (getGpusPerNode())
    printer << ", gpus_per_node = " << getGpusPerNode();
  printer << ">";
}

LogicalResult GridAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> order, ArrayRef<int64_t> sizes,
                               int64_t microBatches, int64_t gpusPerNode, int64_t chunksPerRank) {
  if (order.size() != sizes.size())
    return emitError() << "a grid needs one size for each axis";
  llvm::StringSet<> seen;
  int64_t world = 1;
  for (auto [name, size] : llvm::zip(order, sizes)) {
    if (!seen.insert(name.getValue()).second)
      return emitError() << "grid axis '" << name.getValue() << "' is given twice";
    if (size < 1)
      return emitError() << "size of grid axis '" << name.getValue() << "' must be at least 1, not "
                         << size;
    if (__builtin_mul_overflow(world, size, &world) || world > (1 << 24))
      return emitError() << "the grid has more than 16777216 ranks";
  }
  if (microBatches < 1)
    return emitError() << "number of micro-batches must be at least 1, not " << microBatches;
  if (chunksPerRank < 1)
    return emitError() << "number of chunks on a rank of pp (vpp) must be at least 1, not "
                       << chunksPerRank;
  if (gpusPerNode < 0)
    return emitError() << "number of GPUs of a node must not be negative, but is " << gpusPerNode;
  return success();
}

int64_t GridAttr::getAxisSize(StringRef axis) const {
  if (axis == "mb")
    return getMicroBatches();
  for (auto [name, size] : llvm::zip(getOrder(), getSizes()))
    if (name.getValue() == axis)
      return size;
  return 1;
}

bool GridAttr::hasAxis(StringRef axis) const {
  return axis == "mb" ||
         llvm::any_of(getOrder(), [&](StringAttr name) { return name.getValue() == axis; });
}

int64_t GridAttr::getWorldSize() const {
  int64_t world = 1;
  for (int64_t size : getSizes())
    world *= size;
  return world;
}

SmallVector<StringAttr> mlir::tpc::getViewAxes(GridAttr grid, StringRef view) {
  return llvm::filter_to_vector(
      grid.getOrder(), [&](StringAttr axis) { return ::tpc::isInView(axis.getValue(), view); });
}

int64_t mlir::tpc::getViewSize(GridAttr grid, StringRef view) {
  int64_t size = 1;
  for (StringAttr axis : grid ? getViewAxes(grid, view) : SmallVector<StringAttr>())
    size *= grid.getAxisSize(axis);
  return size;
}

GridAttr GridAttr::lookup(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto grid = op->getAttrOfType<GridAttr>(kGridAttr))
      return grid;
  return {};
}
