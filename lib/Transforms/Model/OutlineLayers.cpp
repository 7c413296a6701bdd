//===- OutlineLayers.cpp - Outlining of repeated layers -------------------===//
//
// 1. Values are classified as activations (values that depend on an embedding of tokens or on the
//    model's floating-point input), parameters, and context (values that depend only on masks,
//    positions, shapes and constants).
// 2. Ops that compute activations are ordered so that the producers of an op come right before it
//    (post-order from the results). The sequence is cut wherever exactly one activation is live:
//    after the residual additions.
// 3. Segments between cuts that differ only in their parameters get the same symbol. The most
//    frequent pair of neighbors repeatedly becomes a new symbol: [attention][mlp][attention][mlp]
//    becomes [layer][layer]. Equal neighbors are not merged, nor are two segments that both mix
//    tokens: each layer mixes tokens once, so alternating kinds of layers stay separate.
// 4. A segment that occurs more than once and contains a matmul becomes a function.
//
//===----------------------------------------------------------------------===//

#include "Activations.h"
#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_OUTLINELAYERS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Consecutive ops of the order, from one cut to the next.
struct Segment {
  SmallVector<Operation *> ops;
  int symbol = 0;
};

/// Operands and results of a segment.
struct SegmentInterface {
  Value input;                    // live activation; may be null
  llvm::SetVector<Value> context; // context and other activations among the arguments
  llvm::SetVector<Value> parameters;
  SmallVector<Value> results;
};

class LayerFinder {
public:
  LayerFinder(func::FuncOp main)
      : main(main), block(main.getBody().front()), activations(findActivations(main)) {}

  /// Cuts and compares segments; returns false if nothing repeats.
  bool run();
  SmallVector<Segment> segments;
  /// Symbols that become functions.
  llvm::SetVector<int> layers;
  SegmentInterface interfaceOf(const Segment &segment);
  void markActivation(Value v) { activations.insert(v); }

private:
  void order();
  void cut();
  void compare();
  void mergeNeighbors();
  bool isActivation(Value v) const { return activations.contains(v); }
  std::string describe(const Segment &segment);

  func::FuncOp main;
  Block &block;
  llvm::DenseSet<Value> activations;
  SmallVector<Operation *> sequence;
  llvm::DenseMap<Operation *, int> position;
  llvm::SmallDenseSet<int> mixing; // symbols of segments that mix tokens
};

} // namespace

// Computes the post-order from the results, without recursion, because graphs are as deep as
// models. Ops that are needed only by secondary results (such as keys and values packed into one
// cache) are placed right after their operands, because they belong to the same layer.
void LayerFinder::order() {
  llvm::DenseSet<Operation *> seen;
  SmallVector<std::pair<Operation *, unsigned>> stack;
  SmallVector<size_t> begins; // per result: begin of its ops in the sequence
  Operation *end = block.getTerminator();
  stack.push_back({end, 0});
  while (!stack.empty()) {
    auto &[op, next] = stack.back();
    if (op == end)
      begins.push_back(sequence.size());
    if (next == op->getNumOperands()) {
      if (op != end)
        sequence.push_back(op);
      stack.pop_back();
      continue;
    }
    Value operand = op->getOperand(next++);
    Operation *def = operand.getDefiningOp();
    if (def && isActivation(operand) && seen.insert(def).second)
      stack.push_back({def, 0});
  }
  // The main result is the one with the most ops.
  size_t secondaryBegin = 0, maxCount = 0;
  for (size_t i = 0; i + 1 < begins.size(); ++i)
    if (size_t count = begins[i + 1] - begins[i]; count > maxCount) {
      maxCount = count;
      secondaryBegin = begins[i + 1];
    }
  for (auto [i, op] : llvm::enumerate(sequence)) {
    int orderKey = i;
    if (i >= secondaryBegin) {
      orderKey = -1;
      for (Value operand : op->getOperands())
        if (auto it = position.find(operand.getDefiningOp()); it != position.end())
          orderKey = std::max(orderKey, it->second);
    }
    position[op] = orderKey;
  }
  llvm::stable_sort(sequence,
                    [&](Operation *a, Operation *b) { return position.at(a) < position.at(b); });
  for (auto [i, op] : llvm::enumerate(sequence))
    position[op] = i;
}

// Position p is a cut if the value at p is used later, and no earlier value is used after p. Uses
// as results of the model are ignored, because a segment may have several results.
void LayerFinder::cut() {
  int lastUse = -1; // position of the last use of any earlier value
  for (BlockArgument arg : block.getArguments())
    if (isActivation(arg))
      for (Operation *user : arg.getUsers())
        if (auto it = position.find(user); it != position.end())
          lastUse = std::max(lastUse, it->second);
  segments.emplace_back();
  for (auto [i, op] : llvm::enumerate(sequence)) {
    segments.back().ops.push_back(op);
    int last = -1;
    for (Operation *user : op->getUsers())
      if (auto it = position.find(user); it != position.end())
        last = std::max(last, it->second);
    bool isCut = lastUse <= (int)i && op->getNumResults() == 1;
    lastUse = std::max(lastUse, last);
    if (isCut && i + 1 < sequence.size())
      segments.emplace_back();
  }
}

SegmentInterface LayerFinder::interfaceOf(const Segment &segment) {
  llvm::DenseSet<Operation *> inside(segment.ops.begin(), segment.ops.end());
  SegmentInterface result;
  for (Operation *op : segment.ops) {
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if ((def && inside.contains(def)) || (def && isa<ConstantOp>(def)))
        continue;
      if (def && isa<ParameterOp>(def))
        result.parameters.insert(operand);
      else if (isActivation(operand) && (!result.input || result.input == operand))
        result.input = operand;
      else
        result.context.insert(operand);
    }
    for (Value v : op->getResults())
      if (llvm::any_of(v.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        result.results.push_back(v);
  }
  return result;
}

/// Returns the fused locations of all ops in order, which identify the source nodes.
static Location getLoc(const Segment &segment) {
  SmallVector<Location> locs;
  for (Operation *op : segment.ops)
    locs.push_back(op->getLoc());
  return FusedLoc::get(segment.ops.front()->getContext(), locs);
}

/// Names of the source nodes of each op.
using NodeNames = SmallVector<SmallVector<std::string>>;

static NodeNames getNodeNames(const Segment &segment) {
  NodeNames names(segment.ops.size());
  for (auto [op, list] : llvm::zip(segment.ops, names))
    collectNodeNames(op->getLoc(), list);
  return names;
}

/// Returns the pipeline stage of the annotated ops; null if no op is annotated. If ops have
/// different stages, returns the stages of the source nodes `names` of the function's ops, one per
/// op.
static Attribute getStage(const Segment &segment, const NodeNames &names) {
  Attribute stage;
  bool same = true;
  llvm::MapVector<StringRef, Attribute> stageOf;
  for (auto [op, list] : llvm::zip(segment.ops, names))
    if (auto other = op->getAttrOfType<IntegerAttr>(kPipelineStageAttr)) {
      same &= !stage || stage == other;
      stage = other;
      for (const std::string &name : list)
        stageOf[name] = other;
    }
  if (same)
    return stage;
  Builder builder(stage.getContext());
  SmallVector<Attribute> stages;
  for (auto [name, of] : stageOf)
    stages.push_back(
        builder.getDictionaryAttr({builder.getNamedAttr("node", builder.getStringAttr(name)),
                                   builder.getNamedAttr("stage", of)}));
  return stages.empty() ? stage : builder.getArrayAttr(stages);
}

/// Returns a text that is equal for segments of the same function. Attributes and types are unique
/// in their context, so their addresses identify them.
std::string LayerFinder::describe(const Segment &segment) {
  std::string text;
  llvm::raw_string_ostream os(text);
  SegmentInterface interface = interfaceOf(segment);
  llvm::DenseMap<Value, std::string> names;
  auto external = [&](Value v, StringRef prefix, size_t i) {
    names[v] = (prefix + Twine(i)).str();
    os << names[v] << ":" << v.getType().getAsOpaquePointer() << " ";
  };
  if (interface.input)
    external(interface.input, "x", 0);
  for (auto [i, v] : llvm::enumerate(interface.context))
    external(v, "c", i);
  for (auto [i, v] : llvm::enumerate(interface.parameters))
    external(v, "p", i);
  // The pipeline stage does not distinguish layers.
  for (auto [i, op] : llvm::enumerate(segment.ops)) {
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.erase(kPipelineStageAttr);
    os << "\n" << op->getName() << attributes.getDictionary(op->getContext()).getAsOpaquePointer();
    for (Value v : op->getOperands()) {
      auto constant = v.getDefiningOp<ConstantOp>();
      if (constant && !names.count(v))
        os << " k" << constant.getValue().getAsOpaquePointer();
      else
        os << " " << names[v];
    }
    for (auto [k, v] : llvm::enumerate(op->getResults())) {
      names[v] = (Twine(i) + "." + Twine(k)).str();
      os << " ->" << v.getType().getAsOpaquePointer();
    }
  }
  for (Value v : interface.results)
    os << " result " << names[v];
  return text;
}

void LayerFinder::compare() {
  std::map<std::string, int> symbols;
  for (Segment &segment : segments) {
    segment.symbol = symbols.insert({describe(segment), symbols.size()}).first->second;
    for (Operation *op : segment.ops)
      if (isa<AttentionOp, SoftmaxOp>(op))
        mixing.insert(segment.symbol);
  }
}

void LayerFinder::mergeNeighbors() {
  int nextSymbol = segments.size();
  // Each iteration merges at least two pairs of segments, so the loop terminates.
  while (true) {
    llvm::MapVector<std::pair<int, int>, int> counts;
    for (size_t i = 0; i + 1 < segments.size(); ++i) {
      int a = segments[i].symbol, b = segments[i + 1].symbol;
      if (a != b && !(mixing.contains(a) && mixing.contains(b)))
        ++counts[{a, b}];
    }
    std::pair<int, int> best;
    int maxCount = 1;
    for (auto [pair, count] : counts)
      if (count > maxCount) {
        best = pair;
        maxCount = count;
      }
    if (maxCount < 2)
      return;
    SmallVector<Segment> joined;
    for (size_t i = 0; i < segments.size(); ++i) {
      joined.push_back(segments[i]);
      if (i + 1 < segments.size() && segments[i].symbol == best.first &&
          segments[i + 1].symbol == best.second) {
        llvm::append_range(joined.back().ops, segments[i + 1].ops);
        joined.back().symbol = nextSymbol;
        ++i;
      }
    }
    if (mixing.contains(best.first) || mixing.contains(best.second))
      mixing.insert(nextSymbol);
    ++nextSymbol;
    segments = joined;
  }
}

bool LayerFinder::run() {
  order();
  if (sequence.empty())
    return false;
  cut();
  compare();
  mergeNeighbors();
  // Merged segments with the same symbol have equal parts, but may still differ: in one, two parts
  // may use the same parameter. So the whole texts are compared.
  std::map<std::string, int> symbolOf;
  llvm::MapVector<int, int> counts;
  for (Segment &segment : segments) {
    segment.symbol = symbolOf.insert({describe(segment), symbolOf.size()}).first->second;
    ++counts[segment.symbol];
  }
  // A segment is an incomplete layer if each occurrence has a neighbor of the other kind (mixing
  // tokens or not) that occurs only once.
  auto contains = [](const Segment &segment, auto test) { return llvm::any_of(segment.ops, test); };
  auto isMatmul = [](Operation *op) { return isa<MatmulOp>(op); };
  auto isMixing = [](Operation *op) { return isa<AttentionOp, SoftmaxOp>(op); };
  llvm::MapVector<int, int> numIncomplete;
  for (size_t i = 0; i < segments.size(); ++i) {
    bool mixes = contains(segments[i], isMixing);
    size_t other = mixes ? i + 1 : i - 1; // attention comes first
    if (other < segments.size() && counts[segments[other].symbol] == 1 &&
        contains(segments[other], isMatmul) && contains(segments[other], isMixing) != mixes)
      ++numIncomplete[segments[i].symbol];
  }
  for (Segment &segment : segments)
    if (counts[segment.symbol] > 1 && counts[segment.symbol] > numIncomplete[segment.symbol] &&
        contains(segment, isMatmul) && segment.ops.size() > 1)
      layers.insert(segment.symbol);
  return !layers.empty();
}

namespace {

struct OutlineLayers : public mlir::tpc::impl::OutlineLayersBase<OutlineLayers> {
  void runOnOperation() override {
    if (failed(verifyNoAnnotations(getOperation())))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kLayerAttr) &&
          llvm::hasSingleElement(function.getBody()))
        functions.push_back(function);
    for (func::FuncOp function : functions)
      outline(function, symbols);
  }

  void outline(func::FuncOp main, SymbolTable &symbols) {
    eraseDead(main);
    LayerFinder finder(main);
    if (!finder.run())
      return;
    sortMain(main, finder);
    llvm::DenseMap<int, func::FuncOp> made;
    llvm::DenseMap<int, NodeNames> names;
    Operation *after = main;
    for (Segment &segment : finder.segments) {
      if (!finder.layers.contains(segment.symbol))
        continue;
      SegmentInterface interface = finder.interfaceOf(segment);
      func::FuncOp &layer = made[segment.symbol];
      if (!layer) {
        std::string name = made.size() == 1 ? "layer" : "layer_" + std::to_string(made.size() - 1);
        layer = makeFunction(segment, interface, name);
        names[segment.symbol] = getNodeNames(segment);
        symbols.insert(layer, std::next(after->getIterator()));
        after = layer;
      }
      Operation *last = segment.ops.back();
      OpBuilder builder(last);
      auto call = func::CallOp::create(builder, getLoc(segment), layer, arguments(interface));
      if (Attribute stage = getStage(segment, names[segment.symbol]))
        call->setAttr(kPipelineStageAttr, stage);
      for (auto [v, result] : llvm::zip(interface.results, call.getResults())) {
        v.replaceAllUsesWith(result);
        finder.markActivation(result);
      }
      for (Operation *op : llvm::reverse(segment.ops))
        op->erase();
    }
    eraseDead(main); // constants used only by layers
  }

  static void eraseDead(func::FuncOp main) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  static SmallVector<Value> arguments(const SegmentInterface &interface) {
    SmallVector<Value> list;
    if (interface.input)
      list.push_back(interface.input);
    llvm::append_range(list, interface.context);
    llvm::append_range(list, interface.parameters);
    return list;
  }

  /// Sorts context first, then segments, with parameters before their first use.
  static void sortMain(func::FuncOp main, LayerFinder &finder) {
    Block &block = main.getBody().front();
    Operation *end = block.getTerminator();
    llvm::DenseSet<Operation *> moved;
    for (Segment &segment : finder.segments) {
      for (Operation *op : segment.ops)
        for (Value operand : op->getOperands())
          if (auto parameter = operand.getDefiningOp<ParameterOp>();
              parameter && moved.insert(parameter).second)
            parameter->moveBefore(end);
      for (Operation *op : segment.ops)
        op->moveBefore(end);
    }
    // Moves parameters that context ops read before these ops.
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (moved.contains(&op))
        continue;
      for (Value operand : op.getOperands())
        if (Operation *def = operand.getDefiningOp(); def && moved.contains(def) &&
                                                      isa<ParameterOp>(def) &&
                                                      !def->isBeforeInBlock(&op) && &op != end)
          def->moveBefore(&op);
    }
  }

  static func::FuncOp makeFunction(const Segment &segment, const SegmentInterface &interface,
                                   StringRef name) {
    MLIRContext *context = segment.ops.front()->getContext();
    OpBuilder builder(context);
    SmallVector<Value> args = arguments(interface);
    SmallVector<Type> results;
    for (Value v : interface.results)
      results.push_back(v.getType());
    Location loc = getLoc(segment);
    auto function = func::FuncOp::create(
        builder, loc, name, builder.getFunctionType(TypeRange(ValueRange(args)), results));
    function.setPrivate();
    function->setAttr(kLayerAttr, builder.getUnitAttr());
    Block *body = function.addEntryBlock();
    IRMapping mapping;
    for (auto [v, arg] : llvm::zip(args, body->getArguments())) {
      mapping.map(v, arg);
      arg.setLoc(argumentLoc(builder, v));
    }
    builder.setInsertionPointToStart(body);
    for (Operation *op : segment.ops) {
      for (Value operand : op->getOperands())
        if (auto constant = operand.getDefiningOp<ConstantOp>();
            constant && !mapping.contains(operand))
          builder.clone(*constant, mapping);
      builder.clone(*op, mapping)->removeAttr(kPipelineStageAttr);
    }
    SmallVector<Value> returned;
    for (Value v : interface.results)
      returned.push_back(mapping.lookup(v));
    func::ReturnOp::create(builder, loc, returned);
    return function;
  }

  /// Names an argument after the weight, without the parts that identify the layer
  /// ("h.0.ln_1.weight" becomes "ln_1.weight").
  static Location argumentLoc(OpBuilder &builder, Value v) {
    auto parameter = v.getDefiningOp<ParameterOp>();
    if (!parameter)
      return v.getLoc();
    StringRef name = parameter.getWeight();
    SmallVector<StringRef> parts;
    name.split(parts, '.');
    for (size_t i = parts.size(); i-- > 0;)
      if (unsigned number; i + 1 < parts.size() && !parts[i].getAsInteger(10, number)) {
        name = name.substr(parts[i + 1].data() - name.data());
        break;
      }
    return NameLoc::get(builder.getStringAttr(name), v.getLoc());
  }
};

} // namespace
