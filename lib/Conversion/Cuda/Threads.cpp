//===- Threads.cpp - Entry points and shuffles of GPU kernels -------------===//

#include "Threads.h"

#include "tpc/Conversion/Cuda/Launch.h"
#include "tpc/dependent_launch.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::tpc;

LLVM::LLVMFuncOp cuda::createEntry(OpBuilder &builder, Location loc, StringRef name,
                                   unsigned pointers, unsigned integers) {
  MLIRContext *context = builder.getContext();
  auto pointer =
      LLVM::LLVMPointerType::get(context, static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  SmallVector<Type> types(pointers, pointer);
  types.append(integers, builder.getI32Type());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  auto entry = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  return entry;
}

void cuda::setThreads(LLVM::LLVMFuncOp entry, unsigned threads) {
  entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                 DenseI32ArrayAttr::get(entry.getContext(), {static_cast<int32_t>(threads)}));
}

void cuda::setMinBlocks(LLVM::LLVMFuncOp entry, unsigned blocks) {
  entry->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                 IntegerAttr::get(IntegerType::get(entry.getContext(), 32), blocks));
}

void cuda::createDependency(OpBuilder &builder, Location loc, StringRef text) {
  LLVM::InlineAsmOp::create(builder, loc, LLVM::LLVMVoidType::get(builder.getContext()),
                            ValueRange(), text, "~{memory}", /*has_side_effects=*/true,
                            /*is_align_stack=*/false, LLVM::TailCallKind::None,
                            LLVM::AsmDialectAttr(), ArrayAttr());
}

void cuda::createWait(OpBuilder &builder, Location loc) {
  createDependency(builder, loc, ::tpc::dependent_launch::kLaunchDependents);
  createDependency(builder, loc, ::tpc::dependent_launch::kWait);
}

Value cuda::createShuffle(OpBuilder &builder, Location loc, Value value, int32_t distance) {
  auto number = [&](int32_t n) -> Value {
    return LLVM::ConstantOp::create(builder, loc, builder.getI32Type(),
                                    builder.getI32IntegerAttr(n));
  };
  return NVVM::ShflOp::create(builder, loc, value.getType(), number(-1), value, number(distance),
                              number(kWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
}
