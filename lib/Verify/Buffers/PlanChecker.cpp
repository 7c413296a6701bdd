//===- PlanChecker.cpp - A function of tensors and one on buffers ---------===//

#include "PlanChecker.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

#include "PlannedOp.cpp.inc"

/// An op and its ONNX node, for messages.
static std::string describeOp(Operation *op) {
  std::string name = getSourceName(op->getLoc());
  return op->getName().getStringRef().str() + (name.empty() ? "" : " '" + name + "'");
}

std::string mlir::tpc::describe(Content content) {
  Operation *op = content.tensor.getDefiningOp();
  if (isa<buffer::PlaceType>(content.tensor.getType()))
    return "a copy of what is given";
  if (!op)
    return "argument " + std::to_string(cast<BlockArgument>(content.tensor).getArgNumber());
  return "what " + describeOp(op) + " gives" +
         (content.step ? " after step " + std::to_string(content.step) : "");
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

FailureOr<Place> PlanChecker::resolve(Operation *call, Value place) {
  auto extent = buffer::getExtent(place);
  if (!extent) {
    call->emitOpError("uses a place of an unknown size");
    return failure();
  }
  SymExpr size = partSizes.normalize(extent.getBytes());
  bounds.assume(size);
  if (auto slot = place.getDefiningOp<buffer::SlotOp>()) {
    if (!memory.isLive(slot.getFrame())) {
      call->emitOpError("uses a slot of a frame that is gone");
      return failure();
    }
    return Place{slot.getFrame(), value(slot.getOffset()), size};
  }
  if (auto part = place.getDefiningOp<buffer::PartOp>()) {
    auto whole = resolve(call, part.getWhole());
    if (failed(whole))
      return failure();
    auto element = buffer::getExtent(part.getWhole()).getElement();
    SymExpr bytes(getElementBytes(element));
    return Place{whole->region, whole->begin + bytes * value(part.getFrom()), size};
  }
  return Place{place, SymExpr(0), size};
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

/// Places in frames and of results are those that could be too small; what is given holds what it
/// holds.
LogicalResult PlanChecker::checkBounds(Operation *call, const Place &place) {
  SymExpr size;
  if (auto push = place.region.getDefiningOp<buffer::PushOp>())
    size = value(push.getBytes());
  else
    size = partSizes.normalize(buffer::getExtent(place.region).getBytes());
  if (!memory.isInside(place, size))
    return call->emitOpError() << "writes " << place.size.str() << " bytes from "
                               << place.begin.str() << " on of " << size.str();
  return success();
}

/// Follows names that values have without being computed. Reshapes keep the bytes; the part of an
/// outer dimension begins at an offset.
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
    // In rows only where one row is all that is outside of the split.
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
  auto place = dyn_cast<BlockArgument>(region);
  if (!place || (isWritable(place) && !isInPlace(place)) ||
      argument.getOwner()->getParent() != source)
    return false;
  auto attr = cast<buffer::ArgumentAttr>(function.getArgs()[place.getArgNumber()]);
  return attr.isPlace() && attr.getArgument().getInt() == argument.getArgNumber();
}

//===----------------------------------------------------------------------===//
// Reads and writes
//===----------------------------------------------------------------------===//

static LogicalResult checkExtent(Operation *call, const PartSizes &sizes, Value place,
                                 const SymExpr &elements, Type element) {
  auto extent = buffer::getExtent(place);
  if (extent && extent.getElement() == element &&
      sizes.normalize(extent.getElements().getExpr()) == elements)
    return success();
  InFlightDiagnostic error = call->emitOpError() << "uses a place of ";
  if (extent)
    error << extent.getElements().getExpr().str() << " x " << extent.getElement();
  return error << " for " << elements.str() << " x " << element;
}

LogicalResult PlanChecker::read(Operation *call, Value place, Value tensor, Value over) {
  return read(call, place, Content{tensor}, partSizes.elements(tensor.getType()),
              getElementTypeOrSelf(tensor.getType()), over);
}

LogicalResult PlanChecker::read(Operation *call, Value place, Content content,
                                const SymExpr &elements, Type element, Value over) {
  auto where = resolve(call, place);
  if (failed(where) || failed(checkExtent(call, partSizes, place, elements, element)))
    return failure();
  SymExpr offset(0);
  Value root = content.step ? content.tensor : getRoot(content.tensor, offset);
  if (isInPlace(where->region) && memory.isUntouched(*where)) {
    if (auto state = where->region.getDefiningOp<buffer::StateOp>()) {
      if (failed(checkState(call, state, *where, content.tensor)))
        return failure();
    } else if (where->begin != offset || content.step || !isGiven(call, where->region, root)) {
      return call->emitOpError() << "reads something else where " << describe(content)
                                 << " is to be read";
    }
    reads.push_back({*where, over});
    return success();
  }
  if (!isWritable(where->region)) {
    if (where->begin == offset && !content.step && isGiven(call, where->region, root))
      return success();
    return call->emitOpError() << "reads something else where " << describe(content)
                               << " is to be read";
  }
  auto isSame = [&](Content held) {
    if (isa<buffer::PlaceType>(held.tensor.getType()))
      return !content.step && isGiven(call, held.tensor, root);
    return held == Content{root, content.step};
  };
  if (const Memory::Held *held = memory.find(*where, offset, isSame)) {
    // A part is inside of what it is a part of, which is what its slot is known to be apart from.
    reads.push_back({held->place, over});
    return success();
  }
  InFlightDiagnostic error = call->emitOpError()
                             << "needs " << describe(content) << ", which is not in the place that "
                             << "it reads, " << where->size.str() << " bytes from "
                             << where->begin.str() << " on";
  if (const Memory::Held *other = memory.findAny(*where)) {
    Diagnostic &note = error.attachNote(other->writer ? other->writer->getLoc() : call->getLoc());
    note << "there is " << describe(other->content);
    if (other->writer)
      note << ", written by " << other->writer->getName().getStringRef();
  } else {
    error.attachNote() << "nothing is known to be there: it was overwritten, or never written";
  }
  return error;
}

LogicalResult PlanChecker::write(Operation *call, Value place, Value tensor) {
  return write(call, place, Content{tensor}, partSizes.elements(tensor.getType()),
               getElementTypeOrSelf(tensor.getType()));
}

LogicalResult PlanChecker::write(Operation *call, Value place, Content content,
                                 const SymExpr &elements, Type element) {
  auto where = resolve(call, place);
  if (failed(where) || failed(checkExtent(call, partSizes, place, elements, element)))
    return failure();
  if (!isWritable(where->region))
    return call->emitOpError() << "writes " << describe(content)
                               << " to a place that is only to be read";
  // In place of what was read from there, and of nothing else.
  bool isThere = llvm::any_of(reads, [&](const Access &access) {
    return access.over == place && access.place.region == where->region &&
           access.place.begin == where->begin && access.place.size == where->size;
  });
  if (isInPlace(where->region) && !isThere)
    return call->emitOpError() << "writes " << describe(content)
                               << " to memory that keeps something else";
  if (!isThere && failed(checkBounds(call, *where)))
    return failure();
  for (const Access &access : reads) {
    bool isSame = access.place.region == where->region && access.place.begin == where->begin &&
                  access.place.size == where->size;
    if (!(isSame && access.over == place) && !memory.areDisjoint(access.place, *where))
      return call->emitOpError() << "writes " << describe(content)
                                 << " where it may still have to read: " << where->size.str()
                                 << " bytes from " << where->begin.str() << " on, and "
                                 << access.place.size.str() << " from " << access.place.begin.str()
                                 << " on";
  }
  for (const Place &other : writes)
    if (!memory.areDisjoint(other, *where))
      return call->emitOpError() << "writes two results to places that may overlap";
  writes.push_back(*where);
  memory.write(*where, content, call);
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult PlanChecker::compare(Operation *call, StringRef what, buffer::ExprAttr have,
                                   const SymExpr &wanted) {
  SymExpr expected = partSizes.normalize(wanted);
  if (have && value(have) == expected)
    return success();
  return call->emitOpError() << "has " << what << " " << (have ? have.getExpr().str() : "nothing")
                             << ", which is not " << expected.str();
}

LogicalResult PlanChecker::compare(Operation *call, StringRef what, ArrayAttr have,
                                   ArrayRef<SymExpr> wanted) {
  if (have && have.size() == wanted.size() &&
      llvm::all_of(llvm::zip(have.getAsRange<buffer::ExprAttr>(), wanted), [&](auto pair) {
        return value(std::get<0>(pair)) == partSizes.normalize(std::get<1>(pair));
      }))
    return success();
  InFlightDiagnostic error = call->emitOpError() << "has other " << what << " than [";
  llvm::interleaveComma(wanted, error, [&](const SymExpr &e) { error << e.str(); });
  return error << "]";
}

LogicalResult PlanChecker::compare(Operation *call, StringRef what, Attribute have,
                                   Attribute wanted) {
  if (have == wanted)
    return success();
  InFlightDiagnostic error = call->emitOpError() << "has " << what << " ";
  (have ? error << have : error << "nothing") << ", which is not ";
  return wanted ? error << wanted : error << "there";
}

LogicalResult PlanChecker::checkLoad(Operation *call, Value index, buffer::LoadAttr load) {
  if (auto op = index.getDefiningOp<buffer::ParameterOp>()) {
    auto entry = lookup<buffer::EntryOp>(op, op.getEntryAttr());
    if (entry && entry.getLoad() == load)
      return success();
  } else if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto attr = cast<buffer::ArgumentAttr>(function.getArgs()[argument.getArgNumber()]);
    if (attr.getLoad() == load)
      return success();
  }
  return call ? call->emitOpError() << "uses another parameter than " << load : failure();
}

LogicalResult PlanChecker::checkParameter(Operation *call, Value index, Value tensor,
                                          buffer::ParameterUse use) {
  if (auto parameter = tensor.getDefiningOp<ParameterOp>())
    return checkLoad(call, index,
                     buffer::LoadAttr::get(module.getContext(), use,
                                           parameter.getWeightAttr().getAttr(),
                                           parameter.getViewAttr(), parameter.getType()));
  auto wanted = dyn_cast<BlockArgument>(tensor);
  auto argument = dyn_cast<BlockArgument>(index);
  if (wanted && argument && wanted.getOwner()->getParent() == source) {
    auto attr = cast<buffer::ArgumentAttr>(function.getArgs()[argument.getArgNumber()]);
    if (attr == buffer::ArgumentAttr::getParameter(module.getContext(), wanted.getArgNumber(), use))
      return success();
  }
  return call ? call->emitOpError() << "uses another parameter than " << describe(Content{tensor})
                                    << ", " << stringifyParameterUse(use)
              : failure();
}

//===----------------------------------------------------------------------===//
// Through both
//===----------------------------------------------------------------------===//

/// What names a place is no call.
static bool isName(Operation *op) {
  return isa<buffer::SlotOp, buffer::InputOp, buffer::ConstantOp, buffer::DenseOp, buffer::PartOp,
             buffer::ParameterOp, buffer::StateOp>(op);
}

Operation *PlanChecker::peek() {
  // Frames and copies may stand before any call.
  auto it = at;
  while (it != end && (isName(&*it) || isa<buffer::PushOp, buffer::PopOp, buffer::CopyOp>(*it)))
    ++it;
  return it == end ? nullptr : &*it;
}

/// Frames and copies mean no op of tensors: they do to memory what they do.
LogicalResult PlanChecker::skipMemoryOps() {
  for (; at != end; ++at)
    if (isa<buffer::PushOp, buffer::PopOp, buffer::CopyOp>(*at)) {
      if (failed(checkMemoryOp(&*at)))
        return failure();
    } else if (!isName(&*at)) {
      break;
    }
  return success();
}

LogicalResult PlanChecker::checkMemoryOp(Operation *op) {
  if (auto push = dyn_cast<buffer::PushOp>(op)) {
    // What lies in it has sizes.
    for (Operation *user : push.getFrame().getUsers())
      if (auto slot = dyn_cast<buffer::SlotOp>(user))
        bounds.assume(partSizes.normalize(slot.getExtent().getBytes()));
    if (!bounds.isNeverNegative(value(push.getBytes())))
      return op->emitOpError() << "is of " << push.getBytes().getExpr().str() << " bytes";
    memory.enter(push.getFrame());
    SmallVector<SymExpr> borders{value(push.getBytes())};
    for (Operation *user : push.getFrame().getUsers())
      if (auto slot = dyn_cast<buffer::SlotOp>(user))
        borders.push_back(value(slot.getOffset()));
    memory.setBorders(push.getFrame(), borders);
    return success();
  }
  if (auto pop = dyn_cast<buffer::PopOp>(op)) {
    if (!memory.isTop(pop.getFrame()))
      return op->emitOpError("is not of the frame on top");
    memory.leave();
    return success();
  }
  return checkCopy(cast<buffer::CopyOp>(op));
}

// A copy has no counterpart: whatever value it reads is then at both places.
LogicalResult PlanChecker::checkCopy(buffer::CopyOp copy) {
  beginCall();
  auto from = resolve(copy, copy.getFrom()), to = resolve(copy, copy.getTo());
  if (failed(from) || failed(to) || failed(compare(copy, "bytes", copy.getBytes(), from->size)) ||
      failed(compare(copy, "bytes", copy.getBytes(), to->size)))
    return failure();
  if (!isWritable(to->region) || isInPlace(to->region))
    return copy.emitOpError("writes to a place that is only to be read");
  if (failed(checkBounds(copy, *to)))
    return failure();
  if (!memory.areDisjoint(*from, *to))
    return copy.emitOpError("copies between places that may overlap");
  memory.copy(*from, *to, !isWritable(from->region), copy);
  return success();
}

Operation *PlanChecker::next(Operation *op, StringRef name) {
  if (failed(skipMemoryOps()))
    return nullptr;
  if (at == end) {
    op->emitOpError() << "has no call on buffers: " << name << " is to come behind the last";
    return nullptr;
  }
  Operation *call = &*at++;
  if (call->getName().getStringRef() != name) {
    InFlightDiagnostic error = call->emitOpError()
                               << "stands where " << describeOp(op) << " needs " << name;
    error.attachNote(op->getLoc()) << "this is the op on tensors";
    return nullptr;
  }
  beginCall();
  return call;
}

LogicalResult PlanChecker::checkBlock(Block &tensors, Block &buffers) {
  at = buffers.begin();
  end = buffers.end();
  size_t depth = memory.getDepth();
  for (Operation &op : tensors) {
    if (op.hasTrait<OpTrait::IsTerminator>() || done.contains(&op))
      continue;
    auto planned = dyn_cast<PlannedOpInterface>(op);
    if (!planned)
      return op.emitOpError("is an op of which nothing is known that means the same on buffers");
    if (failed(planned.checkPlan(*this)))
      return failure();
  }
  // Results are where the caller wants them before frames are gone or behind.
  if (failed(skipMemoryOps()))
    return failure();
  if (at != end)
    return at->emitOpError("is a call that no op on tensors means");
  if (memory.getDepth() != depth)
    return function.emitOpError("leaves a frame on the stack");
  return success();
}

// What one round leaves behind is what the next one finds. Values of the rounds themselves are new
// in each.
LogicalResult PlanChecker::checkInner(Block &tensors, Block &buffers) {
  auto outer = std::pair(at, end);
  isRepeated = partSizes.count("mb") > 1;
  for (int round = 0; round < rounds; ++round) {
    memory.forget([&](Value tensor) { return tensor.getParentBlock() == &tensors; });
    if (failed(checkBlock(tensors, buffers)))
      return failure();
  }
  isRepeated = false;
  std::tie(at, end) = outer;
  return success();
}

LogicalResult PlanChecker::checkSignature(func::FuncOp tensors) {
  auto isExtentOf = [&](buffer::ExtentAttr extent, Type type) {
    return extent.getElement() == getElementTypeOrSelf(type) &&
           partSizes.normalize(extent.getElements().getExpr()) == partSizes.elements(type);
  };
  DenseSet<int64_t> inPlace;
  for (auto attr : function.getArgs().getAsRange<buffer::ArgumentAttr>()) {
    if (!attr.getArgument())
      continue;
    if (IntegerAttr result = attr.getResult()) {
      int64_t r = result.getInt();
      if (r < 0 || r >= tensors.getNumResults() || !inPlace.insert(r).second)
        return function.emitOpError()
               << "has an argument that becomes result " << r << " of @" << tensors.getName()
               << ", which there is not, or which another one becomes";
      if (!isExtentOf(attr.getExtent(), tensors.getResultTypes()[r]))
        return function.emitOpError() << "has a place of another size for result " << r;
    }
    int64_t index = attr.getArgument().getInt();
    if (index < 0 || index >= tensors.getNumArguments())
      return function.emitOpError() << "has an argument for argument " << index << " of @"
                                    << tensors.getName() << ", which has none";
    if (attr.isPlace() && !isExtentOf(attr.getExtent(), tensors.getArgumentTypes()[index]))
      return function.emitOpError() << "has a place of another size for argument " << index;
  }
  if (function.getResultsPlaces().size() + inPlace.size() != tensors.getNumResults())
    return function.emitOpError() << "has " << function.getResultsPlaces().size() << " places for "
                                  << tensors.getNumResults() - inPlace.size() << " results";
  auto next = function.getResultsPlaces().begin();
  for (auto [i, type] : llvm::enumerate(tensors.getResultTypes()))
    if (!inPlace.contains(i) && !isExtentOf(cast<buffer::ExtentAttr>(*next++), type))
      return function.emitOpError() << "has a place of another size for result " << i;
  return success();
}

LogicalResult PlanChecker::checkFunction(func::FuncOp tensors) {
  source = &tensors.getBody();
  if (failed(checkSignature(tensors)) ||
      failed(checkBlock(tensors.front(), function.getBody().front())))
    return failure();
  beginCall();
  DenseMap<int64_t, Value> inPlace;
  for (auto [attr, place] : llvm::zip(function.getArgs().getAsRange<buffer::ArgumentAttr>(),
                                      function.getBody().getArguments()))
    if (attr.getResult())
      inPlace[attr.getResult().getInt()] = place;
  auto next = function.getResultPlaces().begin();
  for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands())) {
    auto place = inPlace.find(i);
    if (failed(read(function, place == inPlace.end() ? Value(*next++) : place->second, value)))
      return failure();
  }
  return success();
}

LogicalResult PlanChecker::checkStage(StageOp stage) {
  return checkBlock(stage.getBody().front(), function.getBody().front());
}
