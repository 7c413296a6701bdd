//===- RoutedRows.cpp - Kernels of tokens in messages ---------------------===//
//
// core/RoutedRows.h defines the messages, tpc/routed.h the kernels. A warp handles 32 bits, or 8
// bits of whole rows, or a row; a block the places of a part. Values that messages copy are
// integers, so their bits do not change.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Cuda/Experts.h"

#include "ThreadEmitter.h"
#include "Threads.h"
#include "tpc/gemv.h"
#include "tpc/routed.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

using namespace ::tpc::gemv;

namespace {
class RoutedEmitter : ThreadEmitter {
public:
  RoutedEmitter(ModuleOp module, int32_t dtype)
      : ThreadEmitter(OpBuilder::atBlockEnd(module.getBody()), module.getLoc()), module(module),
        dtype(dtype), integer(b.getI32Type()),
        element(dtype == TPC_F32 ? b.getI32Type() : b.getI16Type()) {}

  void emitSelect();
  void emitSelectRows();
  void emitLocate();
  void emitPack();
  void emitUnpack();
  void emitAdd();

private:
  void begin(const Twine &name);
  void usePart(Value index);
  std::string withBits(StringRef name) { return (name + (dtype == TPC_F32 ? "_32" : "_16")).str(); }

  Value anyBits(Value x) { // OR of all lanes
    for (int32_t distance = kWarp / 2; distance >= 1; distance /= 2)
      x = either(x, createShuffle(b, loc, x, distance));
    return x;
  }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value mask(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value shift(Value x, Value y) { return arith::ShLIOp::create(b, loc, x, y); }
  Value countBits(Value x) { return LLVM::CtPopOp::create(b, loc, integer, x); }
  /// Returns the mask of bits below a number of at most 8.
  Value below(Value count) { return sub(shift(i32(1), count), i32(1)); }
  /// Returns whether the bits of an element are those of neither 0 nor -0.
  Value isNonzero(Value x) {
    Value bits = arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(element, dtype == TPC_F32 ? 0x7fffffff : 0x7fff));
    Value zero = arith::ConstantOp::create(b, loc, b.getIntegerAttr(element, 0));
    return compare(Predicate::ne, mask(x, bits), zero);
  }
  Value isFirstLane() { return compare(Predicate::eq, lane, i32(0)); }
  Value isSet(Value number) { return compare(Predicate::ne, number, i32(0)); }
  Value isPlace(Value place) { return compare(Predicate::sge, place, i32(0)); }
  Value zeroElement() { return arith::ConstantOp::create(b, loc, b.getIntegerAttr(element, 0)); }
  Value loadByte(Value offset) {
    Value byte = load(at(bits, b.getI8Type(), offset), b.getI8Type());
    return arith::ExtUIOp::create(b, loc, integer, byte);
  }
  Value getRow(Value row) {
    return at(tensor, element, mul(add(firstRow, wide(row)), wide(width)));
  }
  Value getData(Value place) { return at(data, element, add(firstData, wide(place))); }
  Value loadPlace(Value row) {
    return load(at(places, integer, add(firstPlace, wide(row))), integer);
  }
  /// Returns the column of element i of a token.
  Value getColumn(Value i) { return select(less(i, column), i, add(i, experts)); }

  ModuleOp module;
  const int32_t dtype;
  const Type integer, element;
  Value tensor, parts, bits, places, sizes, data;
  Value blocksPerPart, width, column, experts, numParts, combines;
  Value thread, block, lane, warp, tokenSize;
  // Fields of the part. Offsets have 64 bits.
  Value firstRow, rows, firstWeight, weights, firstBit, firstPlace, firstData;
};
} // namespace

void RoutedEmitter::usePart(Value index) {
  Type number = b.getI64Type();
  Value part = at(parts, number, mul(wide(index), ::tpc::routed::kPartFields));
  auto field = [&](int64_t i) { return load(at(part, number, i), number); };
  firstRow = field(0);
  rows = narrow(field(1));
  firstWeight = narrow(field(2));
  weights = narrow(field(3));
  firstBit = field(4);
  firstPlace = field(5);
  firstData = field(6);
}

void RoutedEmitter::begin(const Twine &name) {
  Value *pointers[] = {&tensor, &parts, &bits, &places, &sizes, &data};
  Value *numbers[] = {&blocksPerPart, &width, &column, &experts, &numParts, &combines};
  LLVM::LLVMFuncOp kernel =
      beginKernel(name.str(), std::size(pointers), kThreads, std::size(numbers));
  SmallVector<Value *> parameters(std::begin(pointers), std::end(pointers));
  llvm::append_range(parameters, numbers);
  for (auto [value, argument] : llvm::zip_equal(parameters, kernel.getArguments()))
    *value = argument;
  createWait(b, loc);
  thread = NVVM::ThreadIdXOp::create(b, loc, integer);
  block = NVVM::BlockIdXOp::create(b, loc, integer);
  lane = rem(thread, kWarp);
  usePart(div(block, blocksPerPart));
  warp = add(mul(rem(block, blocksPerPart), kWarps), div(thread, kWarp)); // within the part
  tokenSize = sub(width, experts);
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

void RoutedEmitter::emitSelect() {
  begin(withBits("tpc_routed_select"));
  Value first = mul(warp, kWarp), count = mul(rows, weights), own = add(first, lane);
  branch(less(first, count), [&] {
    Value bit = branch(
        less(own, count), {integer},
        [&] {
          Value expert = add(firstWeight, rem(own, weights));
          Value from = at(getRow(div(own, weights)), element, add(column, expert));
          return Values{select(isNonzero(load(from, element)), shift(i32(1), lane), i32(0))};
        },
        [&] { return Values{i32(0)}; })[0];
    Value word = anyBits(bit);
    branch(isFirstLane(), [&] {
      storeMany(at(bits, b.getI8Type(), add(firstBit, wide(mul(warp, kWarp / 8)))), {word});
    });
  });
  endKernel();
}

void RoutedEmitter::emitSelectRows() {
  begin(withBits("tpc_routed_select_rows"));
  Value first = mul(warp, 8);
  branch(less(first, rows), [&] {
    Value byte = loop(i32(0), i32(8), i32(1), {i32(0)}, [&](Value i, ValueRange now) {
      Value row = add(first, i);
      Value any = branch(
          less(row, rows), {integer},
          [&] {
            Value from = getRow(row);
            return loop(lane, width, i32(kWarp), {i32(0)}, [&](Value at32, ValueRange found) {
              Value x = load(at(from, element, wide(at32)), element);
              return Values{select(isNonzero(x), i32(1), found[0])};
            });
          },
          [&] { return Values{i32(0)}; })[0];
      return Values{either(now[0], shift(anyBits(any), i))};
    })[0];
    branch(isFirstLane(), [&] {
      Value narrowed = arith::TruncIOp::create(b, loc, b.getI8Type(), byte);
      storeMany(at(bits, b.getI8Type(), add(firstBit, wide(warp))), {narrowed});
    });
  });
  endKernel();
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void RoutedEmitter::emitLocate() {
  begin("tpc_routed_locate");
  constexpr llvm::StringLiteral name = "tpc_routed_totals";
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
  LLVM::GlobalOp::create(outside, loc, LLVM::LLVMArrayType::get(integer, kWarps),
                         /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                         /*alignment=*/16, space);
  Value totals =
      LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), name);
  Value perRow = select(isSet(combines), i32(1), weights);

  Value end = loop(i32(0), rows, i32(kThreads), {i32(0)}, [&](Value base, ValueRange now) {
    Value row = add(base, thread);
    Value count = branch(
        less(row, rows), {integer},
        [&] {
          Value from = mul(row, perRow), to = add(from, perRow);
          return loop(div(from, 8), ceilDiv(to, 8), i32(1), {i32(0)},
                      [&](Value byte, ValueRange counted) {
                        Value start = mul(byte, 8);
                        Value low = below(max(sub(from, start), i32(0)));
                        Value all = below(min(sub(to, start), i32(8)));
                        Value own = mask(loadByte(add(firstBit, wide(byte))), sub(all, low));
                        return Values{add(counted[0], countBits(own))};
                      });
        },
        [&] { return Values{i32(0)}; })[0];
    Value size = add(tokenSize, select(isSet(combines), i32(0), count));
    // The sum of all lanes, and of those before this one.
    Value sum = select(isSet(count), size, i32(0)), before = i32(0);
    for (int32_t distance = 1; distance < kWarp; distance *= 2) {
      Value other = createShuffle(b, loc, sum, distance);
      before = select(isSet(mask(lane, i32(distance))), add(before, other), before);
      sum = add(sum, other);
    }
    branch(isFirstLane(), [&] { storeMany(at(totals, integer, div(thread, kWarp)), {sum}); });
    barrier();
    Value next = now[0];
    before = add(before, next);
    for (int64_t i = 0; i < kWarps; ++i) {
      Value total = load(at(totals, integer, i), integer);
      before = select(less(i32(i), div(thread, kWarp)), add(before, total), before);
      next = add(next, total);
    }
    barrier();
    branch(less(row, rows), [&] {
      storeMany(at(places, integer, add(firstPlace, wide(row))),
                {select(isSet(count), before, i32(-1))});
    });
    return Values{next};
  })[0];
  branch(compare(Predicate::eq, thread, i32(0)),
         [&] { storeMany(at(sizes, integer, wide(block)), {end}); });
  endKernel();
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

void RoutedEmitter::emitPack() {
  begin(withBits("tpc_routed_pack"));
  branch(less(warp, rows), [&] {
    Value place = loadPlace(warp);
    branch(isPlace(place), [&] {
      Value from = getRow(warp), to = getData(place);
      loop(lane, tokenSize, i32(kWarp), [&](Value i) {
        storeMany(at(to, element, wide(i)), {load(at(from, element, wide(getColumn(i))), element)});
      });
      loop(i32(0), weights, i32(kWarp), {tokenSize}, [&](Value base, ValueRange now) {
        Value expert = add(base, lane);
        Values own = branch(
            less(expert, weights), {integer, element},
            [&] {
              Value x =
                  load(at(from, element, wide(add(add(column, firstWeight), expert))), element);
              return Values{select(isNonzero(x), shift(i32(1), lane), i32(0)), x};
            },
            [&] { return Values{i32(0), zeroElement()}; });
        Value word = anyBits(own[0]);
        Value rank = countBits(mask(word, sub(shift(i32(1), lane), i32(1))));
        branch(isSet(own[0]),
               [&] { storeMany(at(to, element, wide(add(now[0], rank))), {own[1]}); });
        return Values{add(now[0], countBits(word))};
      });
    });
  });
  endKernel();
}

void RoutedEmitter::emitUnpack() {
  begin(withBits("tpc_routed_unpack"));
  branch(less(warp, rows), [&] {
    Value place = loadPlace(warp), exists = isPlace(place);
    Value to = getRow(warp), from = getData(max(place, i32(0)));
    auto loadIf = [&](Value condition, Value index) {
      return branch(
          condition, {element},
          [&] { return Values{load(at(from, element, wide(index)), element)}; },
          [&] { return Values{zeroElement()}; })[0];
    };
    loop(lane, tokenSize, i32(kWarp),
         [&](Value i) { storeMany(at(to, element, wide(getColumn(i))), {loadIf(exists, i)}); });
    loop(i32(0), experts, i32(kWarp), {tokenSize}, [&](Value base, ValueRange now) {
      Value expert = add(base, lane), own = sub(expert, firstWeight);
      Value isOwn = both(both(exists, compare(Predicate::sge, own, i32(0))), less(own, weights));
      Value bit = branch(
          isOwn, {integer},
          [&] {
            Value index = add(mul(warp, weights), own);
            Value byte = loadByte(add(firstBit, wide(div(index, 8))));
            Value is = mask(byte, shift(i32(1), rem(index, 8)));
            return Values{select(isSet(is), shift(i32(1), lane), i32(0))};
          },
          [&] { return Values{i32(0)}; })[0];
      Value word = anyBits(bit);
      Value rank = countBits(mask(word, sub(shift(i32(1), lane), i32(1))));
      Value x = loadIf(isSet(bit), add(now[0], rank));
      branch(less(expert, experts),
             [&] { storeMany(at(to, element, wide(add(column, expert))), {x}); });
      return Values{add(now[0], countBits(word))};
    });
  });
  endKernel();
}

void RoutedEmitter::emitAdd() {
  begin("tpc_routed_add_" + getTypeName(dtype));
  Type type = getType(dtype);
  branch(less(warp, rows), [&] {
    Value to = at(tensor, type, mul(wide(warp), wide(width)));
    loop(lane, width, i32(kWarp), [&](Value i) {
      Value sum = loop(i32(0), numParts, i32(1), {f32(0)}, [&](Value index, ValueRange now) {
        usePart(index);
        Value place = loadPlace(warp);
        return branch(
            isPlace(place), {b.getF32Type()},
            [&] {
              Value from = at(data, type, add(firstData, add(wide(place), wide(i))));
              return Values{fadd(now[0], toF32(load(from, type)))};
            },
            [&] { return Values{now[0]}; });
      })[0];
      storeMany(at(to, type, wide(i)), {fromF32(sum, type)});
    });
  });
  endKernel();
}

void cuda::makeRoutedKernels(ModuleOp kernels) {
  for (int32_t dtype : {TPC_F32, TPC_F16}) { // by size
    RoutedEmitter emitter(kernels, dtype);
    emitter.emitSelect();
    emitter.emitSelectRows();
    emitter.emitPack();
    emitter.emitUnpack();
  }
  RoutedEmitter(kernels, TPC_F32).emitLocate();
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16})
    RoutedEmitter(kernels, dtype).emitAdd();
}
