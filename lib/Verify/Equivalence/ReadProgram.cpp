//===- ReadProgram.cpp - Conversion of programs to terms ------------------===//

#include "../Interpret/World.h"
#include "TermReader.h"

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/HeadReplication.h"

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
  using Values = DenseMap<Value, RepeatedTerm>;
  /// A value in flight to another stage.
  struct Message {
    TermId term;
    Operation *send;
  };
  /// Progress of one stage. Stages run alternately until they wait for a message.
  struct StageState {
    StageOp stage;
    SmallVector<MicroBatchesOp> loops;
    size_t loop = 0;
    Block::iterator next;
    Values values;
    std::map<int64_t, TermId> sums; // over micro-batches, by index
  };

  LogicalResult runFunction(func::FuncOp function, ArrayRef<RepeatedTerm> arguments,
                            SmallVectorImpl<TermId> &results);
  LogicalResult getRepeatedTerms(Operation *op, const Values &values,
                                 SmallVectorImpl<RepeatedTerm> &repeatedTerms);
  LogicalResult getTerms(Operation *op, const Values &values, SmallVectorImpl<TermId> &terms);
  LogicalResult runCall(func::CallOp call, Values &values);
  LogicalResult runOp(Operation *op, Values &values);
  LogicalResult runPipeline(PipelineOp pipeline);
  FailureOr<bool> advance(StageState &state);
  LogicalResult takeFirst(Operation *op, Copies copies, TermId &term, Type &type);
  LogicalResult deliver(OutputOp output, MicroBatchesOp loop, TermId term);

  ModuleOp module;
  Terms &terms;
  TermReader ops;
  ProgramTerms program;
  /// Terms of layer bodies over variables, by function and by the pattern of equal and repeated
  /// arguments.
  std::map<std::pair<Operation *, std::string>, SmallVector<TermId>> layers;
  DenseSet<Operation *> running;
  static constexpr int64_t maxSteps = 1 << 21;
  static constexpr size_t maxDepth = 512;
  int64_t steps = 0;
  std::map<std::tuple<int64_t, int64_t, size_t>, std::deque<Message>> messages; // from, to, loop
  /// Whether the pipeline has a schedule. The messages of a channel then pair in the order of the
  /// chunks, which tpc-verify-comms checks, and the last element of their key is 0.
  bool hasSchedule = false;
};

/// Appends the terms of an op's operands to `repeatedTerms`. Emits an error if the op precedes the
/// definition of an operand, because the program is untrusted.
LogicalResult Reader::getRepeatedTerms(Operation *op, const Values &values,
                                       SmallVectorImpl<RepeatedTerm> &repeatedTerms) {
  for (Value operand : op->getOperands()) {
    auto it = values.find(operand);
    if (it == values.end())
      return fail(op) << "takes a value that is not computed before";
    repeatedTerms.push_back(it->second);
  }
  return success();
}

LogicalResult Reader::getTerms(Operation *op, const Values &values,
                               SmallVectorImpl<TermId> &terms) {
  SmallVector<RepeatedTerm> repeatedTerms;
  if (failed(getRepeatedTerms(op, values, repeatedTerms)))
    return failure();
  for (auto [repeated, operand] : llvm::zip(repeatedTerms, op->getOperands()))
    terms.push_back(ops.complete(repeated, operand, op));
  return success();
}

LogicalResult Reader::runFunction(func::FuncOp function, ArrayRef<RepeatedTerm> arguments,
                                  SmallVectorImpl<TermId> &results) {
  if (!running.insert(function).second)
    return fail(function) << "calls itself";
  if (running.size() > maxDepth)
    return fail(function) << "cannot be proved: more than " << maxDepth << " calls are nested here";
  Values values;
  for (auto [argument, repeated] : llvm::zip(function.getArguments(), arguments))
    values[argument] = repeated;
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
    return fail(call) << "calls @" << call.getCallee() << ", whose signature does not match";
  SmallVector<RepeatedTerm> arguments;
  if (failed(getRepeatedTerms(call, values, arguments)))
    return failure();
  if (!callee->hasAttr(kLayerAttr)) {
    SmallVector<TermId> results;
    if (failed(runFunction(callee, arguments, results)))
      return failure();
    for (auto [result, term] : llvm::zip(call.getResults(), results))
      values[result] = ops.splitRepetition(term);
    return success();
  }
  // Equal arguments share a variable, because a partitioned program has an argument for each use of
  // a weight.
  std::string pattern;
  SmallVector<TermId> operands;
  SmallVector<unsigned> variableOf;
  DenseMap<TermId, unsigned> variables;
  for (const RepeatedTerm &argument : arguments) {
    auto [known, first] = variables.try_emplace(argument.term, operands.size());
    variableOf.push_back(known->second);
    if (first)
      operands.push_back(argument.term);
    pattern += std::to_string(variableOf.back()) + toText(argument.repeats) + "; ";
  }
  auto [it, first] = layers.try_emplace({callee, pattern});
  if (first) {
    SmallVector<RepeatedTerm> variables;
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
    // If the body's term is a repetition, the call has a repeated result.
    RepeatedTerm repeated = ops.splitRepetition(body);
    values[result] = {terms.makeCall(repeated.term, operands, call), repeated.repeats};
  }
  return success();
}

LogicalResult Reader::runOp(Operation *op, Values &values) {
  if (++steps > maxSteps)
    return fail(op) << "cannot be proved: calls expand to more than " << maxSteps << " ops";
  if (terms.isExhausted())
    return fail(op) << Terms::exhausted;
  if (auto call = dyn_cast<func::CallOp>(op))
    return runCall(call, values);
  SmallVector<RepeatedTerm> operands;
  if (failed(getRepeatedTerms(op, values, operands)))
    return failure();
  auto term = dyn_cast<TermOpInterface>(op);
  if (!term)
    return fail(op) << "cannot be proved: this op is not allowed at this level";
  FailureOr<RepeatedTerm> repeated = term.read(ops, operands);
  if (failed(repeated))
    return failure();
  values[op->getResult(0)] = *repeated;
  return success();
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

/// Replaces `term` by the first of the adjacent copies, because only that copy is delivered. Checks
/// that the copies are equal.
LogicalResult Reader::takeFirst(Operation *op, Copies copies, TermId &term, Type &type) {
  if (copies.times == 1)
    return success();
  RepeatedTerm repeated = ops.splitRepetition(term);
  auto repeat = repeated.repeats.find(copies.dim);
  if (repeated.repeats.size() != 1 || repeat == repeated.repeats.end() ||
      repeat->second.times != copies.times || repeat->second.minor != 1)
    return fail(op) << "delivers one of " << copies.times << " copies along dimension "
                    << copies.dim << " of a value that is not known to consist of such copies";
  term = repeated.term;
  type = removeRepeats(type, repeated.repeats);
  return success();
}

/// Records an output, and checks that all of its slices are delivered. Micro-batches and replicas
/// without samples are skipped, so the axes of the loop may split only the samples.
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
  bool all = interpret::runsEveryMicroBatch(loop, MeshAttr::lookup(output));
  DistAttr dist = getDist(output.getValue());
  for (DimAttr dim : dist.getDims()) {
    auto check = [&](ArrayRef<StringAttr> axes, FactorAttr factor) -> LogicalResult {
      for (StringAttr axis : axes) {
        if (!batch && axis.getValue() == kMicroBatchAxis)
          return fail(output) << "delivers a micro-batch's part of output " << index
                              << ", but the loop around it has one iteration";
        if (!batch || all || !batch.usesAxis(axis.getValue()))
          continue;
        // An iteration without samples has no elements, whatever the other factors are.
        bool samples = factor && batch.getFactors().size() == 1 && batch.getAxes().empty() &&
                       batch.getExpr() == factor.getExpr() &&
                       axes.take_front(batch.getFactors()[0].getAxes().size()) ==
                           batch.getFactors()[0].getAxes();
        if (!samples)
          return fail(output) << "splits a dimension of output " << index << " over '"
                              << axis.getValue() << "' in another way than the loop splits "
                              << batch << ": iterations without samples are skipped, and their "
                              << "parts would be missing";
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

/// Runs a stage until it waits for a message or ends. Returns whether the stage ran any op.
FailureOr<bool> Reader::advance(StageState &state) {
  bool progress = false;
  while (state.loop < state.loops.size()) {
    MicroBatchesOp loop = state.loops[state.loop];
    Block &body = loop.getBody().front();
    if (state.next == body.end()) {
      if (++state.loop < state.loops.size())
        state.next = state.loops[state.loop].getBody().front().begin();
      continue;
    }
    Operation *op = &*state.next;
    SmallVector<TermId> operands;
    if (failed(getTerms(op, state.values, operands)))
      return failure();
    int64_t here = state.stage.getIndex();
    if (auto recv = dyn_cast<RecvOp>(op)) {
      auto &queue = messages[{recv.getFrom(), here, hasSchedule ? 0 : state.loop}];
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
      state.values[recv.getResult()] = ops.splitRepetition(message.term);
    } else if (auto send = dyn_cast<SendOp>(op)) {
      messages[{here, send.getTo(), hasSchedule ? 0 : state.loop}].push_back({operands[0], send});
    } else if (auto output = dyn_cast<OutputOp>(op)) {
      if (failed(deliver(output, loop, operands[0])))
        return failure();
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      state.sums[accumulate.getIndex()] = operands[0];
    } else if (auto sum = dyn_cast<AccumulatedOp>(op)) {
      // RelationChecker proves that the sum of the parts is the global value.
      auto source = state.sums.find(sum.getIndex());
      if (source == state.sums.end())
        return fail(sum) << "reads sum " << sum.getIndex() << ", to which no loop before it adds";
      state.values[sum.getResult()] = ops.splitRepetition(source->second);
    } else if (failed(runOp(op, state.values))) {
      return failure();
    }
    ++state.next;
    progress = true;
  }
  return progress;
}

static std::string describeIterations(DimAttr batch) {
  std::string text = "has one iteration";
  if (batch) {
    text = "iterates over the parts of ";
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
  hasSchedule = bool(pipeline.getScheduleAttr());
  Block &body = pipeline.getBody().front();
  Values inputs;
  for (BlockArgument input : body.getArguments()) {
    program.inputs.push_back(getWholeType(input.getType()));
    inputs[input] = {terms.makeInput(input.getArgNumber(), program.inputs.back())};
  }

  SmallVector<StageState> states;
  std::optional<DimAttr> batch;
  for (Operation &op : body) {
    auto stage = dyn_cast<StageOp>(op);
    if (!stage || stage.getIndex() != states.size())
      return fail(&op) << "must be stage " << states.size();
    StageState state;
    state.stage = stage;
    state.values = inputs;
    for (Operation &inner : stage.getBody().front()) {
      auto loop = dyn_cast<MicroBatchesOp>(inner);
      if (!loop && isa<SendOp, RecvOp, OutputOp>(inner))
        return fail(&inner) << "is outside of tpc.micro_batches";
      if (!loop && !state.loops.empty())
        return fail(&inner) << "is after the micro-batch loops: move values that iterations share "
                            << "before them";
      // Read once for all iterations. verifyOutsideOfMicroBatches proves that the value does not
      // depend on the iteration.
      if (!loop && failed(runOp(&inner, state.values)))
        return failure();
      if (!loop)
        continue;
      // A loop that exchanges no messages pairs with no other.
      state.loops.push_back(loop);
      if (loop.getBody().getOps<SendOp>().empty() && loop.getBody().getOps<RecvOp>().empty() &&
          state.loops.size() > 1)
        continue;
      if (batch && *batch != loop.getBatchAttr())
        return fail(loop) << describeIterations(loop.getBatchAttr()) << ", but a loop before it "
                          << describeIterations(*batch) << ": their iterations would not pair";
      batch = loop.getBatchAttr();
    }
    if (!state.loops.empty())
      state.next = state.loops[0].getBody().front().begin();
    states.push_back(std::move(state));
  }
  bool progress = true;
  while (progress) {
    progress = false;
    for (StageState &state : states) {
      FailureOr<bool> moved = advance(state);
      if (failed(moved))
        return failure();
      progress |= *moved;
    }
  }
  for (StageState &state : states)
    if (state.loop < state.loops.size())
      return fail(&*state.next) << "waits for a value that stage "
                                << cast<RecvOp>(*state.next).getFrom() << " never sends";
  for (auto &[key, queue] : messages)
    if (!queue.empty())
      return fail(queue.front().send)
             << "sends a value that stage " << std::get<1>(key) << " never receives";
  for (auto [i, output] : llvm::enumerate(program.outputs))
    if (!output.op)
      return fail(pipeline) << "does not deliver output " << i;
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
  SmallVector<RepeatedTerm> arguments;
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
