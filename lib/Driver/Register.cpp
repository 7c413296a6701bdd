//===- Register.cpp - Registration of dialects and targets ---------------===//

#include "tpc/Driver/Register.h"
#include "Compile.h"
#include "tpc/Analysis/Cost.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Cpu/Target.h"
#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Import/ONNX/Import.h"
#include "tpc/Kernel/Kernel.h"
#include "tpc/Transforms/Backward/Passes.h"
#include "tpc/Verify/Verify.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/InlinerInterfaceImpl.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"

void tpc::registerTargets() {
  mlir::tpc::registerCpuTarget();
  mlir::tpc::cuda::registerCudaTarget();
}

void tpc::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::DLTIDialect,
                  mlir::func::FuncDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect,
                  mlir::memref::MemRefDialect, mlir::NVVM::NVVMDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::ub::UBDialect, mlir::vector::VectorDialect>();
  mlir::func::registerInlinerExtension(registry); // for --inline
  mlir::LLVM::registerInlinerInterface(registry);
  registry.insert<mlir::tpc::TpcDialect, mlir::tpc::kernel::TpcKernelDialect,
                  mlir::tpc::buffer::BufferDialect>();
  mlir::tpc::registerIndexModels(registry);
  mlir::tpc::registerCostModels(registry);
  mlir::tpc::registerGradientModels(registry);
  mlir::tpc::registerVerification(registry);
  mlir::tpc::registerGenerationVerification(registry);
  mlir::tpc::registerBufferVerification(registry);
  mlir::tpc::registerLoweredInterpreter(registry);
  registerTargets();
  mlir::tpc::registerLowering(registry);
}

void tpc::registerAllTranslations() { registerOnnxTranslation(); }
