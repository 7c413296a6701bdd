//===- TensorCores.cpp - Emitter of tensor core instructions --------------===//

#include "TensorCores.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Number of 16-byte chunks that fill each bank of shared memory once.
static constexpr unsigned kChunksOfBanks = 8;

TileLayout::TileLayout(unsigned rows, unsigned size)
    : rows(rows), size(size), chunks(llvm::alignTo(size, kMmaDepth) / kChunkElements),
      usedChunks(llvm::divideCeil(size, kChunkElements)) {
  isSwizzled = chunks % kChunksOfBanks == 0;
  rowBytes = (isSwizzled ? chunks : chunks + 1) * kChunkBytes;
}

static Value exclusiveOr(OpBuilder &b, Location loc, Value x, Value y) {
  return arith::XOrIOp::create(b, loc, x, y);
}

Value TensorCoreEmitter::getChunkOffset(const TileLayout &layout, Value row, Value chunk) {
  if (layout.isSwizzled)
    chunk = exclusiveOr(b, loc, chunk, rem(row, kChunksOfBanks));
  return add(mul(row, layout.rowBytes), mul(chunk, kChunkBytes));
}

TensorCoreEmitter::LaneOffsets TensorCoreEmitter::getLaneOffsets(const TileLayout &layout,
                                                                 Value lane, Value firstRow,
                                                                 bool isColumnMajor) {
  Value low = rem(div(lane, 8), 2), high = div(lane, 16);
  if (isColumnMajor)
    std::swap(low, high);
  Value row = add(firstRow, add(mul(low, 8), rem(lane, 8)));
  LaneOffsets offsets{&layout, {}};
  for (unsigned chunk = 0; chunk < (layout.isSwizzled ? kChunksOfBanks : 2); chunk += 2)
    offsets.byChunk.push_back(getChunkOffset(layout, row, add(high, int64_t(chunk))));
  return offsets;
}

TensorCoreEmitter::Values TensorCoreEmitter::loadMatrices(Value tile, const LaneOffsets &offsets,
                                                          unsigned row, unsigned chunk,
                                                          bool transposed) {
  unsigned period = 2 * offsets.byChunk.size();
  int64_t constant = row * offsets.layout->rowBytes + chunk / period * period * kChunkBytes;
  Value from = at(tile, b.getI8Type(), offsets.byChunk[chunk % period / 2]);
  from = at(from, b.getI8Type(), constant);
  Type word = b.getI32Type();
  auto all = LLVM::LLVMStructType::getLiteral(b.getContext(), {word, word, word, word});
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  Value loaded = NVVM::LdMatrixOp::create(b, loc, all, from, 4,
                                          transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
                                          shape, NVVM::LdStMatrixEltType::B16);
  Values matrices;
  for (int64_t i = 0; i < 4; ++i)
    matrices.push_back(LLVM::ExtractValueOp::create(b, loc, loaded, i));
  return matrices;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Returns A B + C, with operands as the instruction has them.
static SmallVector<Value> multiplyFragments(OpBuilder &builder, Location loc, NVVM::MMATypes type,
                                            int64_t depth, ValueRange a, ValueRange b,
                                            ValueRange c) {
  Type f = builder.getF32Type();
  auto result = LLVM::LLVMStructType::getLiteral(builder.getContext(), {f, f, f, f});
  Value sums = NVVM::MmaOp::create(
      builder, loc, result, a, b, c, ArrayRef<int64_t>{kMmaRows, kMmaColumns, depth}, std::nullopt,
      std::nullopt, std::array{type, type}, std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  SmallVector<Value> list;
  for (int64_t i = 0; i < 4; ++i)
    list.push_back(LLVM::ExtractValueOp::create(builder, loc, sums, i));
  return list;
}

TensorCoreEmitter::Values TensorCoreEmitter::multiply(Type element, ValueRange a, ValueRange b,
                                                      ValueRange c) {
  OpBuilder &builder = this->b;
  // Operands of f16 are vectors of two elements.
  auto convert = [&](ValueRange words) {
    Values converted(words);
    if (element.isF16())
      for (Value &word : converted)
        word = LLVM::BitcastOp::create(builder, loc, VectorType::get(2, element), word);
    return converted;
  };
  NVVM::MMATypes type = element.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  return multiplyFragments(builder, loc, type, kMmaDepth, convert(a), convert(b), c);
}

TensorCoreEmitter::Values TensorCoreEmitter::multiplyTf32(ValueRange a, ValueRange b,
                                                          ValueRange c) {
  return multiplyFragments(this->b, loc, NVVM::MMATypes::tf32, kMmaDepth / 2, a, b, c);
}

Value TensorCoreEmitter::pack(Value low, Value high, Type element) {
  Value both = LLVM::PoisonOp::create(b, loc, VectorType::get(2, b.getF32Type()));
  both = LLVM::InsertElementOp::create(b, loc, both, low, i32(0));
  both = LLVM::InsertElementOp::create(b, loc, both, high, i32(1));
  Value rounded = LLVM::FPTruncOp::create(b, loc, VectorType::get(2, element), both);
  return LLVM::BitcastOp::create(b, loc, b.getI32Type(), rounded);
}

Value TensorCoreEmitter::exp2(Value x) {
  return LLVM::CallIntrinsicOp::create(b, loc, b.getF32Type(),
                                       b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"), {x})
      .getResult(0);
}

void TensorCoreEmitter::copyAsync(Value to, Value from, Value bytes) {
  NVVM::CpAsyncOp::create(b, loc, to, from, kChunkBytes, NVVM::LoadCacheModifierKind::CG, bytes);
}

void TensorCoreEmitter::endCopyGroup() { NVVM::CpAsyncCommitGroupOp::create(b, loc); }

void TensorCoreEmitter::waitForCopies(unsigned pending) {
  NVVM::CpAsyncWaitGroupOp::create(b, loc, pending);
}
