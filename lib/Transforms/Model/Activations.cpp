//===- Activations.cpp - Activations of a model ---------------------------===//

#include "Activations.h"

#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/ProgramAttrs.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns true if this argument is an activation of a model without embedding: a norm, or a matmul
/// with a parameter, uses it.
static bool feedsModel(Value v, int depth = 0) {
  return depth < 8 && llvm::any_of(
                          v.getUsers(),
                          [&](Operation *user) {
                            if (isa<ReshapeOp, TransposeOp>(user))
                              return feedsModel(user->getResult(0), depth + 1);
                            if (isa<NormOpInterface>(user))
                              return true;
                            auto matmul = dyn_cast<MatmulOp>(user);
                            return matmul && matmul.getRhs().getDefiningOp<ParameterOp>();
                          });
}

/// Returns true if the ids depend only on shapes, constants, masks and positions. Rows that are
/// looked up by positions (sine and cosine, position embeddings) are context, which is equal for
/// all layers.
static bool arePositions(const llvm::DenseSet<Value> &positionInputs, Value ids) {
  SmallVector<Value> work = {ids};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value v = work.pop_back_val();
    if (!seen.insert(v).second || positionInputs.contains(v))
      continue;
    if (isa<BlockArgument>(v))
      return false;
    llvm::append_range(work, v.getDefiningOp()->getOperands());
  }
  return true;
}

/// Returns the inputs with positions or masks of tokens.
static llvm::DenseSet<Value> findPositionInputs(func::FuncOp main) {
  auto step = PreallocatedStep::lookup(main->getParentOfType<ModuleOp>());
  auto source = SourceCaches::lookup(main->getParentOfType<ModuleOp>());
  llvm::DenseSet<Value> positionInputs;
  for (BlockArgument argument : main.getArguments()) {
    DictionaryAttr attributes = main.getArgAttrDict(argument.getArgNumber());
    auto name = attributes ? attributes.getAs<StringAttr>(kNameAttr) : StringAttr();
    bool ofStep = step && name &&
                  (name == step->lengths || name == step->counts ||
                   (step->windowed && name == step->windowed->lengths) ||
                   (source && name == source->lengths));
    if (ofStep || InputDefaultAttr::lookup(attributes))
      positionInputs.insert(argument);
  }
  return positionInputs;
}

llvm::DenseSet<Value> mlir::tpc::findActivations(func::FuncOp main) {
  Block &block = main.getBody().front();
  llvm::DenseSet<Value> activations;
  auto isActivation = [&](Value v) { return activations.contains(v); };
  llvm::DenseSet<Value> positionInputs = findPositionInputs(main);
  llvm::DenseSet<Operation *> embeddings, ofTokens;
  main.walk([&](EmbeddingOp op) {
    embeddings.insert(op);
    if (!arePositions(positionInputs, op.getIds()))
      ofTokens.insert(op);
  });
  bool embeds = !embeddings.empty();
  if (!ofTokens.empty())
    embeddings = ofTokens;
  for (BlockArgument arg : block.getArguments())
    if (!embeds && isa<RankedTensorType>(arg.getType()) && isFloatTensor(arg) && feedsModel(arg))
      activations.insert(arg);
  for (Operation &op : block)
    if (embeddings.contains(&op) ||
        llvm::any_of(op.getOperands(), [&](Value v) { return isActivation(v); }))
      for (Value result : op.getResults())
        activations.insert(result);
  // The cast of a parameter is outlined with the only op that reads it, like the parameter itself.
  for (auto cast : block.getOps<CastOp>())
    if (cast.getOperand().getDefiningOp<ParameterOp>() && hasOneModelUse(cast)) {
      Operation *user = getModelUses(cast.getResult()).front()->getOwner();
      if (user->getNumResults() == 1 && isActivation(user->getResult(0)))
        activations.insert(cast.getResult());
    }
  return activations;
}
