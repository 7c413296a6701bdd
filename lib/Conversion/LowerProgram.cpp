//===- LowerProgram.cpp - Stages and layers as runtime calls --------------===//

#include "HostEmitter.h"
#include "KernelEmitter.h"
#include "Manifest.h"
#include "tpc/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tpc/runtime.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct LowerProgram : mlir::tpc::impl::LowerProgramBase<LowerProgram> {
  using Base::Base;
  void runOnOperation() override;
  LogicalResult lowerStage(StageOp stage, PipelineOp pipeline, HostModule &host);
  void emitProgram(ArrayRef<std::string> stages, const std::string &manifest);
};
} // namespace

static std::string stageName(int64_t index) { return "tpc_stage_" + std::to_string(index); }

// void tpc_stage_k(ctx, env): copies env, appends the micro-batch, and calls each
// loop's body for all micro-batches in turn. A body returns at once where its
// micro-batch is empty.
LogicalResult LowerProgram::lowerStage(StageOp stage, PipelineOp pipeline, HostModule &host) {
  MLIRContext *context = &getContext();
  Location loc = stage.getLoc();
  OpBuilder b = OpBuilder::atBlockEnd(host.module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer, pointer});
  std::string name = stageName(stage.getIndex());
  auto function = LLVM::LLVMFuncOp::create(b, loc, name, type, LLVM::Linkage::Internal);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  auto constant = [&](int64_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, i64, b.getI64IntegerAttr(value));
  };
  unsigned size = host.layout.size();
  Value env = LLVM::AllocaOp::create(b, loc, pointer, i64, constant(size), 16);
  if (size > 1)
    LLVM::MemcpyOp::create(b, loc, env, entry->getArgument(1),
                           constant((size - 1) * sizeof(int64_t)), false);
  auto storeMicroBatch = [&](Value m) {
    Value where = LLVM::GEPOp::create(
        b, loc, pointer, i64, env, ArrayRef<LLVM::GEPArg>{(int32_t)host.layout.microBatchIndex()});
    LLVM::StoreOp::create(b, loc, m, where);
  };
  int64_t count = host.layout.axisSize("mb");
  unsigned next = 0;
  for (Operation &op : stage.getBody().front()) {
    auto loop = dyn_cast<MicroBatchesOp>(op);
    if (!loop)
      return op.emitOpError("stands in a stage, but outside of tpc.micro_batches");
    std::string bodyName = name + "_body_" + std::to_string(next++);
    if (failed(HostEmitter(host, loop.getLoc())
                   .emitBlock(bodyName, stage.getIndex(), loop.getBody().front(),
                              pipeline.getBody().front(), loop.getBatchAttr())))
      return failure();
    auto callBody = [&] {
      LLVM::CallOp::create(b, loc, type, bodyName, ValueRange{entry->getArgument(0), env});
    };
    if (count == 1 || !loop.getBatchAttr()) {
      storeMicroBatch(constant(0));
      callBody();
      continue;
    }
    Block *before = b.getInsertionBlock();
    Value first = constant(0), last = constant(count), one = constant(1);
    Block *body = b.createBlock(&function.getBody(), function.getBody().end(), i64, loc);
    b.setInsertionPointToEnd(before);
    LLVM::BrOp::create(b, loc, ValueRange{first}, body);
    b.setInsertionPointToStart(body);
    storeMicroBatch(body->getArgument(0));
    callBody();
    Value m = LLVM::AddOp::create(b, loc, body->getArgument(0), one);
    Value more = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, m, last);
    Block *after = b.createBlock(&function.getBody(), function.getBody().end());
    b.setInsertionPointToEnd(body);
    LLVM::CondBrOp::create(b, loc, more, body, ValueRange{m}, after, ValueRange());
    b.setInsertionPointToStart(after);
  }
  LLVM::ReturnOp::create(b, loc, ValueRange());
  return success();
}

void LowerProgram::emitProgram(ArrayRef<std::string> stages, const std::string &manifest) {
  ModuleOp module = getOperation();
  Location loc = module.getLoc();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(&getContext());
  std::string text = manifest;
  text.push_back('\0');
  LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, "tpc_manifest",
                         b.getStringAttr(text));
  auto aggregate = [&](StringRef name, Type type, LLVM::Linkage linkage,
                       ArrayRef<std::function<Value()>> fields) {
    auto global =
        LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, linkage, name, Attribute());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&global.getInitializer());
    Value value = LLVM::UndefOp::create(b, loc, type);
    for (auto [i, field] : llvm::enumerate(fields))
      value = LLVM::InsertValueOp::create(b, loc, value, field(), (int64_t)i);
    LLVM::ReturnOp::create(b, loc, value);
  };
  auto address = [&](std::string symbol) {
    return [&b, loc, pointer, symbol]() -> Value {
      return LLVM::AddressOfOp::create(b, loc, pointer, symbol);
    };
  };
  auto number = [&](int64_t n) {
    return [&b, loc, n]() -> Value {
      return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(n));
    };
  };
  SmallVector<std::function<Value()>> functions;
  for (const std::string &stage : stages)
    functions.push_back(address(stage));
  aggregate("tpc_stages", LLVM::LLVMArrayType::get(pointer, stages.size()), LLVM::Linkage::Internal,
            functions);
  Type i32 = b.getI32Type();
  aggregate("tpc_program_v1",
            LLVM::LLVMStructType::getLiteral(&getContext(), {i32, i32, pointer, pointer}),
            LLVM::Linkage::External,
            {number(TPC_ABI_VERSION), number(stages.size()), address("tpc_manifest"),
             address("tpc_stages")});
}

void LowerProgram::runOnOperation() {
  ModuleOp module = getOperation();
  if (module.lookupSymbol<func::FuncOp>("main") && module.getOps<PipelineOp>().empty()) {
    module.emitError("needs a staged program, with one tpc.pipeline: run tpc-split-stages and "
                     "tpc-schedule-pipeline first");
    return signalPassFailure();
  }
  auto layout = EnvLayout::get(module);
  if (failed(layout))
    return signalPassFailure();
  ParameterTable parameters(module);
  WeightTable weights;
  for (auto weight : llvm::make_early_inc_range(module.getOps<WeightOp>())) {
    weight->remove();
    weights[weight.getSymName()] = weight;
  }
  HostModule host(module, *layout, parameters);

  SmallVector<func::FuncOp> functions, kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      (function->hasAttr(kKernelAttr) ? kernels : functions).push_back(function);
  for (func::FuncOp kernel : kernels)
    for (Operation &op : kernel.front().without_terminator())
      if (auto inner = dyn_cast<KernelOpInterface>(op); !inner || !inner.isKernelOp()) {
        op.emitOpError() << "stands in the kernel @" << kernel.getName()
                         << ", but is no op that kernels can compute";
        return signalPassFailure();
      }
  for (func::FuncOp function : functions)
    if (failed(HostEmitter(host, function.getLoc()).emitFunction(function)))
      return signalPassFailure();

  for (auto pipeline : llvm::make_early_inc_range(module.getOps<PipelineOp>())) {
    SmallVector<std::string> stages;
    ProgramFacts facts = ProgramFacts::get(module, pipeline);
    for (auto stage : pipeline.getBody().getOps<StageOp>()) {
      if (failed(lowerStage(stage, pipeline, host)))
        return signalPassFailure();
      stages.push_back(stageName(stage.getIndex()));
    }
    auto manifest = buildManifest(module, pipeline, name.empty() ? "program" : StringRef(name),
                                  *layout, parameters, weights, facts, digestWeights);
    if (failed(manifest))
      return signalPassFailure();
    pipeline.erase();
    emitProgram(stages, *manifest);
  }
  for (func::FuncOp kernel : kernels)
    if (failed(KernelEmitter(kernel, host).emit()))
      return signalPassFailure();
  for (func::FuncOp function : llvm::concat<func::FuncOp>(functions, kernels))
    function.erase();
}
