//===- OutlineLayers.cpp - One function of what repeats -------------------===//
//
// 1. Values are activations (they depend on an embedding of tokens or on the model's
//    floating-point input), parameters, or context: what depends on masks, positions,
//    shapes and constants alone.
// 2. Ops that compute activations are put in an order in which all that an op
//    needs comes right before it (post-order from the results), and cut
//    wherever one activation is all that is live: after the residual additions.
// 3. Stretches between cuts that are equal but for their parameters get the
//    same symbol. The most frequent pair of neighbours becomes a new symbol, again
//    and again: [attention][mlp][attention][mlp] is [layer][layer]. Equal neighbours
//    are not joined, nor two that both mix tokens: a layer mixes
//    them once, so two kinds of layer that alternate stay two.
// 4. What occurs more than once, and has a product in it, becomes a function.
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
struct Stretch {
  SmallVector<Operation *> ops;
  int symbol = 0;
};

/// What a stretch takes and gives.
struct Interface {
  Value input;                    // the live activation; may be null
  llvm::SetVector<Value> context; // and other activations among the arguments
  llvm::SetVector<Value> parameters;
  SmallVector<Value> results;
};

class LayerFinder {
public:
  LayerFinder(func::FuncOp main)
      : main(main), block(main.getBody().front()), activations(findActivations(main)) {}

  /// Cuts and compares; false if nothing repeats.
  bool run();
  SmallVector<Stretch> stretches;
  /// Symbols that become functions.
  llvm::SetVector<int> layers;
  Interface interfaceOf(const Stretch &stretch);
  void markActivation(Value v) { activations.insert(v); }

private:
  void order();
  void cut();
  void compare();
  void joinNeighbours();
  bool isActivation(Value v) const { return activations.contains(v); }
  std::string describe(const Stretch &stretch);

  func::FuncOp main;
  Block &block;
  llvm::DenseSet<Value> activations;
  SmallVector<Operation *> sequence;
  llvm::DenseMap<Operation *, int> position;
  llvm::SmallDenseSet<int> mixing; // symbols whose stretch mixes tokens
};

} // namespace

// Post-order from the results, without recursion: graphs are as deep as models. What only other
// results than the main one are made of (keys and values that are packed into one cache) comes
// right behind what it is made of: it belongs to that layer.
void LayerFinder::order() {
  llvm::DenseSet<Operation *> seen;
  SmallVector<std::pair<Operation *, unsigned>> stack;
  SmallVector<size_t> begins; // where in the sequence what each result needs begins
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
  // The main result is the one that needs most.
  size_t rest = 0, most = 0;
  for (size_t i = 0; i + 1 < begins.size(); ++i)
    if (size_t count = begins[i + 1] - begins[i]; count > most) {
      most = count;
      rest = begins[i + 1];
    }
  for (auto [i, op] : llvm::enumerate(sequence)) {
    int place = i;
    if (i >= rest) {
      place = -1;
      for (Value operand : op->getOperands())
        if (auto it = position.find(operand.getDefiningOp()); it != position.end())
          place = std::max(place, it->second);
    }
    position[op] = place;
  }
  llvm::stable_sort(sequence,
                    [&](Operation *a, Operation *b) { return position.at(a) < position.at(b); });
  for (auto [i, op] : llvm::enumerate(sequence))
    position[op] = i;
}

// Position p is a cut if nothing that was computed before p is used after it,
// and p itself is. Uses as results of the model do not count: a stretch may
// have more than one result.
void LayerFinder::cut() {
  int open = -1; // last use of what came before
  for (BlockArgument arg : block.getArguments())
    if (isActivation(arg))
      for (Operation *user : arg.getUsers())
        if (auto it = position.find(user); it != position.end())
          open = std::max(open, it->second);
  stretches.emplace_back();
  for (auto [i, op] : llvm::enumerate(sequence)) {
    stretches.back().ops.push_back(op);
    int last = -1;
    for (Operation *user : op->getUsers())
      if (auto it = position.find(user); it != position.end())
        last = std::max(last, it->second);
    bool isCut = open <= (int)i && op->getNumResults() == 1;
    open = std::max(open, last);
    if (isCut && i + 1 < sequence.size())
      stretches.emplace_back();
  }
}

Interface LayerFinder::interfaceOf(const Stretch &stretch) {
  llvm::DenseSet<Operation *> inside(stretch.ops.begin(), stretch.ops.end());
  Interface result;
  for (Operation *op : stretch.ops) {
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

/// That of all its ops, in their order: what they are made of is known by it.
static Location getLoc(const Stretch &stretch) {
  SmallVector<Location> locs;
  for (Operation *op : stretch.ops)
    locs.push_back(op->getLoc());
  return FusedLoc::get(stretch.ops.front()->getContext(), locs);
}

/// The nodes that each op is made of.
using NodeNames = SmallVector<SmallVector<std::string>>;

static NodeNames getNodeNames(const Stretch &stretch) {
  NodeNames names(stretch.ops.size());
  for (auto [op, list] : llvm::zip(stretch.ops, names))
    collectNodeNames(op->getLoc(), list);
  return names;
}

/// The pipeline stage of all ops that say one; null if none does. If they differ, those of the
/// nodes that the layer's function is made of, op by op: `names`.
static Attribute getStage(const Stretch &stretch, const NodeNames &names) {
  Attribute stage;
  bool same = true;
  llvm::MapVector<StringRef, Attribute> stageOf;
  for (auto [op, list] : llvm::zip(stretch.ops, names))
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

/// Text that is equal for stretches that are the same function. Attributes and
/// types are unique in their context, so their addresses stand for them.
std::string LayerFinder::describe(const Stretch &stretch) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Interface interface = interfaceOf(stretch);
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
  // Layers are the same function in whatever pipeline stage they are.
  for (auto [i, op] : llvm::enumerate(stretch.ops)) {
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
  for (Stretch &stretch : stretches) {
    stretch.symbol = symbols.insert({describe(stretch), symbols.size()}).first->second;
    for (Operation *op : stretch.ops)
      if (isa<AttentionOp, SoftmaxOp>(op))
        mixing.insert(stretch.symbol);
  }
}

void LayerFinder::joinNeighbours() {
  int nextSymbol = stretches.size();
  // Each round joins at least two pairs, so there are fewer stretches.
  while (true) {
    llvm::MapVector<std::pair<int, int>, int> counts;
    for (size_t i = 0; i + 1 < stretches.size(); ++i) {
      int a = stretches[i].symbol, b = stretches[i + 1].symbol;
      if (a != b && !(mixing.contains(a) && mixing.contains(b)))
        ++counts[{a, b}];
    }
    std::pair<int, int> best;
    int most = 1;
    for (auto [pair, count] : counts)
      if (count > most) {
        best = pair;
        most = count;
      }
    if (most < 2)
      return;
    SmallVector<Stretch> joined;
    for (size_t i = 0; i < stretches.size(); ++i) {
      joined.push_back(stretches[i]);
      if (i + 1 < stretches.size() && stretches[i].symbol == best.first &&
          stretches[i + 1].symbol == best.second) {
        llvm::append_range(joined.back().ops, stretches[i + 1].ops);
        joined.back().symbol = nextSymbol;
        ++i;
      }
    }
    if (mixing.contains(best.first) || mixing.contains(best.second))
      mixing.insert(nextSymbol);
    ++nextSymbol;
    stretches = joined;
  }
}

bool LayerFinder::run() {
  order();
  if (sequence.empty())
    return false;
  cut();
  compare();
  joinNeighbours();
  // Stretches of one symbol are equal part by part; whole, they could still
  // use one parameter twice where another uses two.
  std::map<std::string, int> whole;
  llvm::MapVector<int, int> counts;
  for (Stretch &stretch : stretches) {
    stretch.symbol = whole.insert({describe(stretch), whole.size()}).first->second;
    ++counts[stretch.symbol];
  }
  // A part of layers that differ in the rest is not a layer: where each
  // occurrence has a neighbour of the other kind (mixing tokens or not) that
  // occurs once.
  auto contains = [](const Stretch &stretch, auto test) { return llvm::any_of(stretch.ops, test); };
  auto isProduct = [](Operation *op) { return isa<MatmulOp>(op); };
  auto isMixing = [](Operation *op) { return isa<AttentionOp, SoftmaxOp>(op); };
  llvm::MapVector<int, int> partial;
  for (size_t i = 0; i < stretches.size(); ++i) {
    bool mixes = contains(stretches[i], isMixing);
    size_t other = mixes ? i + 1 : i - 1; // attention comes first
    if (other < stretches.size() && counts[stretches[other].symbol] == 1 &&
        contains(stretches[other], isProduct) && contains(stretches[other], isMixing) != mixes)
      ++partial[stretches[i].symbol];
  }
  for (Stretch &stretch : stretches)
    if (counts[stretch.symbol] > 1 && counts[stretch.symbol] > partial[stretch.symbol] &&
        contains(stretch, isProduct) && stretch.ops.size() > 1)
      layers.insert(stretch.symbol);
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
    for (Stretch &stretch : finder.stretches) {
      if (!finder.layers.contains(stretch.symbol))
        continue;
      Interface interface = finder.interfaceOf(stretch);
      func::FuncOp &layer = made[stretch.symbol];
      if (!layer) {
        std::string name = made.size() == 1 ? "layer" : "layer_" + std::to_string(made.size() - 1);
        layer = makeFunction(stretch, interface, name);
        names[stretch.symbol] = getNodeNames(stretch);
        symbols.insert(layer, std::next(after->getIterator()));
        after = layer;
      }
      Operation *last = stretch.ops.back();
      OpBuilder builder(last);
      auto call = func::CallOp::create(builder, getLoc(stretch), layer, arguments(interface));
      if (Attribute stage = getStage(stretch, names[stretch.symbol]))
        call->setAttr(kPipelineStageAttr, stage);
      for (auto [v, result] : llvm::zip(interface.results, call.getResults())) {
        v.replaceAllUsesWith(result);
        finder.markActivation(result);
      }
      for (Operation *op : llvm::reverse(stretch.ops))
        op->erase();
    }
    eraseDead(main); // constants that only layers used
  }

  static void eraseDead(func::FuncOp main) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  static SmallVector<Value> arguments(const Interface &interface) {
    SmallVector<Value> list;
    if (interface.input)
      list.push_back(interface.input);
    llvm::append_range(list, interface.context);
    llvm::append_range(list, interface.parameters);
    return list;
  }

  /// Context first, then stretch by stretch, parameters before their first use.
  static void sortMain(func::FuncOp main, LayerFinder &finder) {
    Block &block = main.getBody().front();
    Operation *end = block.getTerminator();
    llvm::DenseSet<Operation *> moved;
    for (Stretch &stretch : finder.stretches) {
      for (Operation *op : stretch.ops)
        for (Value operand : op->getOperands())
          if (auto parameter = operand.getDefiningOp<ParameterOp>();
              parameter && moved.insert(parameter).second)
            parameter->moveBefore(end);
      for (Operation *op : stretch.ops)
        op->moveBefore(end);
    }
    // Parameters that context is made of stay before it.
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

  static func::FuncOp makeFunction(const Stretch &stretch, const Interface &interface,
                                   StringRef name) {
    MLIRContext *context = stretch.ops.front()->getContext();
    OpBuilder builder(context);
    SmallVector<Value> args = arguments(interface);
    SmallVector<Type> results;
    for (Value v : interface.results)
      results.push_back(v.getType());
    Location loc = getLoc(stretch);
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
    for (Operation *op : stretch.ops) {
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

  /// What an argument is called: the weight's name without what only says
  /// which layer it is of ("h.0.ln_1.weight" is "ln_1.weight").
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
