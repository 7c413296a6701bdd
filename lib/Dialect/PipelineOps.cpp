//===- PipelineOps.cpp - Pipeline stages and their schedule ---------------===//

#include "DiscardableAttrs.h"
#include "OpHelpers.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"

#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SchedulePhase;

// tpc.pipeline @main(%ids : type, ...) inputs [...] outputs [...] { ... }
ParseResult PipelineOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  ArrayAttr inputs, outputs;
  if (parser.parseSymbolName(name, "sym_name", state.attributes) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren,
                               /*allowType=*/true) ||
      parser.parseKeyword("inputs") ||
      parser.parseAttribute(inputs, "input_attrs", state.attributes) ||
      parser.parseKeyword("outputs") || parser.parseAttribute(outputs, "outputs", state.attributes))
    return failure();
  ScheduleAttr schedule;
  if ((succeeded(parser.parseOptionalKeyword("schedule")) &&
       parser.parseCustomAttributeWithFallback(schedule, Type(), "schedule", state.attributes)) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

void PipelineOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << "(";
  llvm::interleaveComma(getBody().getArguments(), printer,
                        [&](BlockArgument a) { printer.printRegionArgument(a); });
  printer << ") inputs " << getInputAttrs() << " outputs " << getOutputs();
  if (ScheduleAttr schedule = getScheduleAttr()) {
    printer << " schedule ";
    printer.printStrippedAttrOrType(schedule);
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"sym_name", "input_attrs", "outputs", "schedule"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

/// Checks that no value outside of the micro-batch iterations is split over mb.
static LogicalResult checkOutsideOfMicroBatches(StageOp stage) {
  for (Operation &op : stage.getBody().front())
    for (Type type : op.getResultTypes())
      if (isa<RankedTensorType>(type) && getDist(type).usesAxis(kMicroBatchAxis))
        return op.emitOpError() << "creates a value that is split over mb, " << type
                                << ", outside of tpc.micro_batches";
  return success();
}

/// Checks that each rank has one loop for each of its chunks.
static LogicalResult checkSchedule(PipelineOp pipeline, ScheduleAttr schedule) {
  auto stages = llvm::to_vector(pipeline.getBody().getOps<StageOp>());
  if (schedule.getRanks().size() != stages.size())
    return pipeline.emitOpError() << "has " << stages.size() << " stages, but its schedule has "
                                  << schedule.getRanks().size() << " lists of events";
  for (auto [i, stage] : llvm::enumerate(stages)) {
    size_t loops = llvm::range_size(stage.getBody().getOps<MicroBatchesOp>());
    if (size_t chunks = schedule.getChunks(i).size(); loops != chunks)
      return stage.emitOpError() << "has " << loops << " tpc.micro_batches, but its events are of "
                                 << chunks << " chunks";
  }
  return success();
}

SchedulePhase MicroBatchesOp::getPhase(Operation *op) {
  return isa<RecvOp>(op)   ? SchedulePhase::ReceiveForward
         : isa<SendOp>(op) ? SchedulePhase::SendForward
                           : SchedulePhase::Forward;
}

SmallVector<Operation *> MicroBatchesOp::getOps(SchedulePhase phase) {
  SmallVector<Operation *> ops;
  for (Operation &op : getBody().front())
    if (getPhase(&op) == phase)
      ops.push_back(&op);
  return ops;
}

LogicalResult PipelineOp::verify() {
  Block &block = getBody().front();
  if (getInputAttrs().size() != block.getNumArguments())
    return emitOpError() << "has " << getInputAttrs().size() << " input attributes for "
                         << block.getNumArguments() << " inputs";
  for (ArrayAttr list : {getInputAttrs(), getOutputs()})
    for (Attribute entry : list)
      if (!isa<DictionaryAttr>(entry))
        return emitOpError() << "inputs and outputs must be dictionaries, not " << entry;
  MeshAttr grid = MeshAttr::lookup(*this);
  for (auto [i, attrs] : llvm::enumerate(getInputAttrs().getAsRange<DictionaryAttr>()))
    for (NamedAttribute attribute : attrs)
      if (failed(verifyInputAttribute(attribute, block.getArgument(i).getType(), grid,
                                      [&] { return emitOpError() << "input " << i << ": "; })))
        return failure();
  for (auto [i, output] : llvm::enumerate(getOutputs().getAsRange<DictionaryAttr>()))
    for (NamedAttribute field : output)
      if (!(field.getName() == "name" && isa<StringAttr>(field.getValue())) &&
          !(field.getName() == "type" && isa<TypeAttr>(field.getValue())) &&
          !(field.getName() == kCopiesAttr && isa<DenseI64ArrayAttr>(field.getValue())) &&
          !(field.getName() == kCacheAttr && isa<FlatSymbolRefAttr>(field.getValue())) &&
          !(field.getName() == kUpdateAttr && Update::get(output)))
        return emitOpError() << "output " << i << " may have only the fields name (a text), type, "
                             << kCopiesAttr << ", " << kCacheAttr << " and " << kUpdateAttr
                             << ", but has '" << field.getName().getValue() << " = "
                             << field.getValue() << "'";
  int64_t next = 0;
  for (Operation &op : block) {
    auto stage = dyn_cast<StageOp>(op);
    if (!stage)
      return op.emitOpError("must be a tpc.stage, because it is in a pipeline");
    if ((int64_t)stage.getIndex() != next++)
      return stage.emitOpError() << "stages must be in order; expected stage " << next - 1;
    if (grid && grid.getMicroBatches() > 1 && failed(checkOutsideOfMicroBatches(stage)))
      return failure();
  }
  if (ScheduleAttr schedule = getScheduleAttr(); schedule && failed(checkSchedule(*this, schedule)))
    return failure();
  if (grid && grid.getAxisSize(kPipelineAxis) != next)
    return emitOpError() << "has " << next << " stages, but axis pp has size "
                         << grid.getAxisSize(kPipelineAxis);
  return success();
}

static LogicalResult checkTransfer(Operation *op, Value value, int64_t peer) {
  auto stage = op->getParentOfType<StageOp>();
  if (!stage)
    return op->emitOpError("must be in a stage of a pipeline");
  MeshAttr grid = MeshAttr::lookup(op);
  if (peer < 0 || (grid && peer >= grid.getAxisSize(kPipelineAxis)) ||
      peer == (int64_t)stage.getIndex())
    return op->emitOpError() << "peer must be another stage of the pipeline, not stage " << peer;
  if (getDist(value).getPartial())
    return op->emitOpError("moves an unreduced value: reduce it first");
  return success();
}

LogicalResult SendOp::verify() { return checkTransfer(*this, getValue(), getTo()); }
LogicalResult RecvOp::verify() { return checkTransfer(*this, getResult(), getFrom()); }

RankedTensorType Copies::getDeliveredType(Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<::tpc::SymExpr> sizes = getSizes(tensor);
  std::optional<int64_t> size =
      times > 1 && dim < tensor.getRank() ? sizes[dim].asConstant() : std::nullopt;
  if (!size)
    return tensor;
  sizes[dim] = ::tpc::SymExpr(*size / times);
  return makeTensorType(tensor.getElementType(), sizes);
}

/// Ignores attributes that do not match `type`, because the program may be unverified.
static Copies toCopies(Attribute attribute, RankedTensorType type) {
  auto copies = dyn_cast_or_null<DenseI64ArrayAttr>(attribute);
  bool fits = copies && type && copies.size() == 2 && copies[0] >= 0 &&
              copies[0] < type.getRank() && copies[1] > 1;
  return fits ? Copies{copies[0], copies[1]} : Copies();
}

Copies mlir::tpc::getCopies(func::FuncOp main, unsigned result) {
  Attribute copies = main.getResultAttr(result, kCopiesAttr);
  Type type = main.getResultTypes()[result];
  return copies && areValidCopies(copies, type) ? toCopies(copies, cast<RankedTensorType>(type))
                                                : Copies();
}

Copies mlir::tpc::getCopies(PipelineOp pipeline, unsigned output) {
  if (!pipeline || output >= pipeline.getOutputs().size())
    return {};
  auto dict = dyn_cast<DictionaryAttr>(pipeline.getOutputs()[output]);
  auto type = dict ? dict.getAs<TypeAttr>("type") : TypeAttr();
  return type ? toCopies(dict.get(kCopiesAttr), dyn_cast<RankedTensorType>(type.getValue()))
              : Copies();
}

bool mlir::tpc::areValidCopies(Attribute attribute, Type type) {
  auto list = dyn_cast<DenseI64ArrayAttr>(attribute);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!list || list.size() != 2 || !tensor || list[0] < 0 || list[0] >= tensor.getRank() ||
      list[1] < 2)
    return false;
  std::optional<int64_t> size = getSizes(tensor)[list[0]].asConstant();
  return size && *size % list[1] == 0;
}

LogicalResult OutputOp::verify() {
  auto pipeline = (*this)->getParentOfType<PipelineOp>();
  if (!pipeline)
    return emitOpError("must be in a pipeline");
  if (getIndex() >= pipeline.getOutputs().size())
    return emitOpError() << "there is no output " << int64_t(getIndex());
  if (getDist(getValue()).getPartial())
    return emitOpError("delivers an unreduced value: reduce it first");
  Attribute copies = cast<DictionaryAttr>(pipeline.getOutputs()[getIndex()]).get(kCopiesAttr);
  if (copies && !areValidCopies(copies, getValue().getType()))
    return emitOpError() << "has the copies " << copies
                         << ", which must be a dimension and the number of copies of each of its "
                            "indices, for a value of type "
                         << getValue().getType();
  return success();
}
