//===- DataEmitter.cpp - Constant data of the object file -----------------===//

#include "tpc/Conversion/Env/DataEmitter.h"

#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;

abi::I32 DataEmitter::i32(int64_t n) {
  return abi::I32(LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(n)));
}

abi::I64 DataEmitter::i64(int64_t n) {
  return abi::I64(LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(n)));
}

abi::Pointer DataEmitter::address(StringRef symbol) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  return abi::Pointer(LLVM::AddressOfOp::create(b, loc, pointer, symbol));
}

abi::Pointer DataEmitter::null() {
  return abi::Pointer(LLVM::ZeroOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext())));
}

void DataEmitter::text(StringRef name, StringRef value) {
  std::string bytes = (value + Twine('\0')).str();
  LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, name,
                         b.getStringAttr(bytes));
}

void DataEmitter::bytes(StringRef name, StringRef value) {
  LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), value.size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, name, b.getStringAttr(value),
                         /*alignment=*/64);
}

void DataEmitter::elements(StringRef name, DenseElementsAttr value) {
  Type element = value.getElementType();
  if (isUnsigned(element)) {
    SmallVector<int8_t> bytes;
    for (APInt v : value.getValues<APInt>())
      bytes.push_back(element.isInteger(1) ? (v.isZero() ? 0 : 1) : v.getZExtValue());
    element = b.getI8Type();
    value = DenseElementsAttr::get(RankedTensorType::get(value.getType().getShape(), element),
                                   ArrayRef<int8_t>(bytes));
  }
  value = value.reshape(RankedTensorType::get({value.getNumElements()}, element));
  LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(element, value.getNumElements()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, name, value,
                         /*alignment=*/64);
}

void DataEmitter::aggregate(StringRef name, Type type, LLVM::Linkage linkage,
                            function_ref<Value(Value undefined)> build) {
  auto global =
      LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, linkage, name, Attribute());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&global.getInitializer());
  LLVM::ReturnOp::create(b, loc, build(LLVM::UndefOp::create(b, loc, type)));
}

Value DataEmitter::insert(Value into, ArrayRef<Value> values) {
  for (auto [i, value] : llvm::enumerate(values))
    into = LLVM::InsertValueOp::create(b, loc, into, value, static_cast<int64_t>(i));
  return into;
}

void DataEmitter::array(StringRef name, Type element, size_t count,
                        function_ref<Value(Value undefined, size_t index)> entry) {
  auto type = LLVM::LLVMArrayType::get(element, count);
  aggregate(name, type, LLVM::Linkage::Internal, [&](Value all) {
    SmallVector<Value> entries;
    for (size_t i = 0; i < count; ++i)
      entries.push_back(entry(LLVM::UndefOp::create(b, loc, element), i));
    return insert(all, entries);
  });
}
