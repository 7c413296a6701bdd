//===- VerifyCommsEvents.cpp - Checks of single collectives ---------------===//

#include "VerifyComms.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;
using ::tpc::SymExpr;

std::string comms::rankText(MeshAttr grid, const Coordinates &at) {
  std::string text;
  for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
    if (size == 1)
      continue;
    int64_t coordinate = 0;
    for (auto &[name, value] : at)
      if (name == axis.getValue())
        coordinate = value;
    text += (text.empty() ? "" : ", ") + axis.getValue().str() + " " + std::to_string(coordinate);
  }
  return "rank (" + text + ")";
}

std::string comms::axesText(const Schedule &schedule, AxisMask axes) {
  SmallVector<StringRef> names = schedule.getNames(axes);
  return llvm::join(names, " and ");
}

std::string comms::opText(Operation *op) {
  std::string name = getSourceName(op->getLoc());
  return op->getName().getStringRef().str() + (name.empty() ? "" : " '" + name + "'");
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Splits `size` over axes in order. If an axis splits it unevenly, adds this axis and the later
/// ones to `uneven`, and returns nothing.
static std::optional<SymExpr> splitEvenly(const Schedule &schedule, SymExpr size,
                                          ArrayRef<StringAttr> axes, AxisMask &uneven) {
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t parts = schedule.getGrid().getAxisSize(axis.getValue());
    std::optional<SymExpr> part = size.divideExact(SymExpr(parts));
    if (!part) {
      uneven |= schedule.getMask(axes.drop_front(i));
      return std::nullopt;
    }
    size = *part;
  }
  return size;
}

AxisMask comms::getSizeAxes(const Schedule &schedule, DimAttr dim) {
  AxisMask uneven = 0;
  std::optional<SymExpr> size(SymExpr(1));
  for (FactorAttr factor : dim.getFactors()) {
    auto part = splitEvenly(schedule, factor.getExpr(), factor.getAxes(), uneven);
    size = size && part ? std::optional(*size * *part) : std::nullopt;
  }
  if (!size)
    uneven |= schedule.getMask(dim.getAxes());
  else
    splitEvenly(schedule, *size, dim.getAxes(), uneven);
  return uneven;
}

static std::string dimText(DimAttr dim) {
  std::string text;
  llvm::raw_string_ostream(text) << dim;
  StringRef inner(text);
  inner.consume_front("#tpc.dim");
  return inner.str();
}

std::string comms::sizeText(MeshAttr grid, DimAttr dim, const Coordinates &at) {
  std::map<std::string, int64_t> coordinates;
  for (StringAttr axis : dim.getAllAxes())
    coordinates[axis.getValue().str()] = 0;
  for (auto &[name, value] : at)
    coordinates[name.str()] = value;
  if (auto size = dim.getLocalSize(grid, coordinates, {}))
    return std::to_string(*size);
  return dimText(dim);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

static bool usesAll(DimAttr dim, ArrayRef<StringAttr> group) {
  SmallVector<StringAttr> axes = dim.getAllAxes();
  return llvm::all_of(group, [&](StringAttr axis) { return llvm::is_contained(axes, axis); });
}

/// Checks that `dims` have equal sizes on all members of the group.
static LogicalResult checkSameSize(const Schedule &schedule, Operation *op, const char *what,
                                   ArrayRef<DimAttr> dims, AxisMask group) {
  for (auto [d, dim] : llvm::enumerate(dims)) {
    AxisMask differs = getSizeAxes(schedule, dim) & group;
    if (!differs)
      continue;
    MeshAttr grid = schedule.getGrid();
    StringRef axis = schedule.getNames(differs)[0];
    Coordinates a, b{{axis, grid.getAxisSize(axis) - 1}};
    InFlightDiagnostic diag = reject(op) << "members of a group over " << axesText(schedule, group)
                                         << " do not agree on the size of dimension " << d
                                         << " of the " << what << ": ";
    std::string sizeA = sizeText(grid, dim, a), sizeB = sizeText(grid, dim, b);
    if (sizeA == sizeB)
      return diag << "it is " << sizeA << ", which need not be the same on " << rankText(grid, a)
                  << " and " << rankText(grid, b);
    return diag << rankText(grid, a) << " has " << sizeA << ", " << rankText(grid, b) << " has "
                << sizeB;
  }
  return success();
}

LogicalResult comms::checkCollective(const Schedule &schedule, Operation *op) {
  MeshAttr grid = schedule.getGrid();
  auto group = llvm::to_vector(getGroupAxes(op).getAsRange<StringAttr>());
  if (group.empty())
    return reject(op) << "names no axis, so no rank takes part";
  for (auto [i, axis] : llvm::enumerate(group)) {
    if (!llvm::is_contained(grid.getOrder(), axis))
      return reject(op) << "'" << axis.getValue() << "' is not an axis of ranks"
                        << (axis.getValue() == kMicroBatchAxis
                                ? ": micro-batches run one after another and cannot communicate"
                                : "");
    if (llvm::is_contained(ArrayRef(group).take_front(i), axis))
      return reject(op) << "names axis '" << axis.getValue() << "' twice";
  }
  AxisMask mask = schedule.getMask(group);
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  DistAttr in = getDist(from), out = getDist(to);
  if (getElementTypeOrSelf(from) != getElementTypeOrSelf(to) ||
      in.getDims().size() != out.getDims().size())
    return reject(op) << "receives another type than it sends: " << from << " and " << to;

  // Dimensions of operand and result that are split over the group; all others must not be.
  auto collective = cast<CollectiveOpInterface>(op);
  std::optional<int64_t> splitIn = collective.getOperandSplitDim(),
                         splitOut = collective.getResultSplitDim();
  int64_t rank = in.getDims().size();
  for (std::optional<int64_t> dim : {splitIn, splitOut})
    if (dim && (*dim < 0 || *dim >= rank))
      return reject(op) << "there is no dimension " << *dim;

  auto check = [&](const char *what, DistAttr dist, std::optional<int64_t> split) -> LogicalResult {
    SmallVector<DimAttr> dims(dist.getDims());
    if (split) {
      if (!usesAll(dims[*split], group))
        return reject(op) << "dimension " << *split << " of the " << what
                          << " is not split over all axes of the group";
      dims[*split] = removeAxes(dims[*split], group);
    }
    if (collective.mayChangeAnySplit())
      for (DimAttr &dim : dims)
        dim = removeAxes(dim, group);
    return checkSameSize(schedule, op, what, dims, mask);
  };
  if (failed(check("operand", in, splitIn)) || failed(check("result", out, splitOut)))
    return failure();
  for (int64_t d = 0; d < rank; ++d)
    if (removeAxes(in.getDims()[d], group) != removeAxes(out.getDims()[d], group))
      return reject(op) << "members of a group send " << from << " and expect " << to
                        << ", which is not the same in dimension " << d;

  if (isa<AllReduceOp, ReduceScatterOp, AllReduceStartOp, CombineOp>(op))
    for (StringAttr axis : group)
      if (!in.isUnreducedOver(axis.getValue()))
        return reject(op) << "reduces a value that is not unreduced over '" << axis.getValue()
                          << "': " << from;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    int64_t members = 1;
    for (StringAttr axis : group)
      members *= grid.getAxisSize(axis.getValue());
    if (int64_t root = broadcast.getRoot(); root < 0 || root >= members)
      return reject(op) << "root " << root << " is not one of the group's " << members
                        << " members";
  }
  return success();
}
