//===- Held.cpp - Rows that threads keep in registers -----------------------===//
//
// A norm goes over its row three times, softmax as well. Each pass gives the same elements to the
// same thread, so what one has loaded or stored, the next one need not read again: the row comes
// from memory once and goes there once, and what passes hand on to each other needs no barrier.
//
//   passes                            fold (%j) in [768], elements (%j) in [768], …
//   key of a load                     memory, indices before %j, conditions around it: where they
//                                     are values of the row, all passes mean the same element
//   a chunk k of a thread             elements (thread + k * group) * width, …; k is unrolled
//
// What all rows have in common (weight and bias of a norm) is loaded before the first one.
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

/// Values of one thread that may be held of its row, and together with those of all rows.
static constexpr unsigned kMostHeld = 32, kMostHeldOfAll = 40;

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

static Value getLast(Operation *pass) { return pass->getRegion(0).getArguments().back(); }

/// Also of the ops inside of it.
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

/// What does not change within a pass is the row's, and what is equal is one value: keys then are.
/// Elements that follow one another are one pass.
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
      // What reads memory that was stored stands behind a barrier.
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
  // The first fold's, if there is one: it says what is combined.
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
// What is held
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

/// Chooses loads, as long as there are registers, for rows of which a thread has `perThread`
/// elements.
void KernelLowering::chooseHeld(unsigned perThread) {
  kernel::RowsOp rows = source.getRows();
  // Results that are stored at one key alone.
  DenseMap<Value, std::optional<Key>> stored;
  rows.walk([&](memref::StoreOp store) {
    std::optional<Key> key;
    if (llvm::is_contained(passes, store->getParentOp()))
      key = findKey(store.getMemref(), store.getIndices(), store);
    auto [it, isNew] = stored.try_emplace(store.getMemref(), key);
    if (!isNew && it->second != key)
      it->second = std::nullopt;
  });
  SmallVector<HeldLoad> candidates;
  for (Operation *pass : passes)
    pass->walk([&](memref::LoadOp load) {
      std::optional<Key> key = findKey(load.getMemref(), load.getIndices(), load);
      if (!key)
        return;
      auto *it = llvm::find_if(candidates, [&](const HeldLoad &c) { return c.key == *key; });
      if (it != candidates.end()) {
        it->again |= it->pass != pass;
        return;
      }
      HeldLoad own{*key, load, pass};
      own.stored = !isOperand(load.getMemref());
      own.ofAllRows = !own.stored && key->size() == load.getIndices().size() &&
                      llvm::none_of(load.getIndices().drop_back(),
                                    [&](Value i) { return isDefinedIn(i, rows); });
      if (!own.stored || stored.lookup(load.getMemref()) == *key)
        candidates.push_back(own);
    });
  unsigned count = 0;
  for (const HeldLoad &own : candidates)
    if ((own.stored || own.again) && !own.ofAllRows && count + perThread <= kMostHeld) {
      heldLoads.push_back(own);
      count += perThread;
    }
  for (const HeldLoad &own : candidates)
    if (own.ofAllRows && count + perThread <= kMostHeldOfAll) {
      heldLoads.push_back(own);
      count += perThread;
    }
  needsBarriers = false;
  rows.walk([&](memref::LoadOp load) {
    if (isOperand(load.getMemref()))
      return;
    auto key = findKey(load.getMemref(), load.getIndices(), load);
    needsBarriers |= !key || llvm::none_of(heldLoads, [&](auto &own) { return own.key == *key; });
  });
}

const SmallVector<Value> *KernelLowering::findHeld(memref::LoadOp op) {
  if (!held)
    return nullptr;
  std::optional<Key> key = findKey(op.getMemref(), op.getIndices(), op);
  auto it = key ? held->values.find(*key) : held->values.end();
  return it == held->values.end() ? nullptr : &it->second[heldChunk];
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

Value KernelLowering::chunkBegin(unsigned chunk) {
  Value first = add(inGroup, mul(number(chunk), groupSize));
  return mul(first, number(held->width));
}

/// Where it is sure that a chunk is in the row, nothing is asked.
SmallVector<Value> KernelLowering::ifChunk(unsigned chunk, TypeRange types,
                                           function_ref<SmallVector<Value>()> then,
                                           function_ref<SmallVector<Value>()> otherwise) {
  auto size = asConstant(held->size), threads = asConstant(groupSize);
  if (size && threads && (chunk + 1) * *threads * held->width <= *size)
    return then();
  return branch(less(chunkBegin(chunk), held->size), types, then, otherwise);
}

/// Loads what this pass is the first one to read of its row, or of all rows.
void KernelLowering::holdLoads(Operation *pass, bool ofAllRows) {
  for (const HeldLoad &own : heldLoads) {
    if (own.stored || own.pass != pass || own.ofAllRows != ofAllRows)
      continue;
    memref::LoadOp load = own.load;
    Value condition;
    for (Operation *inner = load; inner->getParentOp() != pass; inner = inner->getParentOp()) {
      auto branch = cast<scf::IfOp>(inner->getParentOp());
      Value is = map.lookup(branch.getCondition());
      if (branch.thenBlock() != inner->getBlock())
        is = LLVM::XOrOp::create(b, loc, is, LLVM::ConstantOp::create(b, loc, b.getBoolAttr(true)));
      condition = both(condition, is);
    }
    SmallVector<Type> types(held->width, load.getType());
    auto nothing = [&] { return zeros(types); };
    SmallVector<SmallVector<Value>> chunks;
    for (unsigned k = 0; k < held->chunks; ++k) {
      auto read = [&] {
        Value begin = chunkBegin(k);
        mapIndex(getLast(pass), begin, held->size);
        if (held->width > 1)
          return loadWide(load, begin);
        return SmallVector<Value>{KernelEmitter::lowerLoad(load)};
      };
      chunks.push_back(ifChunk(
          k, types, [&] { return condition ? branch(condition, types, read, nothing) : read(); },
          nothing));
    }
    held->values[own.key] = std::move(chunks);
  }
}

SmallVector<Value> KernelLowering::zeros(ArrayRef<Type> types) {
  return llvm::map_to_vector(types, [&](Type type) -> Value {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  });
}

//===----------------------------------------------------------------------===//
// Passes over a row that is held
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelLowering::foldHeld(kernel::FoldOp op) {
  holdLoads(op);
  SmallVector<Value> partial(held->width, arith::ConstantOp::create(b, loc, op.getInit()));
  SmallVector<Type> types(held->width, op.getType());
  for (unsigned k = 0; k < held->chunks; ++k) {
    llvm::SaveAndRestore saved(heldChunk, k);
    partial = ifChunk(
        k, types,
        [&] { return foldTerms(op, partial, chunkBegin(k), held->size, held->width, true); },
        [&] { return partial; });
  }
  return partial;
}

void KernelLowering::runHeld(kernel::ElementsOp op) {
  holdLoads(op);
  Block &body = op.getBody().front();
  SmallVector<std::pair<memref::StoreOp, Key>> stores;
  SmallVector<Type> types;
  for (auto store : body.getOps<memref::StoreOp>()) {
    auto key = findKey(store.getMemref(), store.getIndices(), store);
    if (key && llvm::any_of(heldLoads, [&](auto &own) { return own.key == *key; })) {
      stores.push_back({store, *key});
      types.append(held->width, store.getValue().getType());
    }
  }
  for (unsigned k = 0; k < held->chunks; ++k) {
    llvm::SaveAndRestore saved(heldChunk, k);
    SmallVector<Value> values = ifChunk(
        k, types,
        [&] {
          lowerLanes(body, getLast(op), chunkBegin(k), held->size, held->width, held->width > 1);
          SmallVector<Value> own;
          for (auto &[store, key] : stores)
            for (unsigned i = 0; i < held->width; ++i)
              own.push_back(getLane(store.getValue(), i));
          return own;
        },
        types.empty() ? function_ref<SmallVector<Value>()>() : [&] { return zeros(types); });
    for (auto [i, store] : llvm::enumerate(stores)) {
      held->values[store.second].resize(held->chunks);
      held->values[store.second][k] =
          SmallVector<Value>(ArrayRef(values).slice(i * held->width, held->width));
    }
  }
}

//===----------------------------------------------------------------------===//
// Versions
//===----------------------------------------------------------------------===//

/// What is known at run time only is asked once for all rows: whether a thread's share fits, and
/// whether rows are aligned. If they are not because of their length, elements are held one by one;
/// if pointers are not, the row is read again by each pass, so that each thread has the terms that
/// it has otherwise.
void KernelLowering::lowerVersions(kernel::RowsOp rows) {
  if (!chunksHeld)
    return lowerRows(rows);
  auto hold = [&](unsigned width, unsigned chunks) {
    held.emplace();
    held->width = width;
    held->chunks = chunks;
    held->size = extent(rowSize);
    for (Operation *pass : passes)
      holdLoads(pass, /*ofAllRows=*/true);
    lowerRows(rows);
    held.reset();
    return SmallVector<Value>();
  };
  auto again = [&] {
    llvm::SaveAndRestore saved(mayBeWide, rowFits != nullptr);
    lowerRows(rows);
    return SmallVector<Value>();
  };
  unsigned width = rowLanes.width;
  Value wideRows = both(both(rowFits, rowLanes.full), rowLanes.aligned);
  if (!wideRows) {
    hold(width, chunksHeld);
    return;
  }
  branch(
      wideRows, {}, [&] { return hold(width, chunksHeld); },
      [&] {
        if (!rowLanes.full)
          return again();
        Value odd = LLVM::XOrOp::create(b, loc, rowLanes.full,
                                        LLVM::ConstantOp::create(b, loc, b.getBoolAttr(true)));
        return branch(both(rowFits, odd), {}, [&] { return hold(1, chunksHeld * width); }, again);
      });
}
