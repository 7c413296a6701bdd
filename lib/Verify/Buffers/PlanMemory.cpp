//===- PlanMemory.cpp - Memory of buffer functions ------------------------===//

#include "PlanChecker.h"
#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Memory ranges
//===----------------------------------------------------------------------===//

std::optional<PlanChecker::Columns> PlanChecker::getColumns(Value buffer) const {
  auto op = buffer.getDefiningOp<buffer::ColumnsOp>();
  if (!op)
    return std::nullopt;
  return Columns{value(op.getFrom()), value(op.getWidth()), value(op.getStride())};
}

static SymExpr multiply(ArrayRef<SymExpr> sizes) {
  SymExpr result(1);
  for (const SymExpr &size : sizes)
    result = result * size;
  return result;
}

FailureOr<SymExpr> PlanChecker::getRowStride(Operation *call, Value buffer, ArrayRef<SymExpr> sizes,
                                             unsigned rowDims) const {
  SymExpr width = partSizes.normalize(multiply(sizes.drop_front(rowDims)));
  std::optional<Columns> columns = getColumns(buffer);
  if (!columns)
    return width;
  if (columns->width != width)
    return call->emitOpError() << "reads rows of " << width.str() << " elements from columns of "
                               << columns->width.str();
  return columns->stride;
}

/// Checks that the columns are within the rows of the whole buffer, and that it has as many rows as
/// the columns.
FailureOr<MemoryRange> PlanChecker::resolveColumns(Operation *call, buffer::ColumnsOp op) {
  auto whole = resolve(call, op.getWhole());
  if (failed(whole))
    return failure();
  Columns columns = *getColumns(op.getBuffer());
  buffer::ExtentAttr all = buffer::getExtent(op.getWhole()), extent = op.getExtent();
  bounds.assume(columns.first);
  bounds.assume(columns.width);
  if (all.getElement() != extent.getElement() ||
      value(all.getElements()) * columns.width != value(extent.getElements()) * columns.stride)
    return call->emitOpError() << "uses columns of " << extent.getElements().getExpr().str()
                               << " x " << extent.getElement() << ", which are not "
                               << columns.width.str() << " of " << columns.stride.str()
                               << " in a buffer of " << all.getElements().getExpr().str() << " x "
                               << all.getElement();
  if (!bounds.isNeverNegative(columns.first) ||
      !bounds.isNeverNegative(columns.stride - columns.first - columns.width))
    return call->emitOpError() << "uses columns " << columns.first.str() << " to "
                               << (columns.first + columns.width).str() << " of rows of "
                               << columns.stride.str();
  SymExpr bytes(getElementBytes(extent.getElement()));
  whole->rows = RowPart{bytes * columns.first, bytes * columns.width, bytes * columns.stride};
  return whole;
}

FailureOr<MemoryRange> PlanChecker::resolve(Operation *call, Value buffer, Access access) {
  if (auto columns = buffer.getDefiningOp<buffer::ColumnsOp>()) {
    if (access == Access::ByRows)
      return resolveColumns(call, columns);
    call->emitOpError("uses columns of a buffer as if they were dense");
    return failure();
  }
  auto extent = buffer::getExtent(buffer);
  if (!extent) {
    call->emitOpError("uses a buffer of unknown size");
    return failure();
  }
  SymExpr size = partSizes.normalize(extent.getBytes());
  bounds.assume(size);
  if (auto slot = buffer.getDefiningOp<buffer::SlotOp>()) {
    if (!memory.isLive(slot.getFrame())) {
      call->emitOpError("uses a slot of a frame that was popped");
      return failure();
    }
    return MemoryRange{slot.getFrame(), value(slot.getOffset()), size};
  }
  if (auto part = buffer.getDefiningOp<buffer::PartOp>()) {
    auto whole = resolve(call, part.getWhole());
    if (failed(whole))
      return failure();
    auto element = buffer::getExtent(part.getWhole()).getElement();
    SymExpr bytes(getElementBytes(element));
    return MemoryRange{whole->region, whole->begin + bytes * value(part.getFrom()), size};
  }
  return MemoryRange{buffer, SymExpr(0), size};
}

bool PlanChecker::isInPlace(Value region) {
  if (region.getDefiningOp<buffer::StateOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(region);
  return argument && argument.getArgNumber() < function.getArgs().size() &&
         cast<buffer::ArgumentAttr>(function.getArgs()[argument.getArgNumber()]).getResult();
}

bool PlanChecker::isWritable(Value region) {
  if (region.getDefiningOp<buffer::PushOp>() || isInPlace(region))
    return true;
  auto argument = dyn_cast<BlockArgument>(region);
  return argument && argument.getArgNumber() >= function.getArgs().size();
}

/// Checks that a range is within its frame or result buffer. (Inputs and parameters have the size
/// of their contents.)
LogicalResult PlanChecker::checkBounds(Operation *call, const MemoryRange &range) {
  SymExpr size;
  if (auto push = range.region.getDefiningOp<buffer::PushOp>())
    size = value(push.getBytes());
  else
    size = partSizes.normalize(buffer::getExtent(range.region).getBytes());
  if (!memory.isInside(range, size))
    return call->emitOpError() << "writes " << range.size.str() << " bytes at offset "
                               << range.begin.str() << " of a buffer of " << size.str();
  return success();
}

/// Follows aliases to the value whose memory they use. A reshape has the same bytes; a slice of an
/// outer dimension adds an offset.
Value PlanChecker::getRoot(Value tensor, SymExpr &offset) {
  for (;;) {
    if (auto reshape = tensor.getDefiningOp<ReshapeOp>()) {
      tensor = reshape.getOperand();
      continue;
    }
    auto slice = tensor.getDefiningOp<LocalSliceOp>();
    if (!slice)
      return tensor;
    ArrayRef<DimAttr> from = getDist(slice.getOperand()).getDims();
    ArrayRef<DimAttr> to = getDist(slice.getResult()).getDims();
    size_t dim = slice.getDim();
    DimAttr whole = from[dim], part = to[dim];
    // The slice is contiguous only if all outer dimensions have size 1.
    if (llvm::any_of(to.take_front(dim), [](DimAttr d) { return !d.getExpr().isConstant(1); }))
      return tensor;
    SymExpr begin;
    if (whole.getFactors() == part.getFactors()) {
      begin = partSizes.begin(partSizes.inner(part), part.getAxes(), whole.getAxes().size());
    } else {
      if (!whole.getAxes().empty() || !part.getAxes().empty())
        return tensor;
      FactorAttr outer = part.getFactors().front();
      begin = partSizes.begin(outer.getExpr(), outer.getAxes(),
                              whole.getFactors().front().getAxes().size());
      for (FactorAttr inner : part.getFactors().drop_front()) {
        if (!inner.getAxes().empty() && !llvm::is_contained(whole.getFactors(), inner))
          return tensor;
        begin = begin * partSizes.size(inner);
      }
    }
    int64_t bits = getElementTypeOrSelf(slice.getType()).getIntOrFloatBitWidth();
    offset = offset + SymExpr((bits + 7) / 8) * begin * partSizes.size(to.drop_front(dim + 1));
    tensor = slice.getOperand();
  }
}

bool PlanChecker::isGiven(Operation *call, Value region, Value tensor) {
  if (auto constant = region.getDefiningOp<buffer::ConstantOp>()) {
    auto wanted = tensor.getDefiningOp<ConstantOp>();
    return wanted && wanted.getValue() == constant.getValue();
  }
  if (auto dense = region.getDefiningOp<buffer::DenseOp>())
    return succeeded(
        checkParameter(nullptr, dense.getIndex(), tensor, buffer::ParameterUse::Dense));
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return false;
  if (auto input = region.getDefiningOp<buffer::InputOp>())
    return isa<PipelineOp>(argument.getOwner()->getParentOp()) &&
           input.getIndex() == argument.getArgNumber();
  auto buffer = dyn_cast<BlockArgument>(region);
  if (!buffer || (isWritable(buffer) && !isInPlace(buffer)) ||
      argument.getOwner()->getParent() != source)
    return false;
  auto attr = cast<buffer::ArgumentAttr>(function.getArgs()[buffer.getArgNumber()]);
  return attr.isBuffer() && attr.getArgument().getInt() == argument.getArgNumber();
}

//===----------------------------------------------------------------------===//
// Reads and writes
//===----------------------------------------------------------------------===//

static LogicalResult checkExtent(Operation *call, const PartSizes &sizes, Value buffer,
                                 const SymExpr &elements, Type element) {
  auto extent = buffer::getExtent(buffer);
  if (extent && extent.getElement() == element &&
      sizes.normalize(extent.getElements().getExpr()) == elements)
    return success();
  InFlightDiagnostic error = call->emitOpError() << "uses a buffer of ";
  if (extent)
    error << extent.getElements().getExpr().str() << " x " << extent.getElement();
  return error << " for " << elements.str() << " x " << element;
}

LogicalResult PlanChecker::read(Operation *call, Value buffer, Value tensor, Value over,
                                Access access) {
  return read(call, buffer, Content{tensor}, partSizes.elements(tensor.getType()),
              getElementTypeOrSelf(tensor.getType()), over, access);
}

LogicalResult PlanChecker::read(Operation *call, Value buffer, Content content,
                                const SymExpr &elements, Type element, Value over, Access access) {
  auto where = resolve(call, buffer, access);
  if (failed(where) || failed(checkExtent(call, partSizes, buffer, elements, element)))
    return failure();
  SymExpr offset(0);
  Value root = content.step ? content.tensor : getRoot(content.tensor, offset);
  Content wanted = ofEvent({root, content.step});
  if (isInPlace(where->region) && memory.isUntouched(*where)) {
    if (auto state = where->region.getDefiningOp<buffer::StateOp>()) {
      if (failed(checkState(call, state, *where, content.tensor)))
        return failure();
    } else if (where->begin != offset || content.step || !isGiven(call, where->region, root)) {
      return call->emitOpError() << "must read the memory of " << describe(content);
    }
    reads.push_back({*where, over});
    return success();
  }
  if (!isWritable(where->region)) {
    if (where->begin == offset && !content.step && isGiven(call, where->region, root)) {
      auto dense = where->region.getDefiningOp<buffer::DenseOp>();
      buffer::LoadAttr load = dense ? getLoad(dense.getIndex()) : buffer::LoadAttr();
      return load ? checkNotUpdated(call, load) : success();
    }
    return call->emitOpError() << "must read the memory of " << describe(content);
  }
  auto isSame = [&](Content stored) {
    if (isa<buffer::BufferType>(stored.tensor.getType()))
      return !content.step && isGiven(call, stored.tensor, root);
    return stored == wanted;
  };
  if (const Memory::Entry *entry = memory.find(*where, offset, isSame)) {
    // Records the entire value, because its slot is known to be disjoint from other slots.
    reads.push_back({entry->range, over});
    return success();
  }
  InFlightDiagnostic error = call->emitOpError()
                             << "needs " << describe(content) << ", which is not in the memory "
                             << "that it reads, " << where->size.str() << " bytes at offset "
                             << where->begin.str();
  if (const Memory::Entry *other = memory.findAny(*where)) {
    Diagnostic &note = error.attachNote(other->writer ? other->writer->getLoc() : call->getLoc());
    note << "the memory has " << describe(other->content);
    if (other->writer)
      note << ", written by " << other->writer->getName().getStringRef();
  } else {
    error.attachNote() << "the contents are unknown: overwritten, or never written";
  }
  return error;
}

LogicalResult PlanChecker::write(Operation *call, Value buffer, Value tensor, Access access) {
  return write(call, buffer, Content{tensor}, partSizes.elements(tensor.getType()),
               getElementTypeOrSelf(tensor.getType()), access);
}

LogicalResult PlanChecker::write(Operation *call, Value buffer, Content content,
                                 const SymExpr &elements, Type element, Access mode) {
  auto where = resolve(call, buffer, mode);
  if (failed(where) || failed(checkExtent(call, partSizes, buffer, elements, element)))
    return failure();
  if (!isWritable(where->region))
    return call->emitOpError() << "writes " << describe(content) << " to read-only memory";
  // A write to an in-place region must replace a value that the same call read.
  bool replacesOperand = llvm::any_of(
      reads, [&](const Read &access) { return access.over == buffer && access.range == *where; });
  if (isInPlace(where->region) && !replacesOperand)
    return call->emitOpError() << "writes " << describe(content)
                               << " to memory that has another value";
  if (!replacesOperand && failed(checkBounds(call, *where)))
    return failure();
  for (const Read &access : reads) {
    bool isSame = access.range == *where;
    if (!(isSame && access.over == buffer) && !memory.areDisjoint(access.range, *where))
      return call->emitOpError() << "writes " << describe(content)
                                 << " to memory that it may still read: " << where->size.str()
                                 << " bytes at offset " << where->begin.str() << ", and "
                                 << access.range.size.str() << " at offset "
                                 << access.range.begin.str();
  }
  for (const MemoryRange &other : writes)
    if (!memory.areDisjoint(other, *where))
      return call->emitOpError() << "writes two results to memory that may overlap";
  writes.push_back(*where);
  memory.write(*where, ofEvent(content), call);
  return success();
}
