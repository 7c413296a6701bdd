//===- Lanes.cpp - Ops lowered for several lanes of a thread -----------------===//
//
// Each op is lowered for all lanes before the next op. Values that do not depend on the lane are
// computed once, and adjacent elements are loaded and stored by one vector access, also inside
// branches that all lanes take.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

void KernelLowering::lowerLanes(Block &block, Value last, Value begin, Value size, unsigned lanes,
                                bool atOnce) {
  Lanes adjacentLanes;
  adjacentLanes.width = adjacentLanes.adjacent = adjacentLanes.stride = lanes;
  lowerLanes(block, last, begin, size, adjacentLanes, atOnce);
}

void KernelLowering::lowerLanes(Block &block, Value last, Value begin, Value size,
                                const Lanes &lanes, bool atOnce) {
  llvm::SaveAndRestore savedWidth(width, lanes.width);
  llvm::SaveAndRestore savedIndex(lastIndex, last);
  llvm::SaveAndRestore savedAccess(wideAccess, atOnce);
  mapIndex(last, begin, size);
  laneValues.clear(); // of another loop over the same block
  loaded.clear();
  if (width == 1)
    return lowerBody(block);
  chunk = lanes;
  active.clear();
  if (chunk.offsets.empty())
    for (unsigned lane = 0; lane < width; ++lane)
      chunk.offsets.push_back(lane);
  SmallVector<Value> values;
  for (unsigned lane = 0; lane < width; ++lane) {
    Value value = begin;
    if (int64_t offset = chunk.offsets[lane])
      value =
          LLVM::AddOp::create(b, loc, begin, number(offset),
                              LLVM::IntegerOverflowFlags::nsw | LLVM::IntegerOverflowFlags::nuw);
    values.push_back(value);
    active.push_back(lane);
  }
  laneValues[last] = values;
  lowerLanes(block);
}

bool KernelLowering::dependsOnLane(Operation *op) const {
  bool depends = false;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      depends |= laneValues.contains(operand);
  });
  return depends;
}

Value KernelLowering::getLane(Value value, unsigned lane) {
  auto it = laneValues.find(value);
  return it == laneValues.end() ? map.lookup(value) : it->second[lane];
}

bool KernelLowering::isAdjacent(Value memref, ValueRange indices) {
  if (!wideAccess || indices.empty())
    return false;
  std::optional<int64_t> shift = getShift(indices.back(), lastIndex);
  return shift && (checksOnce || !*shift) &&
         llvm::none_of(indices.drop_back(), [&](Value i) { return laneValues.contains(i); });
}

void KernelLowering::lowerLanes(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (!dependsOnLane(&op)) {
      for (Value result : op.getResults())
        laneValues.erase(result);
      lowerOp(&op);
      continue;
    }
    if (auto load = dyn_cast<memref::LoadOp>(op);
        load && isAdjacent(load.getMemref(), load.getIndices())) {
      const SmallVector<Value> *known = findRegisters(load);
      laneValues[load.getResult()] = known ? *known : loadLanes(load);
      continue;
    }
    if (auto compare = dyn_cast<arith::CmpIOp>(op); compare && lowerCut(compare))
      continue;
    if (auto store = dyn_cast<memref::StoreOp>(op);
        store && isAdjacent(store.getMemref(), store.getIndices())) {
      storeWide(store);
      continue;
    }
    if (auto choice = dyn_cast<scf::IfOp>(op);
        choice && (!laneValues.contains(choice.getCondition()) ||
                   sameOfLanes.contains(choice.getCondition()))) {
      branchWide(choice);
      continue;
    } else if (choice && knownOfLane.contains(choice.getCondition())) {
      branchByLane(choice, SmallVector<bool>(knownOfLane[choice.getCondition()]));
      continue;
    }
    SmallVector<SmallVector<Value>> results(op.getNumResults(), SmallVector<Value>(width));
    for (unsigned i : active) {
      llvm::SaveAndRestore saved(lane, i);
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (auto it = laneValues.find(operand); it != laneValues.end())
            map.map(operand, it->second[i]);
      });
      lowerOp(&op);
      for (auto [result, values] : llvm::zip_equal(op.getResults(), results))
        values[i] = map.lookup(result);
    }
    for (auto [result, values] : llvm::zip_equal(op.getResults(), results))
      laneValues[result] = values;
  }
}

/// Returns the number of lanes per memory access, of at most 16 bytes.
static unsigned getLanesPerAccess(Type element, unsigned width) {
  return std::min(width, kVectorBytes / getBytes(element));
}

Value KernelLowering::lowerLoad(memref::LoadOp op) {
  const SmallVector<Value> *known = findRegisters(op);
  return known ? (*known)[lane] : KernelEmitter::lowerLoad(op);
}

/// Loads all lanes of a load. `begin` is the last index of the first lane.
SmallVector<Value> KernelLowering::loadWide(memref::LoadOp op, Value begin) {
  map.map(op.getIndices().back(), begin);
  unsigned width = registerRow ? registerRow->width : this->width;
  Type type = getMemoryType(op.getType());
  Value at = elementAddress(op.getMemref(), op.getIndices());
  unsigned piece = getLanesPerAccess(type, width);
  SmallVector<Value> values;
  for (unsigned offset = 0; offset < width; offset += piece) {
    Value from = offset ? address(at, type, constant(offset)) : at;
    auto load = LLVM::LoadOp::create(b, loc, VectorType::get(piece, type), from,
                                     /*alignment=*/piece * getBytes(type));
    for (unsigned lane = 0; lane < piece; ++lane) {
      Value element = LLVM::ExtractElementOp::create(b, loc, load, number(lane));
      values.push_back(fromMemory(element, op.getType()));
    }
  }
  return values;
}

/// Calls `body` for groups of adjacent, suitably aligned lanes.
void KernelLowering::forAccesses(Value memref, int64_t shift,
                                 function_ref<void(ArrayRef<unsigned>)> body) {
  unsigned maxLanes =
      getLanesPerAccess(cast<MemRefType>(memref.getType()).getElementType(), chunk.adjacent);
  auto isAllowed = [&](int64_t first, unsigned count) {
    return (chunk.offsets[first] + shift) % count == 0 && chunk.stride % count == 0;
  };
  for (ArrayRef<unsigned> left = active; !left.empty();) {
    unsigned count = 1;
    while (count < std::min<size_t>(maxLanes, left.size()) &&
           chunk.offsets[left[count]] == chunk.offsets[left[0]] + count)
      ++count;
    count = llvm::bit_floor(count);
    while (!isAllowed(left[0], count))
      count /= 2;
    body(left.take_front(count));
    left = left.drop_front(count);
  }
}

/// Reuses elements that were loaded for another lane.
SmallVector<Value> KernelLowering::loadLanes(memref::LoadOp op) {
  Value index = op.getIndices().back();
  int64_t shift = *getShift(index, lastIndex);
  Key key{op.getMemref().getAsOpaquePointer()};
  for (Value other : op.getIndices().drop_back())
    key.push_back(other.getAsOpaquePointer());
  std::map<int64_t, Value> uncached;
  std::map<int64_t, Value> &known = isOperand(op.getMemref()) ? loaded[key] : uncached;
  Type type = getMemoryType(op.getType());
  forAccesses(op.getMemref(), shift, [&](ArrayRef<unsigned> lanes) {
    if (llvm::all_of(lanes, [&](unsigned i) { return known.count(chunk.offsets[i] + shift); }))
      return;
    map.map(index, laneValues[index][lanes[0]]);
    Value at = elementAddress(op.getMemref(), op.getIndices());
    auto load = LLVM::LoadOp::create(b, loc, VectorType::get(lanes.size(), type), at,
                                     /*alignment=*/lanes.size() * getBytes(type));
    for (auto [position, i] : llvm::enumerate(lanes)) {
      Value element = LLVM::ExtractElementOp::create(b, loc, load, number(position));
      known[chunk.offsets[i] + shift] = fromMemory(element, op.getType());
    }
  });
  SmallVector<Value> values(width);
  for (unsigned i : active)
    values[i] = known.at(chunk.offsets[i] + shift);
  return values;
}

void KernelLowering::storeWide(memref::StoreOp op) {
  Value index = op.getIndices().back();
  Type type = getMemoryType(op.getValue().getType());
  forAccesses(op.getMemref(), *getShift(index, lastIndex), [&](ArrayRef<unsigned> lanes) {
    map.map(index, laneValues[index][lanes[0]]);
    Value to = elementAddress(op.getMemref(), op.getIndices());
    auto vector = VectorType::get(lanes.size(), type);
    Value all = LLVM::UndefOp::create(b, loc, vector);
    for (auto [position, i] : llvm::enumerate(lanes))
      all = LLVM::InsertElementOp::create(b, loc, all, toMemory(getLane(op.getValue(), i)),
                                          number(position));
    LLVM::StoreOp::create(b, loc, all, to, /*alignment=*/lanes.size() * getBytes(type));
  });
}

/// All lanes take the same branch. Elements loaded in the branch are known only there.
void KernelLowering::branchWide(scf::IfOp op) {
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    types.append(active.size(), getCarriedType(type));
  auto fill = [&](Block *body) {
    llvm::SaveAndRestore saved(loaded);
    lowerLanes(*body);
    SmallVector<Value> yielded;
    for (Value v : body->getTerminator()->getOperands())
      for (unsigned i : active)
        yielded.push_back(v.getType().isIndex() ? wide(getLane(v, i)) : getLane(v, i));
    return yielded;
  };
  auto otherwise = [&] { return fill(op.elseBlock()); };
  Value condition = op.getCondition();
  SmallVector<Value> results = branch(
      laneValues.contains(condition) ? laneValues[condition][active[0]] : map.lookup(condition),
      types, [&] { return fill(op.thenBlock()); },
      op.elseBlock() ? function_ref<SmallVector<Value>()>(otherwise) : nullptr);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    SmallVector<Value> values(width);
    for (auto [position, lane] : llvm::enumerate(active))
      values[lane] = results[i * active.size() + position];
    laneValues[result] = values;
  }
}

/// The branch of each lane is known: no condition is evaluated.
void KernelLowering::branchByLane(scf::IfOp op, ArrayRef<bool> taken) {
  SmallVector<SmallVector<Value>> results(op.getNumResults(), SmallVector<Value>(width));
  for (bool side : {true, false}) {
    SmallVector<unsigned> lanesOfSide;
    llvm::copy_if(active, std::back_inserter(lanesOfSide),
                  [&](unsigned i) { return taken[i] == side; });
    Block *body = side ? op.thenBlock() : op.elseBlock();
    if (lanesOfSide.empty() || !body)
      continue;
    llvm::SaveAndRestore saved(active, lanesOfSide);
    lowerLanes(*body);
    for (auto [v, values] : llvm::zip_equal(body->getTerminator()->getOperands(), results))
      for (unsigned i : lanesOfSide)
        values[i] = v.getType().isIndex() ? wide(getLane(v, i)) : getLane(v, i);
  }
  for (auto [result, values] : llvm::zip_equal(op.getResults(), results))
    laneValues[result] = values;
}
