//===- Program.cpp - Kernels of a program for both targets ----------------===//

#include "Program.h"

#include "Compile.h"
#include "Diagnostics.h"

#include "tpc/Conversion/Cpu/Passes.h"
#include "tpc/Conversion/Device/Passes.h"
#include "tpc/Conversion/Kernels/Passes.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/RankSizes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace compare;

static bool fail(const llvm::Twine &message) {
  llvm::errs() << "tpc-compare-kernels: error: " << message << "\n";
  return false;
}

//===----------------------------------------------------------------------===//
// Selection of kernels
//===----------------------------------------------------------------------===//

/// Key that is equal for kernels with the same computation. It ignores their names and the nodes
/// that they report; it includes the size of an axis if sizes depend on it.
static std::string getText(kernel::FuncOp func, const EnvLayout &layout) {
  OwningOpRef<Operation *> copy = func->clone();
  cast<kernel::FuncOp>(*copy).setSymName("kernel");
  (*copy)->walk([&](kernel::CheckOp check) { check.setNode(""); });
  std::string text;
  llvm::raw_string_ostream os(text);
  (*copy)->print(os, OpPrintingFlags().printGenericOpForm().useLocalScope());
  for (StringAttr axis : layout.axes())
    if (StringRef(text).contains("." + axis.str()))
      os << axis.getValue() << "=" << layout.axisSize(axis) << " ";
  return text;
}

bool Program::choose(KernelSelection &selection) {
  auto found = EnvLayout::get(*module);
  if (failed(found))
    return false;
  layout = *found;
  ModuleOp nested = kernel::getKernels(*module);
  if (!nested)
    return true;
  for (auto func : llvm::make_early_inc_range(nested.getOps<kernel::FuncOp>())) {
    ++all;
    if (StringRef(func.getName()).contains(selection.name) &&
        selection.seen.insert(getText(func, layout)).second)
      kernels.push_back({func.getName().str(), ::tpc::describeLocation(func.getLoc()), func, {}});
    else
      func.erase();
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Lowering for GPUs and for CPUs
//===----------------------------------------------------------------------===//

bool Program::lowerForGpu() {
  auto made = cuda::emitPtx(*module, {80}, 3);
  if (!made)
    return fail(llvm::toString(made.takeError()));
  code = std::move(*made);
  // Launches of attention kernels come last. AttentionTest compares these kernels.
  if (code.launches.size() < kernels.size())
    return fail("there are " + llvm::Twine(code.launches.size()) + " launches of " +
                llvm::Twine(kernels.size()) + " kernels");
  for (auto [kernel, launch] : llvm::zip_first(kernels, code.launches))
    kernel.launch = launch;
  std::string error;
  parsed = ptx::parse(code.ptx, error);
  return parsed || fail("the PTX interpreter rejects the text: " + error);
}

bool Program::lowerForCpu() {
  OwningOpRef<ModuleOp> copy = module->clone();
  PassManager lower(copy->getContext());
  lower.addPass(createLowerKernels());
  if (failed(lower.run(*copy)))
    return false;
  ModuleOp nested = kernel::getKernels(*copy);
  nested.walk([](LLVM::LLVMFuncOp f) { f.setLinkage(LLVM::Linkage::External); });
  // As in buildLoweringPassPipeline; here there is no host code.
  PassManager pm(copy->getContext());
  pm.addPass(createApproximateMath());
  pm.nest<LLVM::LLVMFuncOp>().addPass(createCSEPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  if (failed(pm.run(nested)))
    return false;
  LoweringOptions options;
  options.optLevel = 1; // compiles faster; must not change results
  auto object = emitObject(nested, options);
  if (!object)
    return fail(llvm::toString(object.takeError()));

  auto made = llvm::orc::LLJITBuilder().create();
  if (!made)
    return fail(llvm::toString(made.takeError()));
  jit = std::move(*made);
  auto libm = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      jit->getDataLayout().getGlobalPrefix());
  if (!libm)
    return fail(llvm::toString(libm.takeError()));
  jit->getMainJITDylib().addGenerator(std::move(*libm));
  if (llvm::Error error = jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(
          StringRef(object->data(), object->size()), "kernels")))
    return fail(llvm::toString(std::move(error)));
  for (Kernel &kernel : kernels) {
    auto address = jit->lookup(kernel.name);
    if (!address)
      return fail(llvm::toString(address.takeError()));
    kernel.cpu = address->toPtr<tpc_kernel_fn>();
  }
  return true;
}

bool Program::lower(KernelSelection &selection) {
  if (!module || !choose(selection))
    return false;
  return kernels.empty() || (lowerForGpu() && lowerForCpu());
}

std::unique_ptr<Program> Program::parse(MLIRContext &context, StringRef text,
                                        KernelSelection &selection) {
  auto program = std::make_unique<Program>();
  program->module = parseSourceString<ModuleOp>(text, &context);
  if (program->module && !kernel::getKernels(*program->module)) {
    // Functions on tensors, each of which becomes a kernel.
    PassManager pm(&context);
    pm.addPass(createBuildKernels());
    if (failed(pm.run(*program->module)))
      return nullptr;
  }
  return program->lower(selection) ? std::move(program) : nullptr;
}

std::unique_ptr<Program> Program::load(MLIRContext &context, StringRef input, StringRef grid,
                                       KernelSelection &selection) {
  ::tpc::DiagnosticPrinter printer(&context, llvm::errs(), [](DiagnosticSeverity) {});
  if (grid.empty()) {
    auto text = llvm::MemoryBuffer::getFile(input);
    if (!text)
      return fail(input + ": " + text.getError().message()), nullptr;
    return parse(context, (*text)->getBuffer(), selection);
  }
  std::string error;
  auto spec = ::tpc::ShardSpec::parse(std::string_view(grid.data(), grid.size()), error);
  if (!spec)
    return fail(error), nullptr;
  ::tpc::CompileOptions options;
  options.input = input.str();
  options.spec = *spec;
  options.verify = false;
  options.target = "cuda";
  ::tpc::Compilation compilation(context, std::move(options));
  if (failed(compilation.advance(::tpc::Emit::Kernels, [](StringRef) {})))
    return nullptr;
  auto program = std::make_unique<Program>();
  program->module = compilation.getModule().clone();
  return program->lower(selection) ? std::move(program) : nullptr;
}
