//===- Main.cpp - tpc-compare-kernels -------------------------------------===//
//
//   tpc-compare-kernels gpt2.onnx@tp2 llama.onnx@tp3 kernels.mlir [--kernel=layer_norm]
//   [--seeds=10]
//
// Compares kernels of programs, compiled for GPUs and run by the PTX interpreter, with the same
// kernels compiled for CPUs. Kernels with the same text are compared once.
//
//===----------------------------------------------------------------------===//

#include "Modes.h"

#include "tpc/Driver/Register.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"

using namespace compare;
using llvm::StringRef;
namespace cl = llvm::cl;

static cl::list<std::string> inputs(cl::Positional,
                                    cl::desc("model.onnx@tp2, or a program as text"));
static cl::opt<std::string> name("kernel", cl::desc("only kernels whose name contains this text"));
static cl::opt<unsigned> seeds("seeds", cl::init(10), cl::desc("cases for each kernel"));
static cl::opt<uint64_t> from("from", cl::init(0), cl::desc("the first seed"));
static cl::opt<int64_t> work("work", cl::init(Limits().work),
                             cl::desc("maximum iterations of innermost loops in a case"));
static cl::opt<int64_t> elements("elements", cl::init(Limits().elements),
                                 cl::desc("maximum number of elements of an operand"));
static cl::opt<bool> verbose("v", cl::desc("print a line for each kernel"));
static cl::opt<bool> printPtx("print-ptx", cl::desc("print the PTX text"));
static cl::opt<unsigned> faults("faults", cl::init(0),
                                cl::desc("insert this number of faults into each kernel instead"));
static cl::opt<bool> sectors("sectors", cl::desc("count sectors instead"));
static cl::opt<std::string> folder("write-cases",
                                   cl::desc("write cases for tpc-ptx-run into a folder instead"));
static cl::opt<bool> functions("functions", cl::desc("compare sin, cos, pow, … with libm instead"));

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  ::tpc::registerTargets();
  mlir::DialectRegistry registry;
  ::tpc::registerAllDialects(registry);
  if (functions) {
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    return !checkFunctions(context);
  }
  Options options{from, seeds, {work, elements}, verbose};
  Totals totals;
  Tallies tallies;
  KernelSelection selection;
  selection.name = name;
  for (StringRef input : inputs) {
    auto [path, grid] = input.rsplit('@');
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    std::unique_ptr<Program> program = Program::load(context, path, grid, selection);
    if (!program)
      return 2;
    if (printPtx)
      llvm::outs() << program->getPtx();
    ++totals.programs;
    totals.kernels += program->countAll();
    totals.distinct += program->getKernels().size();
    for (const Kernel &kernel : program->getKernels())
      if (faults)
        seedFaults(*program, kernel, options, faults, tallies);
      else if (!folder.empty()) {
        if (!writeCases(*program, kernel, options, folder, totals.programs))
          return 2;
      } else if (sectors)
        countSectors(*program, kernel, options);
      else
        compareKernel(*program, kernel, input, options, totals);
  }
  if (faults)
    print(tallies);
  llvm::outs() << totals.programs << " programs, " << totals.kernels << " kernels, "
               << totals.distinct << " distinct; " << totals.cases << " cases, "
               << totals.withoutCases << " kernels without cases, " << totals.wrong
               << " kernels wrong\n";
  return totals.wrong || totals.withoutCases ? 1 : 0;
}
