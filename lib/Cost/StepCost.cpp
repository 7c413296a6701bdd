//===- StepCost.cpp - Seconds of a step of a compiled program -------------===//

#include "tpc/Cost/StepCost.h"

#include "tpc/Buffer/Accumulate.h"
#include "tpc/Buffer/Async.h"
#include "tpc/Buffer/Training.h"
#include "tpc/Dialect/Experts.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Machine;

/// From this number of queries on, attention is limited by operations.
static constexpr int64_t manyQueries = 8;

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

Seconds &Seconds::operator+=(const Seconds &o) {
  compute += o.compute;
  memory += o.memory;
  launch += o.launch;
  tensor += o.tensor;
  pipeline += o.pipeline;
  return *this;
}

Seconds Seconds::operator*(double factor) const {
  return {compute * factor, memory * factor, launch * factor, tensor * factor, pipeline * factor};
}

std::array<double, 5> mlir::tpc::getCauses(const Seconds &s) {
  return {s.compute, s.memory, s.launch, s.tensor, s.pipeline};
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static std::vector<LoweredProgram::TimedOp> collectTimedOps(Block &block) {
  std::vector<LoweredProgram::TimedOp> timed;
  bool isOrdered = !block.getOps<buffer::AllReduceStartOp>().empty();
  DenseMap<Attribute, size_t> calls; // position, by callee
  for (Operation &op : block) {
    // Other ops with results only name memory.
    bool takesTime = op.getNumResults() == 0 || isa<buffer::AllReduceStartOp>(op);
    if (isa<buffer::MicroBatchesOp>(op) || !takesTime)
      continue;
    auto call = dyn_cast<buffer::CallOp>(op);
    if (!call || isOrdered) {
      timed.push_back({&op, 1});
      continue;
    }
    auto [it, isNew] = calls.try_emplace(call.getCalleeAttr(), timed.size());
    if (isNew)
      timed.push_back({&op, 1});
    else
      ++timed[it->second].count;
  }
  return timed;
}

LoweredProgram::LoweredProgram(ModuleOp lowered) {
  for (auto function : lowered.getOps<buffer::FuncOp>()) {
    functions[function.getSymName()] = function;
    if (function.getStage())
      stages.push_back(function);
    function.walk([&](Block *block) { timedOps[block] = collectTimedOps(*block); });
  }
  lowered.walk([&](MoeOp moe) { topK = std::max(topK, int64_t(moe.getTopK())); });
}

StepEstimator::StepEstimator(const LoweredProgram &program, MeshAttr grid, const Symbols &symbols,
                             const Machine &machine, int64_t copies)
    : program(program), grid(grid), values(grid, symbols), machine(machine), copies(copies) {
  threads = machine.getThreads(grid.getWorldSize() * copies);
}

double StepEstimator::getBytes(Value buffer) {
  return double(evaluate(buffer::getExtent(buffer).getBytes()));
}

/// Whether a buffer is (part of) a cache, which kernels read or write in part.
bool StepEstimator::isCache(Value buffer) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (isa<buffer::StateOp>(op))
      return true;
    if (!isa<buffer::PartOp, buffer::ColumnsOp>(op))
      return false;
    buffer = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(buffer);
  auto function = dyn_cast<buffer::FuncOp>(argument.getOwner()->getParentOp());
  if (!function || argument.getArgNumber() >= function.getArgs().size())
    return false;
  return bool(cast<buffer::ArgumentAttr>(function.getArgs()[argument.getArgNumber()]).getResult());
}

/// Divides the time of one call among causes.
Seconds StepEstimator::split(double seconds, bool isCompute) const {
  Seconds result;
  result.launch = std::min(machine.launch, seconds);
  (isCompute ? result.compute : result.memory) = seconds - result.launch;
  return result;
}

static std::string getTypeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

Seconds StepEstimator::addMatmul(Type element, int64_t m, int64_t n, int64_t k,
                                 int64_t weightBits) {
  if (m == 0 || n == 0 || k == 0)
    return {};
  std::string type = getTypeName(element);
  const ::tpc::MatmulTable *table = machine.getMatmuls(type, threads);
  if (!table) {
    fail("matmuls of " + type + "; it has " + machine.listTypes());
    return {};
  }
  ::tpc::MatmulTable::Time time = table->at(m, n, k, double(weightBits) / 8);
  count(time.extrapolates);
  return split(time.seconds, time.isCompute);
}

Seconds StepEstimator::addKernel(double bytes) {
  if (bytes <= 0)
    return {};
  const ::tpc::Curve *curve = machine.getKernels(threads);
  if (!curve) {
    fail("kernels");
    return {};
  }
  count(curve->extrapolates(bytes));
  return split(curve->at(bytes), /*isCompute=*/false);
}

StepEstimator::OpCost &StepEstimator::OpCost::operator+=(const OpCost &o) {
  seconds += o.seconds;
  work.flops += o.work.flops;
  work.weightBytes += o.work.weightBytes;
  message += o.message;
  return *this;
}

StepEstimator::OpCost StepEstimator::OpCost::operator*(double factor) const {
  OpCost cost;
  cost.seconds = seconds * factor;
  cost.work = {work.flops * factor, work.weightBytes * factor};
  cost.message = message * factor;
  return cost;
}

/// Matmuls whose results are columns of one buffer are one matmul.
StepEstimator::OpCost StepEstimator::visitProduct(buffer::ProductOp op) {
  int64_t m = evaluate(op.getM()), k = evaluate(op.getK()), merged = 0, all = 0;
  Type element = buffer::getExtent(op.getX()).getElement();
  OpCost cost;
  for (buffer::ProductOp::Matmul part : op.getMatmuls()) {
    int64_t n = evaluate(part.n.getExpr());
    all += n;
    if (part.to.getDefiningOp<buffer::ColumnsOp>())
      merged += n;
    else
      cost.seconds += addMatmul(element, m, n, k);
  }
  cost.seconds += addMatmul(element, m, merged, k);
  double weights = double(k) * double(all);
  cost.work = {2 * double(m) * weights, weights * element.getIntOrFloatBitWidth() / 8};
  return cost;
}

/// A matmul of unpacked weights, except that it reads the packed weights. Scales are not counted.
StepEstimator::OpCost StepEstimator::visitQuantizedProduct(buffer::QuantizedProductOp op) {
  int64_t m = evaluate(op.getM()), n = evaluate(op.getN()), k = evaluate(op.getK());
  OpCost cost;
  cost.seconds = addMatmul(buffer::getExtent(op.getX()).getElement(), m, n, k, op.getBits());
  double weights = double(k) * double(n);
  cost.work = {2 * double(m) * weights, weights * double(op.getBits()) / 8};
  return cost;
}

/// Matmuls of the experts that tokens select. If t tokens select k experts each, and all experts
/// equally often, ceil(t * k * experts / all) rows are for this rank's experts, which compute them
/// in turn.
StepEstimator::OpCost StepEstimator::visitExperts(buffer::ExpertsOp op) {
  int64_t tokens = evaluate(op.getTokens()), experts = evaluate(op.getExperts());
  int64_t all = std::max<int64_t>(1, evaluate(op.getAll())), topK = program.topK;
  double selected = double(tokens * std::min(topK, all)) * double(experts) / double(all);
  int64_t rows = (tokens * std::min(topK, all) * experts + all - 1) / all;
  int64_t active = std::min(experts, rows);
  if (expertLoad) {
    selected = double(tokens) * expertLoad->selectedPerToken;
    rows = int64_t(std::ceil(selected));
    active = std::min(rows, int64_t(std::ceil(expertLoad->activeExperts)));
  }
  OpCost cost;
  if (active == 0)
    return cost;
  rows = (rows + active - 1) / active;
  int64_t hidden = evaluate(op.getHidden()), inner = evaluate(op.getInner());
  int64_t outputs = evaluate(op.getOutputs()), matrices = op.getGate() ? 2 : 1;
  Type element = Float32Type::get(op.getContext());
  cost.seconds = addMatmul(element, rows, matrices * inner, hidden) * double(active);
  cost.seconds += addMatmul(element, rows, outputs, inner) * double(active);
  double weights = double(inner) * double(matrices * hidden + outputs);
  double bytes = buffer::getExtent(op.getUp()).getElement().getIntOrFloatBitWidth() / 8;
  cost.work = {2 * selected * weights, bytes * double(active) * weights};
  return cost;
}

Seconds StepEstimator::visitAttention(buffer::AttentionOp op) {
  Type element = buffer::getExtent(op.getQ()).getElement();
  const ::tpc::AttentionTable *table = machine.getAttention(getTypeName(element), threads);
  if (!table) {
    fail("attention of " + getTypeName(element));
    return {};
  }
  int64_t queries = evaluate(op.getQueries()), keys = evaluate(op.getKeys());
  double batch = double(evaluate(op.getBatch()));
  double size = double(evaluate(op.getHeadSize()) + evaluate(op.getValueSize()));
  bool isMany = queries >= manyQueries;
  if (isMany && op.getLengths())
    keys = std::min(keys, queries); // the first chunk of a prompt
  else if (validKeys > 0 && op.getLengths())
    keys = std::min(keys, validKeys);
  double heads = double(evaluate(isMany ? op.getHeads() : op.getKvHeads()));
  double pairs = batch * heads * double(keys) * size;
  double amount =
      isMany ? 2 * double(queries) * pairs : pairs * element.getIntOrFloatBitWidth() / 8;
  if (amount * double(queries) == 0)
    return {};
  const ::tpc::Curve &curve = isMany ? table->many : table->few;
  count(curve.extrapolates(amount));
  return split(curve.at(amount), /*isCompute=*/isMany);
}

/// Counts only the rows of the result of a table, and only the new tokens of a cache.
Seconds StepEstimator::visitLaunch(buffer::LaunchOp op) {
  auto isTable = [&](Value buffer) {
    return buffer.getDefiningOp<buffer::DenseOp>() || isCache(buffer);
  };
  double written = 0, read = 0;
  for (Value buffer : op.getWrites())
    written += isCache(buffer) ? 0 : getBytes(buffer);
  for (Value buffer : op.getReads())
    read += isTable(buffer) ? 0 : getBytes(buffer);
  double bytes = written + read;
  for (Value buffer : op.getReads())
    if (isTable(buffer))
      bytes += std::min(getBytes(buffer), std::max(written, read));
  for (Value buffer : op.getWrites())
    if (isCache(buffer))
      bytes += std::min(getBytes(buffer), read);
  return addKernel(bytes);
}

/// Returns the cost of an op that is one call of the runtime.
StepEstimator::OpCost StepEstimator::visitCall(Operation &op) {
  OpCost cost;
  if (auto product = dyn_cast<buffer::ProductOp>(op))
    return visitProduct(product);
  if (auto product = dyn_cast<buffer::BatchProductOp>(op)) {
    // One call: the rows of all matrices count as rows of one matmul.
    cost.seconds = addMatmul(buffer::getExtent(product.getA()).getElement(),
                             evaluate(product.getBatch()) * evaluate(product.getM()),
                             evaluate(product.getN()), evaluate(product.getK()));
  } else if (auto product = dyn_cast<buffer::QuantizedProductOp>(op)) {
    return visitQuantizedProduct(product);
  } else if (auto experts = dyn_cast<buffer::ExpertsOp>(op)) {
    return visitExperts(experts);
  } else if (auto attention = dyn_cast<buffer::AttentionOp>(op)) {
    cost.seconds = visitAttention(attention);
  } else if (auto grad = dyn_cast<buffer::AttentionGradOp>(op)) {
    // Matmuls of scores, dq and dk, and of dv and the cotangents of probabilities.
    Type element = buffer::getExtent(grad.getQ()).getElement();
    int64_t keys = evaluate(grad.getKeys()),
            rows =
                evaluate(grad.getBatch()) * evaluate(grad.getHeads()) * evaluate(grad.getQueries());
    cost.seconds = addMatmul(element, rows, keys, evaluate(grad.getHeadSize())) * 3.0;
    cost.seconds += addMatmul(element, rows, keys, evaluate(grad.getValueSize())) * 2.0;
  } else if (auto launch = dyn_cast<buffer::LaunchOp>(op)) {
    cost.seconds = visitLaunch(launch);
  } else if (auto copy = dyn_cast<buffer::CopyOp>(op)) {
    cost.seconds = addKernel(2 * double(evaluate(copy.getBytes())));
  } else if (auto accumulate = dyn_cast<buffer::AccumulateOp>(op)) {
    cost.seconds = addKernel(3 * getBytes(accumulate.getFrom()));
  } else if (auto append = dyn_cast<buffer::AppendOp>(op)) {
    cost.seconds = addKernel(2 * getBytes(append.getFrom()));
  } else {
    cost = visitCommunication(op);
  }
  return cost;
}

StepEstimator::OpCost StepEstimator::visit(Operation &op) {
  if (auto call = dyn_cast<buffer::CallOp>(op)) {
    buffer::FuncOp callee = program.functions.lookup(call.getCallee());
    auto [it, isNew] = functions.try_emplace(callee);
    if (!isNew)
      return it->second;
    OpCost cost = visitBlock(callee.getBody().front());
    functions[callee] = cost;
    return cost;
  }
  if (op.getNumRegions() == 0)
    return visitCall(op);
  OpCost cost;
  for (Region &region : op.getRegions())
    for (Block &block : region)
      cost += visitBlock(block);
  return cost;
}

/// Asynchronous collectives run one after another, next to the calls of the block. A wait takes the
/// time until the end of its collective.
StepEstimator::OpCost StepEstimator::visitBlock(Block &block) {
  OpCost cost;
  double end = 0; // of the last asynchronous collective
  DenseMap<Value, double> ends;
  for (auto [op, count] : program.timedOps.find(&block)->second) {
    double now = cost.seconds.total();
    if (auto start = dyn_cast<buffer::AllReduceStartOp>(op)) {
      end = std::max(end, now) + visitCall(*op).seconds.tensor;
      ends[start.getToken()] = end;
    } else if (auto wait = dyn_cast<buffer::WaitOp>(op)) {
      cost.seconds.tensor += std::max(0.0, ends.lookup(wait.getToken()) - now);
    } else {
      cost += count == 1 ? visit(*op) : visit(*op) * double(count);
    }
  }
  return cost;
}
