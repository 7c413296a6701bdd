//===- Elements.cpp - Elementwise loops of a kernel -----------------------===//

#include "KernelLowering.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

/// Maximum number of elements that a thread computes together.
static constexpr unsigned kMaxLanes = 8;

//===----------------------------------------------------------------------===//
// Elements of one thread
//===----------------------------------------------------------------------===//

/// Collects the memory that loops of a block traverse. Accesses that also use the last index in
/// another dimension are done lane by lane, and need no alignment. The same applies to accesses
/// under a condition on the last index, unless `cuts` is true and the condition is a cut (see
/// getCut).
void KernelLowering::addStreams(Block &body, Value last, bool cuts, Streams &streams) {
  llvm::SmallDenseSet<Value> ofLane{last};
  auto isOfLane = [&](Value value) { return ofLane.contains(value); };
  // Operands precede their users, and conditions precede the ops that they guard.
  body.walk<WalkOrder::PreOrder>([&](Operation *op) {
    bool uses = false;
    op->walk([&](Operation *inner) { uses |= llvm::any_of(inner->getOperands(), isOfLane); });
    if (uses)
      ofLane.insert(op->result_begin(), op->result_end());
  });
  auto consider = [&](Operation *op, Value memref, ValueRange indices) {
    std::optional<int64_t> shift;
    if (!indices.empty())
      shift = getShift(indices.back(), last);
    if (!shift || (*shift && !cuts) || llvm::any_of(indices.drop_back(), isOfLane))
      return;
    SmallVector<int64_t> around;
    for (; op->getBlock() != &body; op = op->getParentOp()) {
      auto choice = dyn_cast<scf::IfOp>(op->getParentOp());
      if (!choice || !isOfLane(choice.getCondition()))
        continue;
      std::optional<int64_t> cut = getCut(choice.getCondition(), last);
      if (!cut || !cuts)
        return;
      around.push_back(*cut);
    }
    llvm::append_range(streams.cuts, around);
    streams.shifts.push_back(*shift);
    streams.accesses.push_back({memref, indices});
    unsigned bytes = getBytes(cast<MemRefType>(memref.getType()).getElementType());
    streams.narrowest = std::min(streams.narrowest, bytes);
    streams.widest = std::max(streams.widest, bytes);
  };
  body.walk([&](Operation *op) {
    if (auto load = dyn_cast<memref::LoadOp>(op))
      consider(op, load.getMemref(), load.getIndices());
    if (auto store = dyn_cast<memref::StoreOp>(op))
      consider(op, store.getMemref(), store.getIndices());
  });
}

/// Rows of 34 elements, for example, allow accesses of two elements. Alignment that is unknown at
/// compile time is checked at run time.
void KernelLowering::align(const Streams &streams, Value size, Lanes &lanes) {
  unsigned &width = lanes.adjacent;
  SmallVector<Value> lengths{size};
  for (auto &[memref, indices] : streams.accesses) {
    if (indices.size() > 1)
      lengths.push_back(extent(source.getSizesOf(memref).back()));
    if (auto rows = source.getRowStride(memref))
      lengths.push_back(extent(rows->stride));
  }
  for (Value length : lengths)
    if (auto known = asConstant(length))
      while (*known % width)
        width /= 2;
  if (width == 1)
    return;
  for (Value length : lengths)
    if (!asConstant(length)) {
      Value rest = LLVM::AndOp::create(b, loc, length, number(width - 1));
      lanes.full = both(lanes.full, isEqual(rest, number(0)));
    }
  // Pointers, and their required alignment.
  std::map<unsigned, Value> pointers;
  llvm::SmallDenseSet<Value> seen;
  for (auto &[memref, indices] : streams.accesses) {
    if (!seen.insert(memref).second)
      continue;
    unsigned bytes = getBytes(cast<MemRefType>(memref.getType()).getElementType());
    Value &bits = pointers[std::min(kVectorBytes, bytes * width)];
    Value value = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), map.lookup(memref));
    bits = bits ? LLVM::OrOp::create(b, loc, bits, value).getResult() : value;
  }
  for (auto &[alignment, bits] : pointers) {
    Value rest = LLVM::AndOp::create(b, loc, bits, constant(alignment - 1));
    lanes.aligned = both(lanes.aligned, isEqual(rest, constant(0)));
  }
}

/// The number of lanes is the number of narrowest elements in 16 bytes, reduced to a divisor of the
/// known sizes.
KernelLowering::Lanes KernelLowering::findLanes(ArrayRef<std::pair<Block *, Value>> bodies,
                                                Value size) {
  Lanes lanes;
  Streams streams;
  for (auto [body, last] : bodies)
    addStreams(*body, last, /*cuts=*/false, streams);
  if (streams.accesses.empty())
    return lanes;
  lanes.adjacent = std::min(kVectorBytes / streams.narrowest, kMaxLanes);
  align(streams, size, lanes);
  lanes.width = lanes.stride = lanes.adjacent;
  return lanes;
}

/// A chunk has at most 16 bytes of adjacent elements, so that simultaneous accesses of threads are
/// adjacent. If a row has two halves whose elements are combined pairwise (tpc.rotary), a thread
/// computes both elements of a pair.
KernelLowering::Lanes KernelLowering::findChunks(kernel::ElementsOp op) {
  Lanes lanes;
  Streams streams;
  Value last = op.getIndices().back(), size = extent(op.getExprs().back());
  addStreams(op.getBody().front(), last, /*cuts=*/true, streams);
  if (streams.accesses.empty())
    return lanes;
  std::optional<int64_t> length = asConstant(size);
  llvm::SmallSetVector<int64_t, 4> cuts;
  for (int64_t cut : streams.cuts)
    if (cut > 0 && (!length || cut < *length))
      cuts.insert(cut);
  unsigned &adjacent = lanes.adjacent;
  adjacent = std::min(kVectorBytes / streams.widest, kMaxLanes);
  if (length && !cuts.empty() && *length <= adjacent && llvm::isPowerOf2_64(*length)) {
    adjacent = *length;
    align(streams, size, lanes);
    if (adjacent == *length)
      lanes.width = lanes.stride = adjacent;
    else
      lanes = Lanes();
  } else if (length && cuts.size() == 1 && 2 * cuts[0] == *length &&
             cuts[0] * streams.narrowest % kSector == 0) {
    adjacent = std::min(adjacent, kMaxLanes / 2);
    align(streams, size, lanes);
    lanes.width = 2 * adjacent;
    lanes.stride = adjacent;
    for (int64_t half : {int64_t(0), cuts[0]})
      for (unsigned lane = 0; lane < adjacent; ++lane)
        lanes.offsets.push_back(half + lane);
    length = cuts[0];
  } else {
    for (ArrayRef<int64_t> offsets : {ArrayRef(cuts.getArrayRef()), ArrayRef(streams.shifts)})
      for (int64_t offset : offsets)
        while (offset % adjacent)
          adjacent /= 2;
    align(streams, size, lanes);
    lanes.width = lanes.stride = adjacent;
  }
  if (length)
    lanes.count = *length / lanes.stride;
  return lanes;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void KernelLowering::lowerElements(kernel::ElementsOp op) {
  if (isInRegisters(op))
    return runInRegisters(op);
  auto returningNothing = [](auto &&body) {
    return [&body] {
      body();
      return SmallVector<Value>();
    };
  };
  SmallVector<Value> sizes = extents(op.getExprs());
  Block &body = op.getBody().front();
  if (sizes.empty()) {
    auto once = [&] { lowerBody(body); };
    branch(isEqual(chunkOfRow ? chunkOfRow : inGroup, number(0)), {}, returningNothing(once),
           nullptr);
    return;
  }
  if (chunkOfRow) {
    const Lanes &lanes = used.lanes[op];
    Value chunks = countChunks(op, lanes);
    auto lowerThisChunk = [&] {
      lowerChunk(op, sizes, chunkOfRow, countChunksOfLast(sizes.back(), lanes), lanes);
    };
    auto known = asConstant(chunks);
    if (used.isOnly || (known && known == asConstant(chunksOfRow)))
      lowerThisChunk();
    else
      branch(less(chunkOfRow, chunks), {}, returningNothing(lowerThisChunk), nullptr);
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

/// Computes chunks of `width` elements along the last dimension, counted over all dimensions.
void KernelLowering::runElements(kernel::ElementsOp op, ArrayRef<Value> sizes, unsigned width) {
  Lanes lanes;
  lanes.width = lanes.adjacent = lanes.stride = width;
  Value perLast = quotient(sizes.back(), number(width));
  Value chunks = mul(product(sizes.drop_back()), perLast);
  emitLoop(inGroup, chunks, groupSize, {}, [&](Value chunk, ValueRange) {
    lowerChunk(op, sizes, chunk, perLast, lanes);
    return SmallVector<Value>();
  });
}

void KernelLowering::lowerChunk(kernel::ElementsOp op, ArrayRef<Value> sizes, Value chunk,
                                Value perLast, const Lanes &lanes) {
  auto indices = op.getIndices();
  Value last = chunk;
  if (indices.size() > 1) {
    last = remainder(chunk, perLast);
    Value linear = quotient(chunk, perLast);
    for (unsigned i = indices.size() - 2; i > 0; --i) {
      mapIndex(indices[i], remainder(linear, sizes[i]), sizes[i]);
      linear = quotient(linear, sizes[i]);
    }
    mapIndex(indices[0], linear, sizes[0]);
  }
  lowerLanes(op.getBody().front(), indices.back(), mul(last, number(lanes.stride)), sizes.back(),
             lanes, lanes.width > 1);
}

//===----------------------------------------------------------------------===//
// Conditions on the index within a row
//===----------------------------------------------------------------------===//

std::optional<int64_t> KernelLowering::getKnown(Value index) {
  if (auto literal = index.getDefiningOp<arith::ConstantOp>())
    return cast<IntegerAttr>(literal.getValue()).getInt();
  if (auto size = index.getDefiningOp<kernel::SizeOp>())
    return asConstant(extent(size.getExpr()));
  return std::nullopt;
}

std::optional<int64_t> KernelLowering::getShift(Value index, Value last) {
  if (index == last)
    return 0;
  Operation *op = index.getDefiningOp();
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) || !index.getType().isIndex())
    return std::nullopt;
  auto before = getShift(op->getOperand(0), last), by = getKnown(op->getOperand(1));
  if (!before || !by)
    return std::nullopt;
  return isa<arith::AddIOp>(op) ? *before + *by : *before - *by;
}

std::optional<int64_t> KernelLowering::getCut(Value condition, Value last) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return std::nullopt;
  auto shift = getShift(compare.getLhs(), last), limit = getKnown(compare.getRhs());
  return shift && limit ? std::optional(*limit - *shift) : std::nullopt;
}

/// The side of the cut is known for each lane, or all lanes are on the same side.
bool KernelLowering::lowerCut(arith::CmpIOp op) {
  Value result = op.getResult();
  knownOfLane.erase(result);
  sameOfLanes.erase(result);
  std::optional<int64_t> cut = getCut(result, lastIndex);
  if (!checksOnce || !cut)
    return false;
  SmallVector<bool> known(width);
  auto isKnown = [&](unsigned i) {
    if (!chunk.count)
      return false;
    int64_t first = chunk.offsets[i], last = first + (*chunk.count - 1) * chunk.stride;
    known[i] = last < *cut;
    return last < *cut || first >= *cut;
  };
  if (llvm::all_of(active, isKnown)) {
    SmallVector<Value> values;
    for (bool is : known)
      values.push_back(LLVM::ConstantOp::create(b, loc, b.getBoolAttr(is)));
    laneValues[result] = values;
    knownOfLane[result] = known;
    return true;
  }
  int64_t first = chunk.offsets[active[0]], count = active.size();
  if (chunk.offsets[active.back()] != first + count - 1 || chunk.stride % count ||
      (*cut - first) % count)
    return false;
  llvm::SaveAndRestore savedLane(lane, active[0]);
  for (Value operand : op->getOperands())
    if (auto it = laneValues.find(operand); it != laneValues.end())
      map.map(operand, it->second[active[0]]);
  lowerOp(op);
  laneValues[result] = SmallVector<Value>(width, map.lookup(result));
  sameOfLanes.insert(result);
  return true;
}
