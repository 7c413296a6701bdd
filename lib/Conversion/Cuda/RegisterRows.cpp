//===- RegisterRows.cpp - Rows in registers -----------------------------===//
//
// A norm or a softmax has three passes over its row. In all passes a thread processes the same
// elements, so a pass need not reload elements that an earlier pass loaded or stored. The row is
// read once and written once, and passes exchange values without barriers.
//
//   passes                            fold (%j) in [768], elements (%j) in [768], …
//   key of a load                     memory, indices before %j, conditions around it, all of them
//                                     values of the row: equal keys mean the same element, also in
//                                     different passes
//   a chunk k of a thread             elements (thread + k * group) * width, …; k is unrolled
//
// Operands that all rows share (weight and bias of a norm) are loaded before the first row.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

/// Maximum number of values per thread that are kept for a row, and for a row together with the
/// operands that all rows share.
static constexpr unsigned kMaxRowValues = 32, kMaxValues = 40;

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

static Value getLast(Operation *pass) { return pass->getRegion(0).getArguments().back(); }

/// Returns whether a value is defined inside of `op`, at any nesting depth.
static bool isDefinedIn(Value value, Operation *op) {
  return op->isAncestor(value.getParentBlock()->getParentOp());
}

static SmallVector<SymExpr> getSpace(Operation *op) {
  if (auto fold = dyn_cast<kernel::FoldOp>(op))
    return fold.getExprs();
  if (auto elements = dyn_cast<kernel::ElementsOp>(op))
    return elements.getExprs();
  return {};
}

/// Hoists values that are constant within a pass out of the pass, into the row, and merges equal
/// values, so that keys are comparable. Merges consecutive elementwise loops into one pass.
void KernelLowering::mergePasses() {
  kernel::RowsOp rows = source.getRows();
  Block &row = rows.getBody().front();
  rows.walk([&](Operation *op) {
    Operation *pass = op;
    while (pass->getParentOp() != rows && pass != rows)
      pass = pass->getParentOp();
    if (pass == op || pass == rows || op->getNumRegions() || !isMemoryEffectFree(op) ||
        !isSpeculatable(op) || op->hasTrait<OpTrait::IsTerminator>())
      return;
    if (llvm::none_of(op->getOperands(), [&](Value v) { return isDefinedIn(v, pass); }))
      op->moveBefore(pass);
  });
  kernel::ElementsOp before;
  for (Operation &op : llvm::make_early_inc_range(row)) {
    auto elements = dyn_cast<kernel::ElementsOp>(op);
    if (!elements) {
      // A barrier separates the stores of one loop from loads in a later loop, so loops around it
      // are not merged.
      if (isa<kernel::BarrierOp, kernel::FoldOp>(op) || op.getNumRegions())
        before = nullptr;
      continue;
    }
    if (before && before.getExprs() == elements.getExprs()) {
      for (auto [from, to] : llvm::zip_equal(before.getIndices(), elements.getIndices()))
        from.replaceAllUsesWith(to);
      Block &body = elements.getBody().front();
      body.getOperations().splice(body.begin(), before.getBody().front().getOperations());
      before.erase();
    }
    before = elements;
  }
  IRRewriter rewriter(source.getContext());
  DominanceInfo dominance(source);
  eliminateCommonSubExpressions(rewriter, dominance, source);
}

void KernelLowering::findPasses() {
  auto getOnly = [](Operation &op) -> std::optional<SymExpr> {
    SmallVector<SymExpr> space = getSpace(&op);
    return space.size() == 1 ? std::optional(space.front()) : std::nullopt;
  };
  Block &row = source.getRows().getBody().front();
  // Passes have the size of the first fold or, if the row has no fold, of the first element-wise
  // loop.
  for (bool isFold : {true, false})
    for (Operation &op : row)
      if (auto size = getOnly(op);
          size && rowSize.isConstant(1) && isa<kernel::FoldOp>(op) == isFold)
        rowSize = *size;
  for (Operation &op : row)
    if (getOnly(op) == rowSize && !rowSize.isConstant(1))
      passes.push_back(&op);
}

//===----------------------------------------------------------------------===//
// Values in registers
//===----------------------------------------------------------------------===//

std::optional<KernelLowering::Key> KernelLowering::findKey(Value memref, ValueRange indices,
                                                           Operation *access) {
  SmallVector<std::pair<Value, bool>> conditions;
  Operation *pass = access->getParentOp();
  for (Operation *inner = access; !llvm::is_contained(passes, pass);
       inner = pass, pass = pass->getParentOp()) {
    auto branch = dyn_cast<scf::IfOp>(pass);
    if (!branch)
      return std::nullopt;
    conditions.push_back({branch.getCondition(), branch.thenBlock() == inner->getBlock()});
  }
  if (indices.empty() || indices.back() != getLast(pass))
    return std::nullopt;
  Key key{memref.getAsOpaquePointer()};
  for (Value index : indices.drop_back()) {
    if (isDefinedIn(index, pass))
      return std::nullopt;
    key.push_back(index.getAsOpaquePointer());
  }
  for (auto [condition, isThen] : conditions) {
    if (isDefinedIn(condition, pass))
      return std::nullopt;
    key.push_back(isThen ? this : nullptr);
    key.push_back(condition.getAsOpaquePointer());
  }
  return key;
}

/// Selects the loads to keep in registers, up to the maximum. `perThread`: elements of a row per
/// thread.
void KernelLowering::selectRegisterLoads(unsigned perThread) {
  kernel::RowsOp rows = source.getRows();
  // Results whose stores all have one key.
  DenseMap<Value, std::optional<Key>> stored;
  rows.walk([&](memref::StoreOp store) {
    std::optional<Key> key;
    if (llvm::is_contained(passes, store->getParentOp()))
      key = findKey(store.getMemref(), store.getIndices(), store);
    auto [it, isNew] = stored.try_emplace(store.getMemref(), key);
    if (!isNew && it->second != key)
      it->second = std::nullopt;
  });
  SmallVector<RegisterLoad> candidates;
  for (Operation *pass : passes)
    pass->walk([&](memref::LoadOp load) {
      std::optional<Key> key = findKey(load.getMemref(), load.getIndices(), load);
      if (!key)
        return;
      auto *it = llvm::find_if(candidates, [&](const RegisterLoad &c) { return c.key == *key; });
      if (it != candidates.end()) {
        it->again |= it->pass != pass;
        return;
      }
      RegisterLoad candidate{*key, load, pass};
      candidate.stored = !isOperand(load.getMemref());
      candidate.ofAllRows = !candidate.stored && key->size() == load.getIndices().size() &&
                            llvm::none_of(load.getIndices().drop_back(),
                                          [&](Value i) { return isDefinedIn(i, rows); });
      if (!candidate.stored || stored.lookup(load.getMemref()) == *key)
        candidates.push_back(candidate);
    });
  unsigned count = 0;
  for (const RegisterLoad &candidate : candidates)
    if ((candidate.stored || candidate.again) && !candidate.ofAllRows &&
        count + perThread <= kMaxRowValues) {
      registerLoads.push_back(candidate);
      count += perThread;
    }
  for (const RegisterLoad &candidate : candidates)
    if (candidate.ofAllRows && count + perThread <= kMaxValues) {
      registerLoads.push_back(candidate);
      count += perThread;
    }
  needsBarriers = false;
  rows.walk([&](memref::LoadOp load) {
    if (isOperand(load.getMemref()))
      return;
    auto key = findKey(load.getMemref(), load.getIndices(), load);
    needsBarriers |=
        !key || llvm::none_of(registerLoads, [&](auto &other) { return other.key == *key; });
  });
}

const SmallVector<Value> *KernelLowering::findRegisters(memref::LoadOp op) {
  if (!registerRow)
    return nullptr;
  std::optional<Key> key = findKey(op.getMemref(), op.getIndices(), op);
  auto it = key ? registerRow->values.find(*key) : registerRow->values.end();
  return it == registerRow->values.end() ? nullptr : &it->second[currentChunk];
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

Value KernelLowering::chunkBegin(unsigned chunk) {
  Value first = add(inGroup, mul(number(chunk), groupSize));
  return mul(first, number(registerRow->width));
}

/// Emits no check for a chunk that is known to be in the row.
SmallVector<Value> KernelLowering::ifChunk(unsigned chunk, TypeRange types,
                                           function_ref<SmallVector<Value>()> then,
                                           function_ref<SmallVector<Value>()> otherwise) {
  auto size = asConstant(registerRow->size), threads = asConstant(groupSize);
  if (size && threads && (chunk + 1) * *threads * registerRow->width <= *size)
    return then();
  return branch(less(chunkBegin(chunk), registerRow->size), types, then, otherwise);
}

/// Loads the values that this pass is the first to read. `ofAllRows`: operands that all rows share,
/// else those of the current row.
void KernelLowering::loadRegisters(Operation *pass, bool ofAllRows) {
  for (const RegisterLoad &registerLoad : registerLoads) {
    if (registerLoad.stored || registerLoad.pass != pass || registerLoad.ofAllRows != ofAllRows)
      continue;
    memref::LoadOp load = registerLoad.load;
    Value condition;
    for (Operation *inner = load; inner->getParentOp() != pass; inner = inner->getParentOp()) {
      auto branch = cast<scf::IfOp>(inner->getParentOp());
      Value holds = map.lookup(branch.getCondition());
      if (branch.thenBlock() != inner->getBlock())
        holds = LLVM::XOrOp::create(b, loc, holds,
                                    LLVM::ConstantOp::create(b, loc, b.getBoolAttr(true)));
      condition = both(condition, holds);
    }
    SmallVector<Type> types(registerRow->width, load.getType());
    auto nothing = [&] { return zeros(types); };
    SmallVector<SmallVector<Value>> chunks;
    for (unsigned k = 0; k < registerRow->chunks; ++k) {
      auto read = [&] {
        Value begin = chunkBegin(k);
        mapIndex(getLast(pass), begin, registerRow->size);
        if (registerRow->width > 1)
          return loadWide(load, begin);
        return SmallVector<Value>{KernelEmitter::lowerLoad(load)};
      };
      chunks.push_back(ifChunk(
          k, types, [&] { return condition ? branch(condition, types, read, nothing) : read(); },
          nothing));
    }
    registerRow->values[registerLoad.key] = std::move(chunks);
  }
}

SmallVector<Value> KernelLowering::zeros(ArrayRef<Type> types) {
  return llvm::map_to_vector(types, [&](Type type) -> Value {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  });
}

//===----------------------------------------------------------------------===//
// Passes over a row in registers
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelLowering::foldInRegisters(kernel::FoldOp op) {
  loadRegisters(op);
  SmallVector<Value> partial(registerRow->width, arith::ConstantOp::create(b, loc, op.getInit()));
  SmallVector<Type> types(registerRow->width, op.getType());
  for (unsigned k = 0; k < registerRow->chunks; ++k) {
    llvm::SaveAndRestore saved(currentChunk, k);
    partial = ifChunk(
        k, types,
        [&] {
          return foldTerms(op, partial, chunkBegin(k), registerRow->size, registerRow->width, true);
        },
        [&] { return partial; });
  }
  return partial;
}

void KernelLowering::runInRegisters(kernel::ElementsOp op) {
  loadRegisters(op);
  Block &body = op.getBody().front();
  SmallVector<std::pair<memref::StoreOp, Key>> stores;
  SmallVector<Type> types;
  for (auto store : body.getOps<memref::StoreOp>()) {
    auto key = findKey(store.getMemref(), store.getIndices(), store);
    if (key && llvm::any_of(registerLoads, [&](auto &other) { return other.key == *key; })) {
      stores.push_back({store, *key});
      types.append(registerRow->width, store.getValue().getType());
    }
  }
  for (unsigned k = 0; k < registerRow->chunks; ++k) {
    llvm::SaveAndRestore saved(currentChunk, k);
    SmallVector<Value> values = ifChunk(
        k, types,
        [&] {
          lowerLanes(body, getLast(op), chunkBegin(k), registerRow->size, registerRow->width,
                     registerRow->width > 1);
          SmallVector<Value> stored;
          for (auto &[store, key] : stores)
            for (unsigned i = 0; i < registerRow->width; ++i)
              stored.push_back(getLane(store.getValue(), i));
          return stored;
        },
        types.empty() ? function_ref<SmallVector<Value>()>() : [&] { return zeros(types); });
    for (auto [i, store] : llvm::enumerate(stores)) {
      registerRow->values[store.second].resize(registerRow->chunks);
      registerRow->values[store.second][k] =
          SmallVector<Value>(ArrayRef(values).slice(i * registerRow->width, registerRow->width));
    }
  }
}

//===----------------------------------------------------------------------===//
// Versions
//===----------------------------------------------------------------------===//

/// Emits the versions of the loop over rows. Conditions that are known only at run time are checked
/// once for all rows: whether a thread's part of a row fits into registers, and whether rows are
/// aligned. If the row length prevents alignment, elements are loaded one by one. If pointers are
/// unaligned, each pass reads the row again, and each thread reduces the same operands as in the
/// other versions.
void KernelLowering::lowerVersions(kernel::RowsOp rows) {
  if (!registerChunks)
    return lowerRows(rows);
  auto runWithRow = [&](unsigned width, unsigned chunks) {
    registerRow.emplace();
    registerRow->width = width;
    registerRow->chunks = chunks;
    registerRow->size = extent(rowSize);
    for (Operation *pass : passes)
      loadRegisters(pass, /*ofAllRows=*/true);
    lowerRows(rows);
    registerRow.reset();
    return SmallVector<Value>();
  };
  auto rereadRow = [&] {
    llvm::SaveAndRestore saved(mayBeWide, rowFits != nullptr);
    lowerRows(rows);
    return SmallVector<Value>();
  };
  unsigned width = rowLanes.width;
  Value wideRows = both(both(rowFits, rowLanes.full), rowLanes.aligned);
  if (!wideRows) {
    runWithRow(width, registerChunks);
    return;
  }
  branch(
      wideRows, {}, [&] { return runWithRow(width, registerChunks); },
      [&] {
        if (!rowLanes.full)
          return rereadRow();
        Value isNotFull = LLVM::XOrOp::create(
            b, loc, rowLanes.full, LLVM::ConstantOp::create(b, loc, b.getBoolAttr(true)));
        return branch(
            both(rowFits, isNotFull), {}, [&] { return runWithRow(1, registerChunks * width); },
            rereadRow);
      });
}
