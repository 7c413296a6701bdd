//===- LayerBackward.cpp - Backward functions of layers -------------------===//
//
// The backward function starts as a copy of the layer. Backward ops are appended to the copy. Then
// values of the forward part that backward ops use become arguments (saved activations), unless
// they can be recomputed from other arguments without matmuls, attention and lookups. Unused ops
// and arguments are erased.
//
//===----------------------------------------------------------------------===//

#include "LayerBackward.h"
#include "tpc/Dialect/Annotations.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tpc;

LogicalResult mlir::tpc::buildBackward(GradientBuilder &b, ArrayRef<Operation *> ops,
                                       function_ref<LogicalResult(func::CallOp)> onCall) {
  for (Operation *op : llvm::reverse(ops)) {
    if (llvm::none_of(op->getResults(), [&](Value v) { return bool(b.getCotangent(v)); }))
      continue;
    b.setLoc(op->getLoc());
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (failed(onCall(call)))
        return failure();
      continue;
    }
    // Activity::analyze has rejected ops without a gradient.
    if (failed(cast<GradientOpInterface>(op).buildGradient(b)))
      return failure();
  }
  return success();
}

/// Returns true for ops whose recomputation takes less time than a matmul.
static bool isCheap(Operation *op) {
  return isPure(op) && !isa<MatmulOp, AttentionOp, EmbeddingOp, GatherOp, GatherNDOp, CumSumOp>(op);
}

namespace {
class Deriver {
public:
  Deriver(func::FuncOp layer, const DenseSet<Value> &active, SymbolTable &symbols,
          bool decomposesAttention)
      : layer(layer), active(active), symbols(symbols), decomposesAttention(decomposesAttention) {}

  FailureOr<LayerBackward> run();

private:
  void makeCopy();
  LogicalResult appendBackward();
  void saveActivations();
  void addSaved(Value v);
  bool isAvailable(Value v);
  void finish();

  func::FuncOp layer, copy;
  const DenseSet<Value> &active;
  SymbolTable &symbols;
  bool decomposesAttention;
  LayerBackward result;
  DenseSet<Value> copiedActive;
  SmallVector<Operation *> forward; // ops of the copied layer
  DenseMap<Value, Value> originals; // values of the copied layer -> values of the layer
  SmallVector<Value> copiedResults; // results of the layer, in the copy
  SmallVector<Value> cotangents;    // results of the backward function
  DenseSet<Value> saved;            // values of the copy
  DenseMap<Value, bool> available;
};
} // namespace

void Deriver::makeCopy() {
  IRMapping mapping;
  copy = cast<func::FuncOp>(layer->clone(mapping));
  copy.setName((layer.getName() + "_backward").str());
  symbols.insert(copy, std::next(layer->getIterator()));
  for (auto [from, to] : mapping.getValueMap()) {
    originals[to] = from;
    if (active.contains(from))
      copiedActive.insert(to);
  }
  for (Operation &op : copy.front().without_terminator())
    forward.push_back(&op);
  copiedResults = llvm::to_vector(copy.front().getTerminator()->getOperands());
}

LogicalResult Deriver::appendBackward() {
  Block &block = copy.front();
  OpBuilder builder(block.getTerminator());
  GradientBuilder b(builder, copiedActive, decomposesAttention);
  SmallVector<BlockArgument> arguments(block.getArguments());
  b.setLoc(layer.getLoc());
  for (auto [i, v] : llvm::enumerate(copiedResults))
    if (copiedActive.contains(v)) {
      result.results.push_back(i);
      b.accumulate(v, block.addArgument(v.getType(), v.getLoc()));
    }
  auto onCall = [](func::CallOp call) -> LogicalResult {
    return call.emitError() << "in a layer has no gradient";
  };
  if (failed(buildBackward(b, forward, onCall)))
    return failure();
  for (BlockArgument argument : arguments)
    if (Value cotangent = b.getCotangent(argument)) {
      result.gradients.push_back(argument.getArgNumber());
      cotangents.push_back(cotangent);
    }
  Operation *end = block.getTerminator();
  end->setOperands(cotangents);
  return success();
}

bool Deriver::isAvailable(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op || saved.contains(v))
    return true;
  auto [it, isNew] = available.try_emplace(v, false);
  if (!isNew)
    return it->second;
  bool canRepeat =
      isCheap(op) && llvm::all_of(op->getOperands(), [&](Value x) { return isAvailable(x); });
  return available[v] = canRepeat;
}

void Deriver::saveActivations() {
  DenseSet<Operation *> inForward(forward.begin(), forward.end());
  auto isNeeded = [&](Value v) {
    return llvm::any_of(v.getUsers(), [&](Operation *user) { return !inForward.contains(user); });
  };
  SmallVector<Value> needed;
  for (Operation *op : forward)
    for (Value v : op->getResults())
      if (isNeeded(v))
        needed.push_back(v);
  // Values that must be saved make others available.
  for (Value v : needed)
    if (!isCheap(v.getDefiningOp()))
      saved.insert(v);
  for (Value v : needed)
    if (!isAvailable(v))
      saved.insert(v);
  SmallVector<Value> inOrder;
  for (Value v : needed)
    if (saved.contains(v))
      inOrder.push_back(v);
  for (Value v : inOrder)
    addSaved(v);
}

/// Makes a value an argument of the backward function and a result of the layer.
void Deriver::addSaved(Value v) {
  Value original = originals.at(v);
  Operation *end = layer.front().getTerminator();
  auto it = llvm::find(end->getOperands(), original);
  result.saved.push_back(it - end->operand_begin());
  if (it == end->operand_end())
    end->insertOperands(end->getNumOperands(), original);
  unsigned index = layer.getNumArguments() + result.saved.size() - 1;
  v.replaceAllUsesWith(copy.front().insertArgument(index, v.getType(), v.getLoc()));
}

void Deriver::finish() {
  Block &block = copy.front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  for (unsigned i = 0; i < layer.getNumArguments(); ++i)
    if (!block.getArgument(i).use_empty())
      result.arguments.push_back(i);
  // Attributes of arguments (annotations) belong to the layer.
  copy.setAllArgAttrs(ArrayRef<DictionaryAttr>());
  copy.setAllResultAttrs(ArrayRef<DictionaryAttr>());
  for (unsigned i = layer.getNumArguments(); i-- > 0;)
    if (block.getArgument(i).use_empty())
      block.eraseArgument(i);
  MLIRContext *context = layer.getContext();
  auto setType = [&](func::FuncOp function) {
    function.setType(FunctionType::get(context, function.front().getArgumentTypes(),
                                       function.front().getTerminator()->getOperandTypes()));
  };
  setType(copy);
  SmallVector<DictionaryAttr> attributes(layer.front().getTerminator()->getNumOperands(),
                                         DictionaryAttr::get(context));
  for (unsigned i = 0; i < layer.getNumResults(); ++i)
    if (DictionaryAttr attrs = layer.getResultAttrDict(i))
      attributes[i] = attrs;
  setType(layer);
  layer.setAllResultAttrs(attributes);
  result.function = copy;
}

FailureOr<LayerBackward> Deriver::run() {
  makeCopy();
  if (failed(appendBackward()))
    return failure();
  saveActivations();
  finish();
  return result;
}

FailureOr<LayerBackward> mlir::tpc::deriveLayerBackward(func::FuncOp layer,
                                                        const DenseSet<Value> &active,
                                                        SymbolTable &symbols,
                                                        bool decomposesAttention) {
  return Deriver(layer, active, symbols, decomposesAttention).run();
}
