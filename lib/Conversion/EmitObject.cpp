//===- EmitObject.cpp - LLVM optimization and machine code ----------------===//

#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/MakeError.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct Compilation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
};
} // namespace

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
getMachine(const LoweringOptions &options) {
  static bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return makeError(error);
  std::string cpu = options.march, features;
  if (cpu == "native") {
    cpu = llvm::sys::getHostCPUName().str();
    llvm::SubtargetFeatures list;
    for (auto &feature : llvm::sys::getHostCPUFeatures())
      list.AddFeature(feature.first(), feature.second);
    // AVX-512 BF16 conversions flush subnormal numbers to zero.
    list.AddFeature("avx512bf16", false);
    list.AddFeature("avxneconvert", false);
    features = list.getString();
  }
  // The CPU name is checked first, because createTargetMachine would only warn.
  std::unique_ptr<llvm::MCSubtargetInfo> known(target->createMCSubtargetInfo(triple, "", ""));
  if (!known || !known->isCPUStringValid(cpu))
    return makeError("'" + options.march +
                     "' is not a processor that --march= supports; try native or x86-64-v3");
  // Checked here, because the code generator cannot return an error.
  known.reset(target->createMCSubtargetInfo(triple, cpu, features));
  if (triple.isX86_64() && !known->checkFeatures("+64bit"))
    return makeError("'" + options.march +
                     "' is a processor without 64-bit code, which --march= needs; try native or "
                     "x86-64-v3");
  llvm::TargetOptions targetOptions;
  // Contracts a * b + c to one instruction only if both operations have the `contract` flag.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, features, targetOptions, llvm::Reloc::PIC_, std::nullopt,
      options.optLevel ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None));
  if (!machine)
    return makeError("no code can be generated for " + triple.str());
  return machine;
}

static llvm::Error prepare(ModuleOp source, const LoweringOptions &options, Compilation &c) {
  auto machine = getMachine(options);
  if (!machine)
    return machine.takeError();
  c.machine = std::move(*machine);
  c.module = translateModuleToLLVMIR(source, c.context, "tpc");
  if (!c.module)
    return makeError("the program could not be translated to LLVM IR");
  c.module->setDataLayout(c.machine->createDataLayout());
  c.module->setTargetTriple(c.machine->getTargetTriple());
  c.module->setPICLevel(llvm::PICLevel::BigPIC);
  // Use the processor's full vector width; LLVM's default avoids 512 bits.
  bool wide = c.machine->getMCSubtargetInfo()->checkFeatures("+avx512f");
  for (llvm::Function &f : *c.module) {
    if (f.isDeclaration())
      continue;
    f.addFnAttr("target-cpu", c.machine->getTargetCPU());
    f.addFnAttr("target-features", c.machine->getTargetFeatureString());
    f.addFnAttr("prefer-vector-width", wide ? "512" : "256");
    // The runtime throws an exception through generated code if a step fails.
    f.setUWTableKind(llvm::UWTableKind::Async);
  }

  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.SLPVectorization = false;
  tuning.LoopVectorization = true;
  tuning.LoopInterleaving = true;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(c.machine.get(), tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  auto level = options.optLevel == 0   ? llvm::OptimizationLevel::O0
               : options.optLevel == 1 ? llvm::OptimizationLevel::O1
               : options.optLevel == 2 ? llvm::OptimizationLevel::O2
                                       : llvm::OptimizationLevel::O3;
  llvm::ModulePassManager passes = options.optLevel ? builder.buildPerModuleDefaultPipeline(level)
                                                    : builder.buildO0DefaultPipeline(level);
  passes.run(*c.module, modules);
  return llvm::Error::success();
}

llvm::Expected<std::string> mlir::tpc::emitLLVM(ModuleOp module, const LoweringOptions &options) {
  Compilation c;
  if (llvm::Error error = prepare(module, options, c))
    return error;
  std::string text;
  llvm::raw_string_ostream(text) << *c.module;
  return text;
}

llvm::Expected<llvm::SmallVector<char>> mlir::tpc::emitObject(ModuleOp module,
                                                              const LoweringOptions &options) {
  Compilation c;
  if (llvm::Error error = prepare(module, options, c))
    return error;
  llvm::SmallVector<char> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager passes;
  if (c.machine->addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return makeError("LLVM cannot write object files for this target");
  passes.run(*c.module);
  return object;
}
