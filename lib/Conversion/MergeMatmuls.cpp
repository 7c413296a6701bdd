//===- MergeMatmuls.cpp - Merge of matmuls with the same LHS --------------===//
//
// One runtime call for Q, K and V reads the LHS once and is one large task for the threads instead
// of three small ones. Each matmul keeps its parameter, epilogue and result, so users of the
// results do not change.
//
// Where the library computes merged matmuls as one (TargetTraits::hasStridedResults), the results
// are columns of one buffer. Then all users of the results must support a row stride, and the
// parameters, which become columns of one matrix, must have no other use.
//
//===----------------------------------------------------------------------===//

#include "KernelClusters.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/State.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_MERGEMATMULS
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct MergeMatmuls : mlir::tpc::impl::MergeMatmulsBase<MergeMatmuls> {
  void runOnOperation() override;
  void merge(ArrayRef<MatmulOp> products, const ParameterTable &parameters);

  int64_t next = 0; // next group number in the current block
  /// Matmuls whose parameter has other uses.
  DenseSet<Operation *> shared;
};

using Reached = llvm::SmallPtrSet<Operation *, 16>;
} // namespace

/// Returns the ops of the block that depend on a matmul's result without another packed matmul in
/// between.
static Reached findReached(MatmulOp product, const ParameterTable &parameters) {
  Reached reached;
  SmallVector<Operation *> work{product};
  while (!work.empty())
    for (Operation *user : work.pop_back_val()->getUsers()) {
      auto matmul = dyn_cast<MatmulOp>(user);
      if (user->getBlock() == product->getBlock() && !user->hasTrait<OpTrait::IsTerminator>() &&
          !(matmul && parameters.isPackedMatmul(matmul)) && reached.insert(user).second)
        work.push_back(user);
    }
  return reached;
}

/// Returns whether all operands of a matmul and its epilogue, except the LHS, are defined before
/// `first`.
static bool canMoveTo(MatmulOp product, MatmulOp first, const ParameterTable &parameters) {
  auto isDefinedBefore = [&](Value v) {
    Operation *op = v.getDefiningOp();
    return !op || op->getBlock() != first->getBlock() || op->isBeforeInBlock(first) ||
           isa<ConstantOp>(op) || parameters.lookup(getLoadedParameter(v));
  };
  if (product.getBias() && !isDefinedBefore(product.getBias()))
    return false;
  for (Operation *op = product; op->hasOneUse();) {
    OpOperand &use = *op->use_begin();
    auto fused = use.getOwner()->getAttrOfType<IntegerAttr>(kFusedAttr);
    if (!fused || fused.getInt() != use.getOperandNumber())
      break;
    op = use.getOwner();
    for (OpOperand &other : op->getOpOperands())
      if (&other != &use && !isDefinedBefore(other.get()))
        return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Results in one buffer
//===----------------------------------------------------------------------===//

/// Returns whether an op other than a kernel can read an operand with a row stride.
static bool isReadByStrides(OpOperand &use) {
  if (auto attention = dyn_cast<AttentionOp>(use.getOwner())) // k and v in caches are not columns
    return &use == &attention.getQMutable() ||
           (!attention.getLengths() &&
            (&use == &attention.getKMutable() || &use == &attention.getVMutable()));
  auto append = dyn_cast<AppendOp>(use.getOwner());
  return append && &use == &append.getFreshMutable();
}

/// Returns whether all uses of a value with `rows` rows can read it with a row stride.
static bool isReadByRows(Value value, const ::tpc::SymExpr &rows, MeshAttr grid) {
  if (!countRowDims(getLocalSizes(value.getType(), grid), rows))
    return false;
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (user->getBlock() != value.getParentBlock())
      return false;
    if (auto fused = user->getAttrOfType<IntegerAttr>(kFusedAttr)) {
      // A bias is the only epilogue that can be added to the results of all merged matmuls at once.
      bool isBias =
          isa<AddOp>(user) && fused.getInt() == use.getOperandNumber() &&
          cast<RankedTensorType>(user->getOperand(1 - fused.getInt()).getType()).getRank() == 1;
      return isBias && isReadByRows(user->getResult(0), rows, grid);
    }
    if (isa<ReshapeOp>(user))
      return isReadByRows(user->getResult(0), rows, grid);
    if (isReadByStrides(use))
      return true;
    return isComputedByKernel(user) && getAliasedOperand(user->getResult(0)) != value;
  });
}

/// Returns whether the result of a matmul may be columns of a buffer.
static bool mayBeColumns(MatmulOp product) {
  MeshAttr grid = MeshAttr::lookup(product);
  ::tpc::SymExpr rows(1);
  SmallVector<::tpc::SymExpr> lhs = getLocalSizes(product.getLhs().getType(), grid);
  for (const ::tpc::SymExpr &size : ArrayRef(lhs).drop_back())
    rows = rows * size;
  return isReadByRows(product.getResult(), rows, grid);
}

static bool hasBias(MatmulOp product) {
  if (product.getBias())
    return true;
  Value result = product.getResult();
  return result.hasOneUse() && result.use_begin()->getOwner()->hasAttr(kFusedAttr);
}

/// Returns whether one matmul can compute two matmuls that each satisfy `mayBeColumns`.
static bool areAlike(MatmulOp a, MatmulOp b) {
  return hasBias(a) == hasBias(b) &&
         getElementTypeOrSelf(a.getType()) == getElementTypeOrSelf(b.getType());
}

/// Finds matmuls whose parameter, a weight through a view, has several uses in the program.
static DenseSet<Operation *> findShared(ModuleOp module) {
  // The ops that use each parameter, also through arguments of functions.
  using Load = std::pair<Attribute, Attribute>;
  llvm::MapVector<Load, llvm::SetVector<Operation *>> users;
  SymbolTableCollection symbols;
  module.walk([&](ParameterOp parameter) {
    auto &found = users[{parameter.getWeightAttr(), parameter.getViewAttr()}];
    SmallVector<Value> work{parameter.getResult()};
    while (!work.empty())
      for (OpOperand &use : work.pop_back_val().getUses()) {
        auto call = dyn_cast<func::CallOp>(use.getOwner());
        if (call)
          work.push_back(symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr())
                             .getArgument(use.getOperandNumber()));
        else if (use.getOwner()->hasAttr(kLoadedAttr))
          work.push_back(use.getOwner()->getResult(0));
        else
          found.insert(use.getOwner());
      }
  });
  DenseSet<Operation *> shared;
  for (auto &[load, ops] : users)
    if (ops.size() > 1)
      shared.insert(ops.begin(), ops.end());
  return shared;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Merges matmuls of one LHS, in program order. A matmul is added to the first group with a common
/// dependent op if it can be moved to the first matmul of the group.
void MergeMatmuls::merge(ArrayRef<MatmulOp> products, const ParameterTable &parameters) {
  struct Group {
    SmallVector<MatmulOp> members;
    Reached reached;
  };
  SmallVector<Group> groups;
  bool isOneBuffer = TargetTraits::get(products.front()).hasStridedResults;
  for (MatmulOp product : products) {
    if (isOneBuffer && (shared.contains(product) || !mayBeColumns(product)))
      continue;
    Reached reached = findReached(product, parameters);
    auto meets = [&](const Group &group) {
      return (!isOneBuffer || areAlike(product, group.members.front())) &&
             canMoveTo(product, group.members.front(), parameters) &&
             llvm::any_of(reached, [&](Operation *op) { return group.reached.contains(op); });
    };
    auto group = llvm::find_if(groups, meets);
    if (group == groups.end())
      group = &groups.emplace_back();
    group->members.push_back(product);
    group->reached.insert(reached.begin(), reached.end());
  }
  for (const Group &group : groups) {
    if (group.members.size() == 1)
      continue;
    auto mark = IntegerAttr::get(IntegerType::get(&getContext(), 64), next++);
    for (MatmulOp product : group.members)
      product->setAttr(kMergedAttr, mark);
  }
}

void MergeMatmuls::runOnOperation() {
  WalkResult marked = getOperation().walk([](Operation *op) {
    if (!op->hasAttr(kMergedAttr))
      return WalkResult::advance();
    op->emitOpError() << "has '" << kMergedAttr << "' already: only this pass sets it";
    return WalkResult::interrupt();
  });
  if (marked.wasInterrupted())
    return signalPassFailure();
  ParameterTable parameters(getOperation());
  shared = findShared(getOperation());
  getOperation().walk([&](Block *block) {
    llvm::MapVector<Value, SmallVector<MatmulOp>> byLhs;
    for (Operation &op : *block)
      if (auto product = dyn_cast<MatmulOp>(op); product && parameters.isPackedMatmul(product))
        byLhs[product.getLhs()].push_back(product);
    next = 0;
    for (auto &[value, products] : byLhs)
      if (products.size() > 1)
        merge(products, parameters);
  });
}
