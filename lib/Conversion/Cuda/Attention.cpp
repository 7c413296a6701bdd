//===- Attention.cpp - Attention kernels ----------------------------------===//

#include "AttentionEmitter.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::attention;

//===----------------------------------------------------------------------===//
// Common part of all kernels
//===----------------------------------------------------------------------===//

static Type getType(MLIRContext *context, int32_t dtype) {
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
    : ThreadEmitter(OpBuilder::atBlockEnd(module.getBody()), module.getLoc()), variant(variant),
      element(getType(b.getContext(), variant.element)),
      biasType(getType(b.getContext(), variant.bias)),
      slopesType(getType(b.getContext(), variant.slopes)) {}

void AttentionBase::begin(StringRef name, unsigned threads) {
  LLVM::LLVMFuncOp kernel = beginKernel(name, 2, threads);
  Value args = kernel.getArgument(0);
  workspace = kernel.getArgument(1);
  // Loaded here, so that loops read nothing; unused arguments are removed as dead code.
  arguments.clear();
  for (const abi::Field &field : Args::fields) {
    Type type = field.kind == abi::Kind::Pointer ? args.getType()
                                                 : abi::getType(b.getContext(), field.kind);
    Value where = at(args, b.getI8Type(), static_cast<int64_t>(field.offset));
    arguments.push_back(load(where, type, /*invariant=*/true));
  }
  thread = NVVM::ThreadIdXOp::create(b, loc, b.getI32Type());
  lane = rem(thread, 32);
  warp = div(thread, 32);
  keys = size(Args::seq_k);
  queries = size(Args::seq_q);
  kvHeads = size(Args::heads_kv);
  group = div(size(Args::heads_q), max(kvHeads, i32(1)));
  rows = mul(queries, group);
  pairs = mul(size(Args::batch), kvHeads);
  parts = ceilDiv(keys, kKeysOfPart);
}

AttentionBase::Row AttentionBase::getRow(Value row, Value kvHead) {
  return {div(row, group), add(mul(kvHead, group), rem(row, group))};
}

Value AttentionBase::getOffset(const Row &row, Value batch, Args::Place stride, int64_t elements) {
  Value token = add(product(batch, queries), wide(row.query));
  return add(mul(token, argument(stride)), wide(mul(row.head, elements)));
}

Value AttentionBase::getKeyOffset(Value batch, Value kvHead, bool isValue) {
  auto ofKeyOr = [&](Args::Place key, Args::Place value) {
    return argument(isValue ? value : key);
  };
  if (variant.cached)
    return add(mul(wide(batch), ofKeyOr(Args::k_batch_stride, Args::v_batch_stride)),
               mul(wide(kvHead), ofKeyOr(Args::k_head_stride, Args::v_head_stride)));
  int64_t elements = isValue ? variant.valueSize : variant.headSize;
  return add(mul(product(batch, keys), ofKeyOr(Args::k_row_stride, Args::v_row_stride)),
             wide(mul(kvHead, elements)));
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
      Value value = load(at(from, element, add(row, wide(safe))), element, true);
      after.push_back(fadd(sum, toF32(value)));
    }
    return after;
  });
  Value count = arith::SIToFPOp::create(b, loc, b.getF32Type(), max(keys, i32(1)));
  for (Value &sum : sums)
    sum = fdiv(sum, count);
  return sums;
}

Value AttentionBase::getPartial(Value pair, Value row, Value part) {
  Value index = add(mul(add(product(pair, rows), wide(row)), wide(parts)), wide(part));
  return at(workspace, b.getF32Type(), mul(index, getPartialSize(variant.valueSize)));
}

//===----------------------------------------------------------------------===//
// Tiles of rows
//===----------------------------------------------------------------------===//

Launch TileEmitter::emit(StringRef name) {
  begin(name, threads);
  Type f = b.getF32Type();
  keyLane = rem(lane, kKeyLanes);
  half = div(lane, kKeyLanes);
  constexpr unsigned atOnce = 16;
  queriesAtOnce = isAligned(Args::q, Args::q_row_stride, variant.headSize, atOnce);
  keysAtOnce = areKeysAligned(/*isValue=*/false, atOnce);
  valuesAtOnce = areKeysAligned(/*isValue=*/true, atOnce);

  // Powers: rows of the first halves of all warps, then, 16 banks further, rows of the second
  // halves.
  unsigned powersOfHalf = rowsOfBlock / 2 * kKeysOfTile + 16;
  queryMemory = getDynamicShared();
  panelMemory = at(queryMemory, f, int64_t(rowsOfBlock * queryStride));
  powerMemory = at(panelMemory, f, int64_t(panelFloats));
  powerMemory =
      at(powerMemory, f, add(mul(half, powersOfHalf), mul(warp, rowsOfThread * kKeysOfTile)));
  unsigned floats = rowsOfBlock * queryStride + panelFloats + 2 * powersOfHalf;

  Value items = mul(ceilDiv(rows, rowsOfBlock), pairs);
  if (isSplit)
    items = mul(items, parts);
  Value block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  Value blocks = NVVM::GridDimXOp::create(b, loc, b.getI32Type());
  loop(block, items, blocks, [&](Value item) { emitItem(item); });
  endKernel();
  Launch launch;
  launch.name = name.str();
  launch.shape = isSplit ? Shape::AttentionSplit : Shape::AttentionTiles;
  launch.threads = threads;
  launch.dynamicSharedBytes = floats * 4;
  return launch;
}

void TileEmitter::emitItem(Value item) {
  // Blocks of rows vary slowest, the last block first: with causality it takes longest.
  part = i32(0);
  if (isSplit) {
    part = rem(item, parts);
    item = div(item, parts);
  }
  pair = rem(item, pairs);
  Value tile = sub(sub(ceilDiv(rows, rowsOfBlock), i32(1)), div(item, pairs));
  firstRow = mul(tile, rowsOfBlock);
  batch = div(pair, kvHeads);
  kvHead = rem(pair, kvHeads);
  keyOffset = getKeyOffset(batch, kvHead, /*isValue=*/false);
  valueOffset = getKeyOffset(batch, kvHead, /*isValue=*/true);
  before = {};
  keysHere = keys;
  if (variant.cached)
    before = load(at(argument(Args::lengths), b.getI64Type(), batch), b.getI64Type(), true);

  // Threads without a row compute the last row, without its queries.
  Value lastRow = sub(rows, i32(1));
  Value first = add(firstRow, add(mul(warp, 2 * rowsOfThread), mul(half, rowsOfThread)));
  rowsHere.clear();
  for (unsigned r = 0; r < rowsOfThread; ++r)
    rowsHere.push_back(getRow(min(add(first, int64_t(r)), lastRow), kvHead));
  Value all = wide(keys);
  auto getLimit = [&](Value query, Args::Place offset) {
    Value limit = add(add(wide(query), argument(offset)), 1);
    if (before)
      limit = add(limit, before);
    return narrow(min(max(limit, i64(0)), all));
  };
  Value begin = i32(0), end = keys;
  lastKeys.clear();
  firstKeys.clear();
  if (variant.causal) {
    for (const Row &row : rowsHere)
      lastKeys.push_back(getLimit(row.query, Args::causal_offset));
    Value last = div(min(add(firstRow, int64_t(rowsOfBlock - 1)), lastRow), group);
    end = getLimit(last, Args::causal_offset);
    // Cache entries after the last token may be uninitialized.
    if (variant.cached)
      keysHere = end;
  }
  if (variant.windowed) {
    for (const Row &row : rowsHere)
      firstKeys.push_back(getLimit(row.query, Args::window_offset));
    begin = mul(div(getLimit(div(firstRow, group), Args::window_offset), kKeysOfTile), kKeysOfTile);
  }
  if (isSplit) {
    Value ownBegin = mul(part, kKeysOfPart);
    begin = max(begin, ownBegin);
    end = min(end, add(ownBegin, kKeysOfPart));
  }

  stageQueries();
  State state{Values(rowsOfThread, f32(-std::numeric_limits<double>::infinity())),
              Values(rowsOfThread, f32(0)), Values(rowsOfThread * sumsOfRow(), f32(0))};
  state =
      getState(loop(begin, end, i32(kKeysOfTile), state.list(), [&](Value key, ValueRange before) {
        State own = getState(before);
        addTile(own, key);
        return own.list();
      }));
  for (Value &total : state.total)
    total = getSumOverKeys(total);
  if (isSplit)
    writePartial(state);
  else
    writeResult(state);
}

void TileEmitter::writePartial(const State &state) {
  Type f = b.getF32Type();
  Value first = add(firstRow, add(mul(warp, 2 * rowsOfThread), mul(half, rowsOfThread)));
  for (unsigned r = 0; r < rowsOfThread; ++r) {
    Value row = add(first, int64_t(r));
    branch(less(row, rows), [&] {
      Value to = getPartial(pair, row, part);
      unsigned next = r * sumsOfRow();
      for (const Panel &panel : valuePanels)
        for (unsigned i = 0; i < panel.perLane; ++i) {
          Value sum = state.sums[next++];
          Value column = add(mul(keyLane, panel.perLane), int64_t(panel.begin + i));
          branch(less(column, i32(variant.valueSize)),
                 [&] { storeMany(at(to, f, column), {sum}); });
        }
      branch(compare(Predicate::eq, keyLane, i32(0)), [&] {
        Value behind = at(to, f, getPartialSize(variant.valueSize) - 4);
        storeMany(behind, {state.maximum[r]});
        storeMany(at(behind, f, int64_t(1)), {state.total[r]});
      });
    });
  }
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
      Value offset = getOffset(rowsHere[r], batch, Args::out_row_stride, variant.valueSize);
      unsigned next = 0;
      for (const Panel &panel : valuePanels) {
        ArrayRef<Value> own = ArrayRef<Value>(results).slice(next, panel.perLane);
        ArrayRef<Value> places = ArrayRef<Value>(columns).slice(next, panel.perLane);
        next += panel.perLane;
        auto place = [&](Value column) { return at(to, element, add(offset, wide(column))); };
        auto one = [&] {
          for (auto [column, value] : llvm::zip_equal(places, own))
            branch(less(column, i32(variant.valueSize)),
                   [&, column = column, value = value] { storeMany(place(column), {value}); });
          return Values();
        };
        unsigned bytes = panel.perLane * element.getIntOrFloatBitWidth() / 8;
        Value aligned;
        if (panel.perLane > 1 && panel.width % panel.perLane == 0)
          aligned = isAligned(Args::out, Args::out_row_stride, variant.valueSize, bytes);
        if (!aligned) {
          one();
          continue;
        }
        branch(
            aligned, {},
            [&] {
              branch(less(places[0], i32(variant.valueSize)),
                     [&] { storeMany(place(places[0]), own); });
              return Values();
            },
            one);
      }
    });
  }
}

//===----------------------------------------------------------------------===//
// Combination of splits
//===----------------------------------------------------------------------===//

Launch CombineEmitter::emit(StringRef name) {
  constexpr unsigned threads = kWarp * getRowsOfItem(Kernel::Combine);
  begin(name, threads);
  Type f = b.getF32Type();
  Value items = ceilDiv(mul(rows, pairs), threads / kWarp);
  Value block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  Value blocks = NVVM::GridDimXOp::create(b, loc, b.getI32Type());
  int64_t partialSize = getPartialSize(variant.valueSize);
  loop(block, items, blocks, [&](Value item) {
    Value index = add(mul(item, threads / kWarp), warp);
    branch(less(index, mul(rows, pairs)), [&] {
      Value pair = div(index, rows), row = rem(index, rows);
      Value batch = div(pair, kvHeads), kvHead = rem(pair, kvHeads);
      Value from = getPartial(pair, row, i32(0));
      auto partial = [&](Value part) { return at(from, f, product(part, i32(partialSize))); };
      Value none = f32(-std::numeric_limits<double>::infinity());
      Value maximum = loop(i32(0), parts, i32(1), none, [&](Value part, ValueRange before) {
        Value own = load(at(partial(part), f, partialSize - 4), f);
        return Values{fmax(before[0], own)};
      })[0];
      Value base = select(equals(maximum, none), f32(0), maximum);
      Values columns;
      for (int64_t i = 0; i < variant.valueSize; i += 32)
        columns.push_back(add(lane, i));
      Values zeros(columns.size() + 1, f32(0));
      Values sums = loop(i32(0), parts, i32(1), zeros, [&](Value part, ValueRange before) {
        Value own = partial(part), behind = at(own, f, partialSize - 4);
        Value weight = expOfNegative(fsub(load(behind, f), base));
        Values after{fma(weight, load(at(behind, f, int64_t(1)), f), before[0])};
        for (auto [column, sum] : llvm::zip_equal(columns, before.drop_front())) {
          Value safe = min(column, i32(variant.valueSize - 1));
          after.push_back(fma(weight, load(at(own, f, safe), f), sum));
        }
        return after;
      });
      Value visible = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, sums[0], f32(0));
      Values otherwise(columns.size(), f32(0));
      if (variant.uniformRows) {
        Values none = otherwise;
        SmallVector<Type> types(columns.size(), f);
        otherwise = branch(
            visible, types, [&] { return none; }, [&] { return getMeans(batch, kvHead, columns); });
      }
      Value scale = fdiv(f32(1), sums[0]), to = argument(Args::out);
      Value offset = getOffset(getRow(row, kvHead), batch, Args::out_row_stride, variant.valueSize);
      for (auto [i, column] : llvm::enumerate(columns))
        branch(less(column, i32(variant.valueSize)), [&, i = i, column = column] {
          Value result = select(visible, fmul(sums[i + 1], scale), otherwise[i]);
          storeMany(at(to, element, add(offset, wide(column))), {fromF32(result, element)});
        });
    });
  });
  endKernel();
  Launch launch;
  launch.name = name.str();
  launch.shape = Shape::AttentionCombine;
  launch.threads = threads;
  return launch;
}
