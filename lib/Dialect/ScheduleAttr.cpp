//===- ScheduleAttr.cpp - Text and checks of #tpc.schedule ----------------===//
//
//   #tpc.schedule<"interleaved", [[F0.0, SF0.0], [RF1.0, F1.0]]>
//
// One list of events for each rank of pp. An event is a phase, a chunk and a micro-batch.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Tpc.h"

#include "mlir/IR/DialectImplementation.h"

#include <set>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::ScheduleEvent;
using ::tpc::SchedulePhase;
using ::tpc::ScheduleTable;

ScheduleAttr ScheduleAttr::get(MLIRContext *context, StringRef policy, const ScheduleTable &table) {
  SmallVector<DenseI64ArrayAttr> ranks;
  for (const std::vector<ScheduleEvent> &events : table) {
    SmallVector<int64_t> numbers;
    for (const ScheduleEvent &event : events)
      numbers.append({int64_t(event.phase), event.chunk, event.microBatch});
    ranks.push_back(DenseI64ArrayAttr::get(context, numbers));
  }
  return get(context, policy, ranks);
}

std::vector<ScheduleEvent> ScheduleAttr::getEvents(int64_t rank) const {
  std::vector<ScheduleEvent> events;
  ArrayRef<int64_t> numbers = getRanks()[rank].asArrayRef();
  for (; !numbers.empty(); numbers = numbers.drop_front(3))
    events.push_back({SchedulePhase(numbers[0]), numbers[1], numbers[2]});
  return events;
}

std::vector<int64_t> ScheduleAttr::getChunks(int64_t rank) const {
  std::set<int64_t> chunks;
  for (const ScheduleEvent &event : getEvents(rank))
    chunks.insert(event.chunk);
  return {chunks.begin(), chunks.end()};
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                                   ArrayRef<DenseI64ArrayAttr> ranks) {
  for (DenseI64ArrayAttr rank : ranks) {
    ArrayRef<int64_t> numbers = rank.asArrayRef();
    if (numbers.size() % 3)
      return emitError() << "a schedule needs three numbers for each event";
    for (; !numbers.empty(); numbers = numbers.drop_front(3))
      if (numbers[0] < 0 || numbers[0] >= int64_t(::tpc::numSchedulePhases) || numbers[1] < 0 ||
          numbers[2] < 0)
        return emitError() << "a schedule has an event with an invalid number";
  }
  return success();
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  std::string policy;
  ScheduleTable table;
  auto parseEvent = [&]() -> ParseResult {
    StringRef text;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&text))
      return failure();
    std::optional<ScheduleEvent> event = ScheduleEvent::parse(text);
    if (!event)
      return parser.emitError(loc) << "'" << text
                                   << "' is not an event of a schedule; write a phase (F, B, W, SF "
                                      "or RF), a chunk and a micro-batch, such as F2.1";
    table.back().push_back(*event);
    return success();
  };
  auto parseRank = [&]() -> ParseResult {
    table.emplace_back();
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseEvent);
  };
  if (parser.parseLess() || parser.parseString(&policy) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseRank) ||
      parser.parseGreater())
    return {};
  return get(parser.getContext(), policy, table);
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printString(getPolicy());
  printer << ", [";
  llvm::interleaveComma(llvm::seq<int64_t>(0, getRanks().size()), printer, [&](int64_t rank) {
    printer << "[";
    llvm::interleaveComma(getEvents(rank), printer,
                          [&](const ScheduleEvent &event) { printer << event.str(); });
    printer << "]";
  });
  printer << "]>";
}
