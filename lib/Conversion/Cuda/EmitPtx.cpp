//===- EmitPtx.cpp - In-process PTX generation by LLVM --------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Cuda/Passes.h"
#include "tpc/Conversion/Device/Passes.h"
#include "tpc/Dialect/MakeError.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

//===----------------------------------------------------------------------===//
// Architectures
//===----------------------------------------------------------------------===//

namespace {
/// The first version of PTX that supports an architecture.
struct Architecture {
  unsigned number, ptx;
};
} // namespace

static constexpr Architecture known[] = {{80, 70},  {86, 71},  {87, 74},  {88, 90},
                                         {89, 78},  {90, 78},  {100, 86}, {103, 88},
                                         {110, 90}, {120, 87}, {121, 88}};

llvm::Expected<Architectures> cuda::parseArchitectures(StringRef text) {
  std::string names;
  for (const Architecture &a : known)
    names += (names.empty() ? "sm_" : ", sm_") + std::to_string(a.number);
  Architectures found;
  SmallVector<StringRef> items;
  text.split(items, ',');
  for (StringRef item : items) {
    StringRef digits = item;
    unsigned number = 0;
    if (!digits.consume_front("sm_") || digits.getAsInteger(10, number)) {
      // Architecture-specific and family-specific names: sm_90a and sm_100f.
      if (item.starts_with("sm_") && digits.size() > 1 && StringRef("af").contains(digits.back()) &&
          !digits.drop_back().getAsInteger(10, number))
        return makeError("'" + item + "' runs on one architecture or family only; name sm_" +
                         llvm::Twine(number) + ", whose PTX also runs on later ones");
      return makeError("'" + item + "' is not an architecture; supported are " + names);
    }
    if (number < known[0].number)
      return makeError("'" + item + "' is too old: kernels need sm_80 or later");
    if (llvm::none_of(known, [&](const Architecture &a) { return a.number == number; }))
      return makeError("'" + item + "' is not supported; supported are " + names);
    if (llvm::is_contained(found, number))
      return makeError("'" + item + "' is given twice");
    found.push_back(number);
  }
  llvm::sort(found);
  return found;
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> getMachine(unsigned lowest,
                                                                       unsigned optLevel) {
  static bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return makeError(error);
  auto *architecture =
      llvm::find_if(known, [&](const Architecture &a) { return a.number == lowest; });
  std::string cpu = "sm_" + std::to_string(lowest),
              ptx = "+ptx" + std::to_string(architecture->ptx);
  llvm::TargetOptions targetOptions;
  // Each operation has an explicit rounding mode, because the assembler contracts operations
  // without one.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, ptx, targetOptions, llvm::Reloc::PIC_, std::nullopt,
      optLevel ? llvm::CodeGenOptLevel::Aggressive : llvm::CodeGenOptLevel::None));
  if (!machine)
    return makeError("no code can be generated for " + triple.str());
  return machine;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

static void optimize(llvm::Module &module, llvm::TargetMachine &machine, unsigned optLevel) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  const llvm::OptimizationLevel levels[] = {
      llvm::OptimizationLevel::O0, llvm::OptimizationLevel::O1, llvm::OptimizationLevel::O2,
      llvm::OptimizationLevel::O3};
  llvm::ModulePassManager passes = optLevel
                                       ? builder.buildPerModuleDefaultPipeline(levels[optLevel])
                                       : builder.buildO0DefaultPipeline(levels[0]);
  passes.run(module, modules);
}

static LogicalResult lowerScalars(ModuleOp kernels) {
  PassManager pm(kernels.getContext());
  pm.addPass(createApproximateMath());
  pm.addPass(createExpandMath());
  pm.addNestedPass<LLVM::LLVMFuncOp>(createCSEPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(kernels);
}

llvm::Expected<std::string> cuda::writePtx(ModuleOp kernels, const Architectures &architectures,
                                           unsigned optLevel) {
  MLIRContext *mlir = kernels.getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  mlir->appendDialectRegistry(registry);
  auto machine = getMachine(architectures.front(), optLevel);
  if (!machine)
    return machine.takeError();
  if (failed(lowerScalars(kernels)))
    return makeError("kernels could not be lowered to LLVM");

  // The data layout is set before the translation, which reads alignments from it.
  llvm::DataLayout layout = (*machine)->createDataLayout();
  kernels->setAttr(LLVM::LLVMDialect::getDataLayoutAttrName(),
                   StringAttr::get(mlir, layout.getStringRepresentation()));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return makeError("kernels could not be translated to LLVM IR");
  module->setDataLayout(layout);
  module->setTargetTriple((*machine)->getTargetTriple());
  optimize(*module, **machine, optLevel);
  llvm::SmallVector<char> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return makeError("LLVM cannot write PTX");
  passes.run(*module);
  std::string ptx(text.begin(), text.end());
  if (llvm::Error error = checkRounding(ptx))
    return std::move(error);
  return ptx;
}

llvm::Expected<Code> cuda::emitPtx(ModuleOp program, const Architectures &architectures,
                                   unsigned optLevel) {
  Code code;
  code.architecture = architectures.front();
  OwningOpRef<ModuleOp> copy = program.clone();
  FailureOr<std::vector<Launch>> launches = lowerKernels(*copy);
  if (failed(launches))
    return makeError("the program's sizes could not be lowered");
  code.launches = std::move(*launches);
  auto attentions = makeAllAttentionKernels(*copy);
  if (failed(attentions))
    return makeError("there are no kernels for the program's attention");
  for (AttentionKernels &attention : *attentions) {
    auto first = static_cast<unsigned>(code.launches.size());
    code.attentions.push_back({attention.variant, first, first + 1});
    for (Launch *launch : {&attention.tiles, &attention.split})
      code.launches.push_back(std::move(*launch));
  }
  ModuleOp kernels = kernel::getKernels(*copy);
  code.nodes = kernels->getAttrOfType<ArrayAttr>(kernel::kNodesAttr);
  auto ptx = writePtx(kernels, architectures, optLevel);
  if (!ptx)
    return ptx.takeError();
  code.ptx = std::move(*ptx);
  size_t first = code.launches.size() - 2 * code.attentions.size();
  for (auto [i, launch] : llvm::enumerate(code.launches)) {
    ArrayRef<unsigned> constants;
    if (i >= first)
      constants = ::tpc::attention::kConstants;
    if (llvm::Error error = checkDependentLaunch(code.ptx, launch.name, constants))
      return std::move(error);
  }
  return code;
}
