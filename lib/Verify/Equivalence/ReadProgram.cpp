//===- ReadProgram.cpp - From programs to terms ---------------------------===//

#include "../Interpret/World.h"
#include "TermReader.h"

#include "tpc/Dialect/Copies.h"
#include "tpc/Dialect/Dist.h"

#include <deque>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {

InFlightDiagnostic fail(Operation *op) {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
}

class Reader {
public:
  Reader(ModuleOp module, Terms &terms)
      : module(module), terms(terms), ops(terms, !module.getOps<PipelineOp>().empty()) {}
  FailureOr<ProgramTerms> run();

private:
  using Values = DenseMap<Value, Meaning>;
  /// A value on its way to another stage.
  struct Message {
    TermId term;
    Operation *send;
  };
  /// One stage's progress: stages run by turns, as far as messages have come.
  struct Place {
    StageOp stage;
    SmallVector<MicroBatchesOp> loops;
    size_t loop = 0;
    Block::iterator next;
    Values values;
  };

  LogicalResult runFunction(func::FuncOp function, ArrayRef<Meaning> arguments,
                            SmallVectorImpl<TermId> &results);
  LogicalResult getMeanings(Operation *op, const Values &values,
                            SmallVectorImpl<Meaning> &meanings);
  LogicalResult getTerms(Operation *op, const Values &values, SmallVectorImpl<TermId> &terms);
  LogicalResult runCall(func::CallOp call, Values &values);
  LogicalResult runOp(Operation *op, Values &values);
  LogicalResult runPipeline(PipelineOp pipeline);
  FailureOr<bool> advance(Place &place);
  LogicalResult takeFirst(Operation *op, Copies copies, TermId &term, Type &type);
  LogicalResult deliver(OutputOp output, MicroBatchesOp loop, TermId term);

  ModuleOp module;
  Terms &terms;
  TermReader ops;
  ProgramTerms program;
  /// Bodies, of variables; by which arguments are the same, and how they repeat.
  std::map<std::pair<Operation *, std::string>, SmallVector<TermId>> layers;
  DenseSet<Operation *> running;
  static constexpr int64_t maxSteps = 1 << 21;
  static constexpr size_t maxDepth = 512;
  int64_t steps = 0;
  std::map<std::tuple<int64_t, int64_t, size_t>, std::deque<Message>> messages; // from, to, loop
};

/// Of an op's operands. Nothing is trusted: that an operand is computed before, neither.
LogicalResult Reader::getMeanings(Operation *op, const Values &values,
                                  SmallVectorImpl<Meaning> &meanings) {
  for (Value operand : op->getOperands()) {
    auto it = values.find(operand);
    if (it == values.end())
      return fail(op) << "takes a value that is not computed before";
    meanings.push_back(it->second);
  }
  return success();
}

LogicalResult Reader::getTerms(Operation *op, const Values &values,
                               SmallVectorImpl<TermId> &terms) {
  SmallVector<Meaning> meanings;
  if (failed(getMeanings(op, values, meanings)))
    return failure();
  for (auto [meaning, operand] : llvm::zip(meanings, op->getOperands()))
    terms.push_back(ops.complete(meaning, operand, op));
  return success();
}

LogicalResult Reader::runFunction(func::FuncOp function, ArrayRef<Meaning> arguments,
                                  SmallVectorImpl<TermId> &results) {
  if (!running.insert(function).second)
    return fail(function) << "calls itself";
  if (running.size() > maxDepth)
    return fail(function) << "cannot be proved: more than " << maxDepth << " calls are nested here";
  Values values;
  for (auto [argument, meaning] : llvm::zip(function.getArguments(), arguments))
    values[argument] = meaning;
  for (Operation &op : function.front()) {
    if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      if (failed(getTerms(ret, values, results)))
        return failure();
      break;
    }
    if (failed(runOp(&op, values)))
      return failure();
  }
  running.erase(function);
  return success();
}

LogicalResult Reader::runCall(func::CallOp call, Values &values) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal() || callee.getNumArguments() != call.getNumOperands() ||
      callee.getNumResults() != call.getNumResults())
    return fail(call) << "calls @" << call.getCallee() << ", which does not fit";
  SmallVector<Meaning> arguments;
  if (failed(getMeanings(call, values, arguments)))
    return failure();
  if (!callee->hasAttr(kLayerAttr)) {
    SmallVector<TermId> results;
    if (failed(runFunction(callee, arguments, results)))
      return failure();
    for (auto [result, term] : llvm::zip(call.getResults(), results))
      values[result] = ops.open(term);
    return success();
  }
  // One variable for what is passed several times: a split program has an argument for each use
  // of a weight.
  std::string pattern;
  SmallVector<TermId> operands;
  SmallVector<unsigned> variableOf;
  DenseMap<TermId, unsigned> variables;
  for (const Meaning &argument : arguments) {
    auto [known, first] = variables.try_emplace(argument.term, operands.size());
    variableOf.push_back(known->second);
    if (first)
      operands.push_back(argument.term);
    pattern += std::to_string(variableOf.back()) + toText(argument.repeats) + "; ";
  }
  auto [it, first] = layers.try_emplace({callee, pattern});
  if (first) {
    SmallVector<Meaning> variables;
    for (auto [i, type] : llvm::enumerate(callee.getArgumentTypes())) {
      Type variable = removeRepeats(getWholeType(type), arguments[i].repeats);
      variables.push_back({terms.makeVariable(variableOf[i], variable), arguments[i].repeats});
    }
    SmallVector<TermId> bodies;
    if (failed(runFunction(callee, variables, bodies)))
      return failure();
    it->second = std::move(bodies);
  }
  for (auto [result, body] : llvm::zip(call.getResults(), it->second)) {
    // What a layer repeats is a repetition of what it gives.
    Meaning meaning = ops.open(body);
    values[result] = {terms.makeCall(meaning.term, operands, call), meaning.repeats};
  }
  return success();
}

LogicalResult Reader::runOp(Operation *op, Values &values) {
  if (++steps > maxSteps)
    return fail(op) << "cannot be proved: functions are called more than " << maxSteps
                    << " ops' worth of times";
  if (terms.isExhausted())
    return fail(op) << Terms::exhausted;
  if (auto call = dyn_cast<func::CallOp>(op))
    return runCall(call, values);
  SmallVector<Meaning> operands;
  if (failed(getMeanings(op, values, operands)))
    return failure();
  auto term = dyn_cast<TermOpInterface>(op);
  if (!term)
    return fail(op) << "cannot be proved: it is no op of this stage";
  FailureOr<Meaning> meaning = term.read(ops, operands);
  if (failed(meaning))
    return failure();
  values[op->getResult(0)] = *meaning;
  return success();
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

/// Of copies that are next to each other the first is delivered. They must be copies.
LogicalResult Reader::takeFirst(Operation *op, Copies copies, TermId &term, Type &type) {
  if (copies.times == 1)
    return success();
  Meaning meaning = ops.open(term);
  auto repeat = meaning.repeats.find(copies.dim);
  if (meaning.repeats.size() != 1 || repeat == meaning.repeats.end() ||
      repeat->second.times != copies.times || repeat->second.minor != 1)
    return fail(op) << "delivers one of " << copies.times << " copies along dimension "
                    << copies.dim << " of a value that is not known to consist of such copies";
  term = meaning.term;
  type = removeRepeats(type, meaning.repeats);
  return success();
}

/// An output is complete if each of its parts is delivered: micro-batches without samples are
/// skipped, and replicas without samples take part in none, so an axis of the loop may split the
/// samples and nothing else.
LogicalResult Reader::deliver(OutputOp output, MicroBatchesOp loop, TermId term) {
  uint64_t index = output.getIndex();
  if (index >= program.outputs.size())
    return fail(output) << "delivers output " << index << " of " << program.outputs.size();
  if (Operation *before = program.outputs[index].op) {
    InFlightDiagnostic diag = fail(output) << "delivers output " << index << " again";
    diag.attachNote(before->getLoc()) << "delivered here before";
    return diag;
  }
  Type type = getWholeType(output.getValue().getType());
  if (failed(
          takeFirst(output, getCopies(output->getParentOfType<PipelineOp>(), index), term, type)))
    return failure();
  if (type != program.outputTypes[index])
    return fail(output) << "delivers " << type << " as output " << index << ", which is "
                        << program.outputTypes[index];
  program.outputs[index] = {term, output};

  DimAttr batch = loop.getBatchAttr();
  bool all = interpret::runsEveryRound(loop, GridAttr::lookup(output));
  DistAttr dist = getDist(output.getValue());
  for (DimAttr dim : dist.getDims()) {
    auto check = [&](ArrayRef<StringAttr> axes, FactorAttr factor) -> LogicalResult {
      for (StringAttr axis : axes) {
        if (!batch && axis.getValue() == "mb")
          return fail(output) << "delivers a micro-batch's part of output " << index
                              << ", but the loop around it has one round";
        if (!batch || all || !batch.usesAxis(axis.getValue()))
          continue;
        // What else splits a round's samples leaves nothing of none.
        bool samples = factor && batch.getFactors().size() == 1 && batch.getAxes().empty() &&
                       batch.getExpr() == factor.getExpr() &&
                       axes.take_front(batch.getFactors()[0].getAxes().size()) ==
                           batch.getFactors()[0].getAxes();
        if (!samples)
          return fail(output) << "splits a dimension of output " << index << " over '"
                              << axis.getValue() << "' in another way than the loop splits "
                              << batch << ": rounds without samples are skipped, and their parts "
                              << "would be missing";
      }
      return success();
    };
    for (FactorAttr factor : dim.getFactors())
      if (failed(check(factor.getAxes(), factor)))
        return failure();
    if (failed(check(dim.getAxes(), {})))
      return failure();
  }
  return success();
}

/// Runs a stage until it waits or ends. True if it got on.
FailureOr<bool> Reader::advance(Place &place) {
  bool progress = false;
  while (place.loop < place.loops.size()) {
    MicroBatchesOp loop = place.loops[place.loop];
    Block &body = loop.getBody().front();
    if (place.next == body.end()) {
      if (++place.loop < place.loops.size())
        place.next = place.loops[place.loop].getBody().front().begin();
      continue;
    }
    Operation *op = &*place.next;
    SmallVector<TermId> operands;
    if (failed(getTerms(op, place.values, operands)))
      return failure();
    int64_t here = place.stage.getIndex();
    if (auto recv = dyn_cast<RecvOp>(op)) {
      auto &queue = messages[{recv.getFrom(), here, place.loop}];
      if (queue.empty())
        return progress;
      Message message = queue.front();
      queue.pop_front();
      Type sent = cast<SendOp>(message.send).getValue().getType();
      if (sent != recv.getType()) {
        InFlightDiagnostic diag = fail(recv) << "receives " << recv.getType() << " as "
                                             << "the next value from stage " << recv.getFrom()
                                             << ", which sends " << sent;
        diag.attachNote(message.send->getLoc()) << "sent here";
        return diag;
      }
      place.values[recv.getResult()] = ops.open(message.term);
    } else if (auto send = dyn_cast<SendOp>(op)) {
      messages[{here, send.getTo(), place.loop}].push_back({operands[0], send});
    } else if (auto output = dyn_cast<OutputOp>(op)) {
      if (failed(deliver(output, loop, operands[0])))
        return failure();
    } else if (failed(runOp(op, place.values))) {
      return failure();
    }
    ++place.next;
    progress = true;
  }
  return progress;
}

static std::string describeRounds(DimAttr batch) {
  std::string text = "has one round";
  if (batch) {
    text = "repeats for the parts of ";
    llvm::raw_string_ostream(text) << batch;
  }
  return text;
}

LogicalResult Reader::runPipeline(PipelineOp pipeline) {
  for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>()) {
    auto type = output.getAs<TypeAttr>("type");
    if (!type)
      return fail(pipeline) << "has an output without a type";
    program.outputTypes.push_back(type.getValue());
  }
  program.outputs.resize(program.outputTypes.size(), {-1, nullptr});
  Block &body = pipeline.getBody().front();
  Values inputs;
  for (BlockArgument input : body.getArguments()) {
    program.inputs.push_back(getWholeType(input.getType()));
    inputs[input] = {terms.makeInput(input.getArgNumber(), program.inputs.back())};
  }

  SmallVector<Place> places;
  std::optional<DimAttr> batch;
  for (Operation &op : body) {
    auto stage = dyn_cast<StageOp>(op);
    if (!stage || stage.getIndex() != places.size())
      return fail(&op) << "stands where stage " << places.size() << " should be";
    Place place;
    place.stage = stage;
    place.values = inputs;
    for (Operation &inner : stage.getBody().front()) {
      auto loop = dyn_cast<MicroBatchesOp>(inner);
      if (!loop && isa<SendOp, RecvOp, OutputOp>(inner))
        return fail(&inner) << "is outside of tpc.micro_batches";
      if (!loop && !place.loops.empty())
        return fail(&inner) << "stands behind the rounds: what they share is computed before them";
      // Once, for all rounds: verifyRounds shows that it does not depend on one.
      if (!loop && failed(runOp(&inner, place.values)))
        return failure();
      if (!loop)
        continue;
      if (batch && *batch != loop.getBatchAttr())
        return fail(loop) << describeRounds(loop.getBatchAttr()) << ", but a loop before it "
                          << describeRounds(*batch) << ": their rounds would not pair";
      batch = loop.getBatchAttr();
      place.loops.push_back(loop);
    }
    if (!place.loops.empty())
      place.next = place.loops[0].getBody().front().begin();
    places.push_back(std::move(place));
  }
  bool progress = true;
  while (progress) {
    progress = false;
    for (Place &place : places) {
      FailureOr<bool> moved = advance(place);
      if (failed(moved))
        return failure();
      progress |= *moved;
    }
  }
  for (Place &place : places)
    if (place.loop < place.loops.size())
      return fail(&*place.next) << "waits for a value that stage "
                                << cast<RecvOp>(*place.next).getFrom() << " never sends";
  for (auto &[key, queue] : messages)
    if (!queue.empty())
      return fail(queue.front().send)
             << "sends a value that stage " << std::get<1>(key) << " never receives";
  for (auto [i, output] : llvm::enumerate(program.outputs))
    if (!output.op)
      return fail(pipeline) << "delivers output " << i << " nowhere";
  return success();
}

FailureOr<ProgramTerms> Reader::run() {
  for (auto pipeline : module.getOps<PipelineOp>()) {
    if (failed(runPipeline(pipeline)))
      return failure();
    return std::move(program);
  }
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(module.getLoc()) << "there is no @main to verify";
  SmallVector<Meaning> arguments;
  SmallVector<TermId> results;
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
    program.inputs.push_back(getWholeType(type));
    arguments.push_back({terms.makeInput(i, program.inputs.back())});
  }
  if (failed(runFunction(main, arguments, results)))
    return failure();
  for (auto [value, term] : llvm::zip(main.front().getTerminator()->getOperands(), results)) {
    Operation *op = value.getDefiningOp() ? value.getDefiningOp() : main.getOperation();
    Type type = getWholeType(value.getType());
    TermId delivered = term;
    if (failed(takeFirst(op, getCopies(main, program.outputTypes.size()), delivered, type)))
      return failure();
    program.outputTypes.push_back(type);
    program.outputs.push_back({delivered, op});
  }
  return std::move(program);
}

} // namespace

FailureOr<ProgramTerms> equivalence::readProgram(ModuleOp module, Terms &terms) {
  return Reader(module, terms).run();
}
