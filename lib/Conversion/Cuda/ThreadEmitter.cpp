//===- ThreadEmitter.cpp - Emitter of thread code in LLVM -----------------===//

#include "ThreadEmitter.h"
#include "Threads.h"

#include "tpc/Dialect/Arithmetic.h"
#include "tpc/gemv.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LLVM::LLVMFuncOp ThreadEmitter::beginKernel(StringRef name, unsigned pointers, unsigned threads,
                                            unsigned integers) {
  LLVM::LLVMFuncOp function = createEntry(b, loc, name, pointers, integers);
  setThreads(function, threads);
  setMinBlocks(function, 1);
  b.setInsertionPointToStart(function.addEntryBlock(b));
  return function;
}

void ThreadEmitter::endKernel() {
  LLVM::ReturnOp::create(b, loc, ValueRange());
  b.setInsertionPointAfter(b.getInsertionBlock()->getParentOp());
}

Value ThreadEmitter::getDynamicShared() {
  constexpr llvm::StringLiteral name = "dynamic_shared";
  auto space = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder outside = OpBuilder::atBlockBegin(module.getBody());
    LLVM::GlobalOp::create(outside, loc, LLVM::LLVMArrayType::get(b.getF32Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External, name, Attribute(),
                           /*alignment=*/16, space);
  }
  return LLVM::AddressOfOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext(), space), name);
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void ThreadEmitter::loop(Value lb, Value ub, Value step, function_ref<void(Value)> body) {
  loop(lb, ub, step, {}, [&](Value i, ValueRange) {
    body(i);
    return Values();
  });
}

void ThreadEmitter::branch(Value condition, function_ref<void()> then) {
  auto yes = [&] {
    then();
    return Values();
  };
  branch(condition, {}, yes, nullptr);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value ThreadEmitter::i32(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
}

Value ThreadEmitter::i64(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}

Value ThreadEmitter::wide(Value x) {
  return x.getType().isInteger(64) ? x : arith::ExtSIOp::create(b, loc, b.getI64Type(), x);
}

Value ThreadEmitter::narrow(Value x) {
  return x.getType().isInteger(32) ? x : arith::TruncIOp::create(b, loc, b.getI32Type(), x);
}

Value ThreadEmitter::f32(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
}

Value ThreadEmitter::fma(Value x, Value y, Value z) { return math::FmaOp::create(b, loc, x, y, z); }

Value ThreadEmitter::expOfNegative(Value x) {
  Arithmetic a(b, loc, b.getF32Type());
  Value minimum = a.number(::tpc::kMinExponent), isLow = a.less(x, minimum);
  Value finite = ::tpc::approximateFiniteExp<Arithmetic, Value>(a, select(isLow, minimum, x));
  return select(isLow, f32(0), finite);
}

Value ThreadEmitter::tanh(Value x) {
  return ::tpc::approximateTanh<Arithmetic, Value>(Arithmetic(b, loc, b.getF32Type()), x);
}

Value ThreadEmitter::toF32(Value x) {
  return x.getType().isF32() ? x : arith::ExtFOp::create(b, loc, b.getF32Type(), x);
}

Value ThreadEmitter::fromF32(Value x, Type type) {
  return type.isF32() ? x : arith::TruncFOp::create(b, loc, type, x);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value ThreadEmitter::at(Value pointer, Type type, Value index) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), type, pointer,
                             ArrayRef<LLVM::GEPArg>{index});
}

Value ThreadEmitter::at(Value pointer, Type type, int64_t index) {
  if (!index)
    return pointer;
  return LLVM::GEPOp::create(b, loc, pointer.getType(), type, pointer,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
}

ThreadEmitter::Values ThreadEmitter::loadMany(Value pointer, Type type, unsigned count) {
  unsigned bytes =
      (isa<LLVM::LLVMPointerType>(type) ? 64 : type.getIntOrFloatBitWidth()) / 8 * count;
  Type all = count == 1 ? type : VectorType::get(count, type);
  auto load = LLVM::LoadOp::create(b, loc, all, pointer, /*alignment=*/bytes);
  if (count == 1)
    return {load};
  Values values;
  for (unsigned i = 0; i < count; ++i)
    values.push_back(LLVM::ExtractElementOp::create(b, loc, load, i32(i)));
  return values;
}

void ThreadEmitter::storeMany(Value pointer, ArrayRef<Value> values) {
  Type type = values[0].getType();
  unsigned bytes = type.getIntOrFloatBitWidth() / 8 * values.size();
  Value all = values[0];
  if (values.size() > 1) {
    all = LLVM::PoisonOp::create(b, loc, VectorType::get(values.size(), type));
    for (auto [i, value] : llvm::enumerate(values))
      all = LLVM::InsertElementOp::create(b, loc, all, value, i32(i));
  }
  LLVM::StoreOp::create(b, loc, all, pointer, /*alignment=*/bytes);
}

Value ThreadEmitter::loadWords(Value pointer) {
  return LLVM::LoadOp::create(b, loc, VectorType::get(4, b.getI32Type()), pointer,
                              ::tpc::gemv::kAccessBytes);
}

ThreadEmitter::Values ThreadEmitter::unpack(Value words, int32_t dtype) {
  Values values;
  for (int i = 0; i < 4; ++i) {
    Value word = LLVM::ExtractElementOp::create(b, loc, words, i32(i));
    if (dtype == TPC_F32) {
      values.push_back(arith::BitcastOp::create(b, loc, b.getF32Type(), word));
    } else if (dtype == TPC_BF16) {
      Value low = arith::ShLIOp::create(b, loc, word, i32(16));
      Value high = arith::AndIOp::create(b, loc, word, i32(int32_t(0xffff0000)));
      for (Value bits : {low, high})
        values.push_back(arith::BitcastOp::create(b, loc, b.getF32Type(), bits));
    } else {
      Value halves = LLVM::BitcastOp::create(b, loc, VectorType::get(2, b.getF16Type()), word);
      for (int half = 0; half < 2; ++half)
        values.push_back(toF32(LLVM::ExtractElementOp::create(b, loc, halves, i32(half))));
    }
  }
  return values;
}

Type ThreadEmitter::getType(int32_t dtype) {
  return dtype == TPC_F32   ? Type(b.getF32Type())
         : dtype == TPC_F16 ? Type(b.getF16Type())
                            : Type(b.getBF16Type());
}

StringRef cuda::getTypeName(int32_t dtype) {
  return dtype == TPC_F32 ? "f32" : dtype == TPC_F16 ? "f16" : "bf16";
}
