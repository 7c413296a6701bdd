//===- Elements.cpp - What threads do with elements -------------------------===//

#include "KernelLowering.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

/// Bytes that a thread accesses at once.
static constexpr unsigned kWide = 16;
static constexpr unsigned kMostLanes = 8;

static unsigned getBytes(Type type) { return std::max(1u, type.getIntOrFloatBitWidth() / 8); }

//===----------------------------------------------------------------------===//
// Which elements a thread does at once
//===----------------------------------------------------------------------===//

/// Memory that loops of a block go along, with the indices. What is behind a condition on the last
/// index, or has it in another index as well, is accessed lane by lane, and need not be aligned.
static SmallVector<std::pair<Value, ValueRange>> getStreams(Block &body, Value last) {
  SmallVector<std::pair<Value, ValueRange>> found;
  llvm::SmallDenseSet<Value> ofLane{last};
  auto isOfLane = [&](Value value) { return ofLane.contains(value); };
  // Operands stand before their users, and conditions before what is behind them.
  body.walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool uses = false;
    op->walk([&](Operation *inner) { uses |= llvm::any_of(inner->getOperands(), isOfLane); });
    if (uses)
      ofLane.insert(op->result_begin(), op->result_end());
  });
  auto isBehindLane = [&](Operation *op) {
    for (; op->getBlock() != &body; op = op->getParentOp())
      if (auto choice = dyn_cast<scf::IfOp>(op->getParentOp());
          choice && isOfLane(choice.getCondition()))
        return true;
    return false;
  };
  body.walk([&](Operation *op) {
    auto consider = [&](Value memref, ValueRange indices) {
      if (!indices.empty() && indices.back() == last &&
          llvm::none_of(indices.drop_back(), isOfLane) && !isBehindLane(op))
        found.push_back({memref, indices});
    };
    if (auto load = dyn_cast<memref::LoadOp>(op))
      consider(load.getMemref(), load.getIndices());
    if (auto store = dyn_cast<memref::StoreOp>(op))
      consider(store.getMemref(), store.getIndices());
  });
  return found;
}

/// As many lanes as the narrowest of the elements fill 16 bytes, and as divide what is known of
/// sizes: rows of 34 elements are aligned in pairs. Whether the rest is aligned is asked at run
/// time.
KernelLowering::Lanes KernelLowering::findLanes(ArrayRef<std::pair<Block *, Value>> bodies,
                                                Value size) {
  Lanes lanes;
  SmallVector<std::pair<Value, ValueRange>> streams;
  for (auto [body, last] : bodies)
    llvm::append_range(streams, getStreams(*body, last));
  if (streams.empty())
    return lanes;
  unsigned bytes = kWide;
  for (auto &[memref, indices] : streams)
    bytes = std::min(bytes, getBytes(cast<MemRefType>(memref.getType()).getElementType()));
  unsigned width = std::min(kWide / bytes, kMostLanes);
  SmallVector<Value> lengths{size};
  for (auto &[memref, indices] : streams)
    if (indices.size() > 1)
      lengths.push_back(extent(source.getSizesOf(memref).back()));
  for (Value length : lengths)
    if (auto known = asConstant(length))
      while (*known % width)
        width /= 2;
  lanes.width = width;
  if (width == 1)
    return lanes;
  for (Value length : lengths)
    if (!asConstant(length)) {
      Value rest = LLVM::AndOp::create(b, loc, length, number(width - 1));
      lanes.full = both(lanes.full, isEqual(rest, number(0)));
    }
  // Pointers, by how much they must be aligned.
  std::map<unsigned, Value> pointers;
  llvm::SmallDenseSet<Value> seen;
  for (auto &[memref, indices] : streams) {
    if (!seen.insert(memref).second)
      continue;
    unsigned own = getBytes(cast<MemRefType>(memref.getType()).getElementType());
    Value &bits = pointers[std::min(kWide, own * width)];
    Value value = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), map.lookup(memref));
    bits = bits ? LLVM::OrOp::create(b, loc, bits, value).getResult() : value;
  }
  for (auto &[alignment, bits] : pointers) {
    Value rest = LLVM::AndOp::create(b, loc, bits, constant(alignment - 1));
    lanes.aligned = both(lanes.aligned, isEqual(rest, constant(0)));
  }
  return lanes;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void KernelLowering::lowerElements(kernel::ElementsOp op) {
  if (isHeld(op))
    return runHeld(op);
  SmallVector<Value> sizes = extents(op.getExprs());
  Block &body = op.getBody().front();
  if (sizes.empty()) {
    Value first = isEqual(inGroup, number(0));
    if (launch.shape == Shape::Elements)
      first = both(first, isEqual(part, number(0)));
    branch(
        first, {},
        [&] {
          lowerBody(body);
          return SmallVector<Value>();
        },
        nullptr);
    return;
  }
  Lanes lanes = findLanes(body, op.getIndices().back(), sizes.back());
  auto run = [&](unsigned width) {
    runElements(op, sizes, width);
    return SmallVector<Value>();
  };
  if (lanes.width == 1 || !mayBeWide) {
    run(1);
    return;
  }
  branch(
      both(lanes.full, lanes.aligned), {}, [&] { return run(lanes.width); },
      [&] { return run(1); });
}

/// Chunks of `width` elements along the last dimension, counted over all dimensions.
void KernelLowering::runElements(kernel::ElementsOp op, ArrayRef<Value> sizes, unsigned width) {
  Value perLast = quotient(sizes.back(), number(width));
  Value chunks = mul(product(sizes.drop_back()), perLast);
  Value lb = inGroup, ub = chunks;
  if (launch.shape == Shape::Elements) {
    // Parts begin where a group's work begins, so that its accesses stay adjacent.
    Value share = mul(parts(chunks, mul(partsOfRow, groupSize)), groupSize);
    Value begin = mul(part, share);
    lb = add(begin, inGroup);
    ub = LLVM::SMinOp::create(b, loc, add(begin, share), chunks);
  }
  auto indices = op.getIndices();
  emitLoop(lb, ub, groupSize, {}, [&](Value chunk, ValueRange) {
    Value linear = chunk;
    Value last = linear;
    if (indices.size() > 1) {
      last = remainder(linear, perLast);
      linear = quotient(linear, perLast);
      for (unsigned i = indices.size() - 2; i > 0; --i) {
        mapIndex(indices[i], remainder(linear, sizes[i]), sizes[i]);
        linear = quotient(linear, sizes[i]);
      }
      mapIndex(indices[0], linear, sizes[0]);
    }
    lowerLanes(op.getBody().front(), indices.back(), mul(last, number(width)), sizes.back(), width,
               width > 1);
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

// Op by op for all lanes, so that what all have in common is done once, and adjacent elements are
// loaded and stored at once, also inside of branches that all lanes take.

void KernelLowering::lowerLanes(Block &block, Value last, Value begin, Value size, unsigned lanes,
                                bool atOnce) {
  llvm::SaveAndRestore savedWidth(width, lanes);
  llvm::SaveAndRestore savedIndex(lastIndex, last);
  llvm::SaveAndRestore savedAccess(wideAccess, atOnce);
  mapIndex(last, begin, size);
  laneValues.clear(); // of another loop over the same block
  if (lanes == 1)
    return lowerBody(block);
  SmallVector<Value> values;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Value value = begin;
    if (lane)
      value =
          LLVM::AddOp::create(b, loc, begin, number(lane),
                              LLVM::IntegerOverflowFlags::nsw | LLVM::IntegerOverflowFlags::nuw);
    values.push_back(value);
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
  return wideAccess && !indices.empty() && indices.back() == lastIndex &&
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
      const SmallVector<Value> *known = findHeld(load);
      laneValues[load.getResult()] = known ? *known : loadWide(load, laneValues[lastIndex][0]);
      continue;
    }
    if (auto store = dyn_cast<memref::StoreOp>(op);
        store && isAdjacent(store.getMemref(), store.getIndices())) {
      storeWide(store);
      continue;
    }
    if (auto choice = dyn_cast<scf::IfOp>(op);
        choice && !laneValues.contains(choice.getCondition())) {
      branchWide(choice);
      continue;
    }
    SmallVector<SmallVector<Value>> results(op.getNumResults());
    for (unsigned i = 0; i < width; ++i) {
      llvm::SaveAndRestore saved(lane, i);
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (auto it = laneValues.find(operand); it != laneValues.end())
            map.map(operand, it->second[i]);
      });
      lowerOp(&op);
      for (auto [result, values] : llvm::zip_equal(op.getResults(), results))
        values.push_back(map.lookup(result));
    }
    for (auto [result, values] : llvm::zip_equal(op.getResults(), results))
      laneValues[result] = values;
  }
}

/// Lanes of a memory access, in pieces of at most 16 bytes.
static unsigned getPiece(Type element, unsigned width) {
  return std::min(width, kWide / getBytes(element));
}

Value KernelLowering::lowerLoad(memref::LoadOp op) {
  const SmallVector<Value> *known = findHeld(op);
  return known ? (*known)[lane] : KernelEmitter::lowerLoad(op);
}

/// The lanes of a load that begins with this value of its last index.
SmallVector<Value> KernelLowering::loadWide(memref::LoadOp op, Value begin) {
  map.map(op.getIndices().back(), begin);
  unsigned width = held ? held->width : this->width;
  Type type = getMemoryType(op.getType());
  Value at = elementAddress(op.getMemref(), op.getIndices());
  unsigned piece = getPiece(type, width);
  SmallVector<Value> values;
  for (unsigned offset = 0; offset < width; offset += piece) {
    Value from = offset ? address(at, type, constant(offset)) : at;
    auto load = LLVM::LoadOp::create(b, loc, VectorType::get(piece, type), from,
                                     /*alignment=*/piece * getBytes(type));
    load.setInvariant(isOperand(op.getMemref()));
    for (unsigned lane = 0; lane < piece; ++lane) {
      Value element = LLVM::ExtractElementOp::create(b, loc, load, number(lane));
      values.push_back(fromMemory(element, op.getType()));
    }
  }
  return values;
}

void KernelLowering::storeWide(memref::StoreOp op) {
  map.map(lastIndex, laneValues[lastIndex][0]);
  Type type = getMemoryType(op.getValue().getType());
  Value at = elementAddress(op.getMemref(), op.getIndices());
  unsigned piece = getPiece(type, width);
  for (unsigned begin = 0; begin < width; begin += piece) {
    Value to = begin ? address(at, type, constant(begin)) : at;
    auto vector = VectorType::get(piece, type);
    Value all = LLVM::UndefOp::create(b, loc, vector);
    for (unsigned lane = 0; lane < piece; ++lane)
      all = LLVM::InsertElementOp::create(
          b, loc, all, toMemory(getLane(op.getValue(), begin + lane)), number(lane));
    LLVM::StoreOp::create(b, loc, all, to, /*alignment=*/piece * getBytes(type));
  }
}

/// All lanes take the same branch.
void KernelLowering::branchWide(scf::IfOp op) {
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    types.append(width, getCarriedType(type));
  auto fill = [&](Block *body) {
    lowerLanes(*body);
    SmallVector<Value> yielded;
    for (Value v : body->getTerminator()->getOperands())
      for (unsigned lane = 0; lane < width; ++lane)
        yielded.push_back(v.getType().isIndex() ? wide(getLane(v, lane)) : getLane(v, lane));
    return yielded;
  };
  auto otherwise = [&] { return fill(op.elseBlock()); };
  SmallVector<Value> results = branch(
      map.lookup(op.getCondition()), types, [&] { return fill(op.thenBlock()); },
      op.elseBlock() ? function_ref<SmallVector<Value>()>(otherwise) : nullptr);
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    laneValues[result] = SmallVector<Value>(ArrayRef(results).slice(i * width, width));
}
