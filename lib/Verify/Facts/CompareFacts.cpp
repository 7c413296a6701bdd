//===- CompareFacts.cpp - Comparison of facts with a reference ------------===//

#include "FactTable.h"
#include "Facts.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/WeightParts.h"
#include "tpc/Verify/Schedule.h"
#include "tpc/Verify/Verify.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::facts;

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

static Type getWhole(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? makeTensorType(tensor.getElementType(), getDist(type).getGlobal()) : type;
}

StringRef Port::getName() const {
  auto name = attributes.getAs<StringAttr>(kNameAttr);
  return name ? name.getValue() : StringRef();
}

static Ports readPipeline(PipelineOp pipeline) {
  Ports ports;
  MLIRContext *context = pipeline.getContext();
  auto inputs = pipeline.getInputAttrs().getAsRange<DictionaryAttr>();
  for (auto [attributes, type] : llvm::zip(inputs, pipeline.getBody().getArgumentTypes()))
    ports.inputs.push_back({attributes, getWhole(type)});
  for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>()) {
    NamedAttrList attributes;
    Type type;
    for (NamedAttribute field : output) {
      auto typeField = dyn_cast<TypeAttr>(field.getValue());
      if (field.getName() == "type" && typeField)
        type = typeField.getValue();
      else
        attributes.set(field.getName() == "name" ? StringRef(kNameAttr) : field.getName(),
                       field.getValue());
    }
    ports.outputs.push_back({attributes.getDictionary(context), type});
  }
  return ports;
}

static Ports readMain(func::FuncOp main) {
  Ports ports;
  auto getAttributes = [&](DictionaryAttr attributes) {
    return attributes ? attributes : DictionaryAttr::get(main.getContext());
  };
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes()))
    ports.inputs.push_back({getAttributes(main.getArgAttrDict(i)), getWhole(type)});
  for (auto [i, type] : llvm::enumerate(main.getResultTypes()))
    ports.outputs.push_back({getAttributes(main.getResultAttrDict(i)),
                             getWhole(getCopies(main, i).getDeliveredType(getWhole(type)))});
  return ports;
}

FailureOr<Ports> facts::readPorts(ModuleOp module) {
  for (auto pipeline : module.getOps<PipelineOp>())
    return readPipeline(pipeline);
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(module.getLoc()) << "there is no @main or tpc.pipeline to compare";
  return readMain(main);
}

namespace {
/// Compares the facts of a program with a reference: the model, or the program at an earlier level.
class Comparison {
public:
  /// `whose`: name of the reference, "the model" or "the staged program".
  Comparison(ModuleOp program, ModuleOp reference, StringRef whose)
      : program(program), reference(reference), whose(whose) {}

  LogicalResult compareAttributes(bool all);
  LogicalResult comparePorts(bool all);
  LogicalResult compareWeights();
  LogicalResult compareCaches();
  LogicalResult comparePipelines();
  LogicalResult compareFunctions();

private:
  /// Compares one field of `what`, such as an attribute `tpc.*`.
  LogicalResult compare(Location loc, const Twine &what, const Twine &field, Attribute have,
                        Attribute want) {
    if (have == want)
      return success();
    InFlightDiagnostic diag = emitError(loc) << what << " has ";
    auto print = [&](Attribute value) -> InFlightDiagnostic & {
      return value ? diag << "the '" << field << "' " << value : diag << "no '" << field << "'";
    };
    print(have) << ", but " << whose << "'s has ";
    return print(want);
  }
  LogicalResult compareCounts(const Twine &what, size_t have, size_t want) {
    if (have == want)
      return success();
    return emitError(program.getLoc())
           << "the program has " << have << " " << what << "s, but " << whose << " " << want;
  }
  LogicalResult comparePort(const Port &have, const Port &want, const Twine &what, bool all);
  /// Compares the attributes tpc.* of corresponding ops.
  LogicalResult compareMarks(Operation *actual, Operation *other, const Twine &what);

  ModuleOp program, reference;
  StringRef whose;
};
} // namespace

/// `all`: compares all attributes, not only the attributes that the model has too.
LogicalResult Comparison::compareAttributes(bool all) {
  for (const AttributeFact &fact : getAttributeFacts()) {
    Attribute have = program->getAttr(fact.name), want = reference->getAttr(fact.name);
    if (!all && fact.reference != Reference::Model)
      continue;
    // The parser adds a missing source, and lowering adds a missing schedule.
    if (!want && have && fact.name == kSourceAttr)
      continue;
    // tpc-verify-lowered adds this attribute to text on buffers, or compares it with its own.
    if (all && !want && have && fact.name == kNoRandomizedCheckAttr &&
        !program.getOps<buffer::FuncOp>().empty())
      continue;
    if (all && !want && have && fact.name == kScheduleAttr) {
      FailureOr<Schedule> schedule = Schedule::project(reference);
      if (failed(schedule))
        return failure();
      want = StringAttr::get(program.getContext(), schedule->getHash());
    }
    if (failed(compare(program.getLoc(), "the program", fact.name, have, want)))
      return failure();
  }
  return success();
}

LogicalResult Comparison::comparePort(const Port &have, const Port &want, const Twine &what,
                                      bool all) {
  Location loc = program.getLoc();
  if (have.type != want.type)
    return emitError(loc) << what << " is " << have.type << ", but " << whose << "'s is "
                          << want.type;
  for (StringRef name : {kNameAttr, kDefaultAttr, kRequiredAttr, kCacheAttr, kUpdateAttr}) {
    Attribute wanted = want.attributes.get(name);
    bool mayName = !all && name == kNameAttr && !wanted;
    if (!mayName && failed(compare(loc, what, name, have.attributes.get(name), wanted)))
      return failure();
  }
  return all ? compare(loc, what, "attributes", have.attributes, want.attributes) : success();
}

/// `all`: the reference is the same program at another level. If the reference is the model, the
/// program may name unnamed inputs and outputs, and replicate outputs.
LogicalResult Comparison::comparePorts(bool all) {
  FailureOr<Ports> actual = readPorts(program), other = readPorts(reference);
  if (failed(actual) || failed(other) ||
      failed(compareCounts("input", actual->inputs.size(), other->inputs.size())) ||
      failed(compareCounts("output", actual->outputs.size(), other->outputs.size())))
    return failure();
  for (auto [i, have, want] : llvm::enumerate(actual->inputs, other->inputs))
    if (failed(comparePort(have, want, "input " + Twine(i) + " of the program", all)))
      return failure();
  for (auto [i, have, want] : llvm::enumerate(actual->outputs, other->outputs))
    if (failed(comparePort(have, want, "output " + Twine(i) + " of the program", all)))
      return failure();
  return success();
}

/// A program may have fewer weights than the reference, but no others.
LogicalResult Comparison::compareWeights() {
  llvm::DenseMap<StringAttr, WeightOp> known;
  for (auto weight : reference.getOps<WeightOp>())
    known[weight.getSymNameAttr()] = weight;
  for (auto weight : program.getOps<WeightOp>()) {
    WeightOp other = known.lookup(weight.getSymNameAttr());
    if (!other)
      return weight.emitOpError() << "is a weight that " << whose << " does not have";
    std::string what = "weight @" + weight.getSymName().str();
    Location loc = weight.getLoc();
    if (failed(compare(loc, what, "file", weight.getFileAttr(), other.getFileAttr())) ||
        failed(compare(loc, what, "offset", weight.getOffsetAttr(), other.getOffsetAttr())) ||
        failed(
            compare(loc, what, "parts", weight->getAttr(kPartsAttr), other->getAttr(kPartsAttr))) ||
        failed(compare(loc, what, "type", weight.getTypeAttr(), other.getTypeAttr())))
      return failure();
  }
  return success();
}

LogicalResult Comparison::compareCaches() {
  auto actual = llvm::to_vector(program.getOps<CacheOp>());
  auto other = llvm::to_vector(reference.getOps<CacheOp>());
  if (failed(compareCounts("cache", actual.size(), other.size())))
    return failure();
  // The order of caches is significant, because the executable lists them in this order.
  for (auto [i, have, want] : llvm::enumerate(actual, other)) {
    std::string what = "cache " + std::to_string(i);
    if (failed(
            compare(have.getLoc(), what, "name", have.getSymNameAttr(), want.getSymNameAttr())) ||
        failed(compare(have.getLoc(), what, "type", have.getTypeAttr(), want.getTypeAttr())))
      return failure();
  }
  return success();
}

LogicalResult Comparison::compareMarks(Operation *actual, Operation *other, const Twine &what) {
  for (const AttributeFact &fact : getAttributeFacts())
    if (failed(compare(actual->getLoc(), what, fact.name, actual->getAttr(fact.name),
                       other->getAttr(fact.name))))
      return failure();
  return success();
}

/// Compares stages and the outputs of each stage. Their distributions are compared too, because the
/// distribution of an output determines on which ranks a cache resides.
LogicalResult Comparison::comparePipelines() {
  auto actual = llvm::to_vector(program.getOps<PipelineOp>());
  auto other = llvm::to_vector(reference.getOps<PipelineOp>());
  if (failed(compareCounts("pipeline", actual.size(), other.size())))
    return failure();
  for (auto [have, want] : llvm::zip(actual, other)) {
    if (failed(compare(have.getLoc(), "the pipeline", "schedule", have.getScheduleAttr(),
                       want.getScheduleAttr())))
      return failure();
    auto stages = llvm::to_vector(have.getBody().getOps<StageOp>());
    auto wanted = llvm::to_vector(want.getBody().getOps<StageOp>());
    if (failed(compareCounts("stage", stages.size(), wanted.size())))
      return failure();
    for (auto [stage, before] : llvm::zip(stages, wanted)) {
      std::string what = "stage " + std::to_string(stage.getIndex());
      SmallVector<OutputOp> outputs, deliveries;
      stage.walk([&](OutputOp op) { outputs.push_back(op); });
      before.walk([&](OutputOp op) { deliveries.push_back(op); });
      if (failed(compareMarks(stage, before, what)) ||
          failed(compareCounts("output of " + what, outputs.size(), deliveries.size())))
        return failure();
      for (auto [output, delivery] : llvm::zip(outputs, deliveries)) {
        auto getType = [](OutputOp op) { return TypeAttr::get(op.getValue().getType()); };
        std::string which = "a tpc.output of " + what;
        if (failed(compare(output.getLoc(), which, "index", output.getIndexAttr(),
                           delivery.getIndexAttr())) ||
            failed(compare(output.getLoc(), which, "type", getType(output), getType(delivery))))
          return failure();
      }
    }
  }
  return success();
}

/// Functions that only the lowered program has are kernels.
LogicalResult Comparison::compareFunctions() {
  llvm::DenseMap<StringAttr, func::FuncOp> known;
  for (auto function : reference.getOps<func::FuncOp>())
    known[function.getSymNameAttr()] = function;
  for (auto function : program.getOps<func::FuncOp>())
    if (func::FuncOp other = known.lookup(function.getSymNameAttr()))
      if (failed(compareMarks(function, other, "@" + function.getSymName())))
        return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

/// Checks that the parameter entries of the program are consistent.
static LogicalResult checkEntries(ModuleOp program) {
  llvm::DenseSet<StringAttr> used;
  program.walk([&](buffer::ParameterOp op) { used.insert(op.getEntryAttr().getAttr()); });
  for (auto entry : program.getOps<buffer::EntryOp>()) {
    if (!used.contains(entry.getSymNameAttr()))
      return entry.emitOpError("is loaded, but no call takes it");
    if (!program.lookupSymbol<WeightOp>(entry.getLoad().getWeight()))
      return entry.emitOpError() << "loads @" << entry.getLoad().getWeight().getValue()
                                 << ", but there is no such tpc.weight";
  }
  return success();
}

LogicalResult facts::compareWeights(ModuleOp program, ModuleOp reference) {
  return Comparison(program, reference, "the reference").compareWeights();
}

LogicalResult mlir::tpc::compareFacts(ModuleOp program, ModuleOp model) {
  Comparison comparison(program, model, "the model");
  return failure(failed(comparison.comparePorts(/*all=*/false)) ||
                 failed(comparison.compareAttributes(/*all=*/false)) ||
                 failed(comparison.compareWeights()) || failed(comparison.compareCaches()));
}

LogicalResult mlir::tpc::compareLoweredFacts(ModuleOp program, ModuleOp staged) {
  Comparison comparison(program, staged, "the staged program");
  return failure(failed(comparison.compareAttributes(/*all=*/true)) ||
                 failed(comparison.comparePorts(/*all=*/true)) ||
                 failed(comparison.compareWeights()) || failed(comparison.compareCaches()) ||
                 failed(comparison.comparePipelines()) || failed(comparison.compareFunctions()) ||
                 failed(checkEntries(program)));
}
