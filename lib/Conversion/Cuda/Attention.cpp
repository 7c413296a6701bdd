//===- Attention.cpp - Attention kernels: common part, tiles of rows ------===//

#include "AttentionEmitter.h"
#include "Threads.h"

#include "tpc/dependent_launch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::attention;

//===----------------------------------------------------------------------===//
// Common part of all kernels
//===----------------------------------------------------------------------===//

static Type getFloatType(MLIRContext *context, int32_t dtype) {
  switch (dtype) {
  case TPC_F32:
    return Float32Type::get(context);
  case TPC_F16:
    return Float16Type::get(context);
  case TPC_BF16:
    return BFloat16Type::get(context);
  default:
    return {};
  }
}

AttentionBase::AttentionBase(ModuleOp module, const AttentionVariant &variant)
    : TensorCoreEmitter(OpBuilder::atBlockEnd(module.getBody()), module.getLoc()), variant(variant),
      element(getFloatType(b.getContext(), variant.element)),
      biasType(getFloatType(b.getContext(), variant.bias)),
      slopesType(getFloatType(b.getContext(), variant.slopes)),
      sinksType(getFloatType(b.getContext(), variant.sinks)) {}

LLVM::LLVMFuncOp AttentionBase::begin(StringRef name, unsigned parameters, unsigned threads) {
  LLVM::LLVMFuncOp kernel = beginKernel(name, parameters, threads);
  callArguments = kernel.getArgument(0);
  createDependency(b, loc, ::tpc::dependent_launch::kLaunchDependents);
  // Arguments are constant, so they are loaded before the wait; unused ones are removed as dead
  // code.
  loadArguments();
  createDependency(b, loc, ::tpc::dependent_launch::kWait);
  thread = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  lane = rem(thread, 32);
  warp = div(thread, 32);
  computeSizes();
  return kernel;
}

Value AttentionBase::loadArgument(Args::FieldIndex index) {
  const abi::Field &field = Args::fields[index];
  Type type = field.kind == abi::Kind::Pointer ? callArguments.getType()
                                               : abi::getType(b.getContext(), field.kind);
  Value where = at(callArguments, b.getI8Type(), static_cast<int64_t>(field.offset));
  return load(where, type);
}

void AttentionBase::loadArguments() {
  arguments.clear();
  for (size_t i = 0; i < std::size(Args::fields); ++i)
    arguments.push_back(loadArgument(static_cast<Args::FieldIndex>(i)));
}

void AttentionBase::computeSizes() {
  keys = size(Args::seq_k);
  queries = size(Args::seq_q);
  kvHeads = size(Args::heads_kv);
  group = div(size(Args::heads_q), max(kvHeads, i32(1)));
  rows = mul(queries, group);
  pairs = mul(size(Args::batch), kvHeads);
}

void AttentionBase::beginPair(Value newPair) {
  pair = newPair;
  batch = div(pair, kvHeads);
  kvHead = rem(pair, kvHeads);
  before = {};
  if (variant.cached)
    before = load(at(argument(Args::lengths), b.getI64Type(), batch), b.getI64Type());
}

Value AttentionBase::getLimit(Value query, Args::FieldIndex offset) {
  Value limit = add(add(wide(query), argument(offset)), 1);
  if (before)
    limit = add(limit, before);
  return narrow(min(max(limit, i64(0)), wide(keys)));
}

AttentionBase::VisibleRow AttentionBase::getVisibleRow(Value row) {
  VisibleRow made{getRow(row, kvHead), {}, keys};
  if (variant.causal)
    made.lastKey = getLimit(made.row.query, Args::causal_offset);
  if (variant.windowed)
    made.firstKey = getLimit(made.row.query, Args::window_offset);
  return made;
}

AttentionBase::Row AttentionBase::getRow(Value row, Value kvHead) {
  return {div(row, group), add(mul(kvHead, group), rem(row, group))};
}

Value AttentionBase::getOffset(const Row &row, Value batch, Args::FieldIndex stride,
                               int64_t elements) {
  Value token = add(product(batch, queries), wide(row.query));
  return add(mul(token, argument(stride)), wide(mul(row.head, elements)));
}

Value AttentionBase::getKeyOffset(Value batch, Value kvHead, bool isValue) {
  auto ofKeyOr = [&](Args::FieldIndex key, Args::FieldIndex value) {
    return argument(isValue ? value : key);
  };
  if (variant.cached)
    return add(mul(wide(batch), ofKeyOr(Args::k_batch_stride, Args::v_batch_stride)),
               mul(wide(kvHead), ofKeyOr(Args::k_head_stride, Args::v_head_stride)));
  int64_t elements = isValue ? variant.valueSize : variant.headSize;
  return add(mul(product(batch, keys), ofKeyOr(Args::k_row_stride, Args::v_row_stride)),
             wide(mul(kvHead, elements)));
}

Value AttentionBase::addSink(Value &maximum, Value &total, const Row &row) {
  if (!sinksType)
    return {};
  Value sink = toF32(load(at(argument(Args::sinks), sinksType, row.head), sinksType));
  Value none = f32(-std::numeric_limits<double>::infinity()), all = fmax(maximum, sink);
  Value base = select(equals(all, none), f32(0), all);
  Value weight = expOfNegative(fsub(maximum, base));
  total = fma(total, weight, expOfNegative(fsub(sink, base)));
  maximum = all;
  return weight;
}

AttentionBase::Values AttentionBase::getMeans(Value batch, Value kvHead, ArrayRef<Value> columns) {
  Value offset = getKeyOffset(batch, kvHead, /*isValue=*/true);
  Value from = argument(Args::v), step = size(Args::v_row_stride);
  Values zeros(columns.size(), f32(0));
  Values sums = loop(i32(0), keys, i32(1), zeros, [&](Value key, ValueRange before) {
    Value row = add(offset, product(key, step));
    Values after;
    for (auto [column, sum] : llvm::zip_equal(columns, before)) {
      // Columns beyond the last one read the last column.
      Value safe = min(column, i32(variant.valueSize - 1));
      Value value = load(at(from, element, add(row, wide(safe))), element);
      after.push_back(fadd(sum, toF32(value)));
    }
    return after;
  });
  Value count = arith::SIToFPOp::create(b, loc, b.getF32Type(), max(keys, i32(1)));
  for (Value &sum : sums)
    sum = fdiv(sum, count);
  return sums;
}

Value AttentionBase::isAligned(Args::FieldIndex pointer, ArrayRef<Args::FieldIndex> strides,
                               int64_t elements, unsigned bytes) {
  unsigned size = element.getIntOrFloatBitWidth() / 8;
  if (elements * size % bytes)
    return {};
  Value where = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), argument(pointer));
  Value bits = where;
  for (Args::FieldIndex stride : strides)
    bits = arith::OrIOp::create(b, loc, bits, mul(argument(stride), size));
  return compare(Predicate::eq, arith::AndIOp::create(b, loc, bits, i64(bytes - 1)), i64(0));
}

Value AttentionBase::areKeysAligned(bool isValue, unsigned bytes) {
  Args::FieldIndex pointer = isValue ? Args::v : Args::k;
  int64_t elements = isValue ? variant.valueSize : variant.headSize;
  SmallVector<Args::FieldIndex, 3> strides = {isValue ? Args::v_row_stride : Args::k_row_stride};
  if (variant.cached) {
    strides.push_back(isValue ? Args::v_batch_stride : Args::k_batch_stride);
    strides.push_back(isValue ? Args::v_head_stride : Args::k_head_stride);
  }
  return isAligned(pointer, strides, elements, bytes);
}

//===----------------------------------------------------------------------===//
// Tiles of rows
//===----------------------------------------------------------------------===//

Launch TileEmitter::emit(StringRef name) {
  begin(name, 1, threads);
  Type f = b.getF32Type();
  keyLane = rem(lane, kKeyLanes);
  half = div(lane, kKeyLanes);
  constexpr unsigned atOnce = 16;
  queriesAtOnce = isAligned(Args::q, Args::q_row_stride, variant.headSize, atOnce);
  keysAtOnce = areKeysAligned(/*isValue=*/false, atOnce);
  valuesAtOnce = areKeysAligned(/*isValue=*/true, atOnce);

  // Memory of powers: rows of the first halves of all warps, then rows of the second halves, which
  // begin 16 banks further.
  unsigned powersOfHalf = rowsOfBlock / 2 * kKeysOfTile + 16;
  queryMemory = getDynamicShared();
  panelMemory = at(queryMemory, f, int64_t(rowsOfBlock * queryStride));
  powerMemory = at(panelMemory, f, int64_t(panelFloats));
  powerMemory =
      at(powerMemory, f, add(mul(half, powersOfHalf), mul(warp, rowsOfThread * kKeysOfTile)));
  unsigned floats = rowsOfBlock * queryStride + panelFloats + 2 * powersOfHalf;

  Value items = mul(ceilDiv(rows, rowsOfBlock), pairs);
  Value block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  Value blocks = NVVM::GridDimXOp::create(b, loc, b.getI32Type());
  loop(block, items, blocks, [&](Value item) { emitItem(item); });
  endKernel();
  Launch launch;
  launch.name = name.str();
  launch.shape = Shape::AttentionTiles;
  launch.threads = threads;
  launch.dynamicSharedBytes = floats * 4;
  return launch;
}

void TileEmitter::emitItem(Value item) {
  // Blocks of rows vary slowest. The last block is first, because it takes longest if attention is
  // causal.
  beginPair(rem(item, pairs));
  Value tile = sub(sub(ceilDiv(rows, rowsOfBlock), i32(1)), div(item, pairs));
  firstRow = mul(tile, rowsOfBlock);
  keyOffset = getKeyOffset(batch, kvHead, /*isValue=*/false);
  valueOffset = getKeyOffset(batch, kvHead, /*isValue=*/true);
  keysHere = keys;

  // Threads without a row use the indices of the last row.
  Value lastRow = sub(rows, i32(1));
  Value first = add(firstRow, add(mul(warp, 2 * rowsOfThread), mul(half, rowsOfThread)));
  rowsHere.clear();
  for (unsigned r = 0; r < rowsOfThread; ++r)
    rowsHere.push_back(getVisibleRow(min(add(first, int64_t(r)), lastRow)));
  Value begin = i32(0), end = keys;
  if (variant.causal) {
    Value last = div(min(add(firstRow, int64_t(rowsOfBlock - 1)), lastRow), group);
    end = getLimit(last, Args::causal_offset);
    // Cache entries after the last token may be uninitialized.
    if (variant.cached)
      keysHere = end;
  }
  if (variant.windowed)
    begin = mul(div(getLimit(div(firstRow, group), Args::window_offset), kKeysOfTile), kKeysOfTile);

  stageQueries();
  State state{Values(rowsOfThread, f32(-std::numeric_limits<double>::infinity())),
              Values(rowsOfThread, f32(0)), Values(rowsOfThread * sumsOfRow(), f32(0))};
  state =
      getState(loop(begin, end, i32(kKeysOfTile), state.list(), [&](Value key, ValueRange before) {
        State carried = getState(before);
        addTile(carried, key);
        return carried.list();
      }));
  for (Value &total : state.total)
    total = getSumOverKeys(total);
  for (unsigned r = 0; r < rowsOfThread; ++r) {
    Value &maximum = state.maximum[r], weight = addSink(maximum, state.total[r], rowsHere[r].row);
    for (unsigned i = 0; weight && i < sumsOfRow(); ++i)
      state.sums[r * sumsOfRow() + i] = fmul(state.sums[r * sumsOfRow() + i], weight);
  }
  writeResult(state);
}

void TileEmitter::writeResult(const State &state) {
  Value first = add(firstRow, add(mul(warp, 2 * rowsOfThread), mul(half, rowsOfThread)));
  unsigned perRow = sumsOfRow();
  Values columns;
  for (const Panel &panel : valuePanels)
    for (unsigned i = 0; i < panel.perLane; ++i)
      columns.push_back(add(mul(keyLane, panel.perLane), int64_t(panel.begin + i)));
  Values visible;
  for (Value total : state.total)
    visible.push_back(arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, total, f32(0)));
  Values otherwise(perRow, f32(0));
  if (variant.uniformRows) {
    Value all = visible[0];
    for (Value one : llvm::drop_begin(visible))
      all = both(all, one);
    Values zeros = otherwise;
    SmallVector<Type> types(perRow, b.getF32Type());
    otherwise =
        branch(all, types, [&] { return zeros; }, [&] { return getMeans(batch, kvHead, columns); });
  }
  Value to = argument(Args::out);
  for (unsigned r = 0; r < rowsOfThread; ++r) {
    Value row = add(first, int64_t(r));
    Value scale = fdiv(f32(1), state.total[r]);
    Values results;
    for (unsigned i = 0; i < perRow; ++i) {
      Value result = fmul(state.sums[r * perRow + i], scale);
      results.push_back(fromF32(select(visible[r], result, otherwise[i]), element));
    }
    branch(less(row, rows), [&] {
      Value offset = getOffset(rowsHere[r].row, batch, Args::out_row_stride, variant.valueSize);
      unsigned next = 0;
      for (const Panel &panel : valuePanels) {
        ArrayRef<Value> panelResults = ArrayRef<Value>(results).slice(next, panel.perLane);
        ArrayRef<Value> panelColumns = ArrayRef<Value>(columns).slice(next, panel.perLane);
        next += panel.perLane;
        auto addressOf = [&](Value column) { return at(to, element, add(offset, wide(column))); };
        auto storeEach = [&] {
          for (auto [column, value] : llvm::zip_equal(panelColumns, panelResults))
            branch(less(column, i32(variant.valueSize)),
                   [&, column = column, value = value] { storeMany(addressOf(column), {value}); });
          return Values();
        };
        unsigned bytes = panel.perLane * element.getIntOrFloatBitWidth() / 8;
        Value aligned;
        if (panel.perLane > 1 && panel.width % panel.perLane == 0)
          aligned = isAligned(Args::out, Args::out_row_stride, variant.valueSize, bytes);
        if (!aligned) {
          storeEach();
          continue;
        }
        branch(
            aligned, {},
            [&] {
              branch(less(panelColumns[0], i32(variant.valueSize)),
                     [&] { storeMany(addressOf(panelColumns[0]), panelResults); });
              return Values();
            },
            storeEach);
      }
    });
  }
}
