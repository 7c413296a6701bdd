//===- HostModelsStages.cpp - A stage's rounds ----------------------------===//

#include "HostModels.h"

using namespace mlir;
using namespace mlir::tpc;

/// What the rounds read of what the stage has computed before them.
static SmallVector<Value> getShared(MicroBatchesOp loop, ParameterTable &parameters) {
  llvm::SetVector<Value> shared;
  loop.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      // Parameters have an index, which is the same in all functions of a stage.
      if (operand.getDefiningOp() && operand.getParentBlock() == loop->getBlock() &&
          !parameters.lookup(operand))
        shared.insert(operand);
  });
  return shared.takeVector();
}

namespace {
/// A function that does one round and returns at once where its micro-batch is empty, and a loop
/// that calls it.
struct MicroBatchesModel : HostOpInterface::ExternalModel<MicroBatchesModel, MicroBatchesOp> {
  LogicalResult lower(Operation *op, HostEmitter &e) const {
    auto loop = cast<MicroBatchesOp>(op);
    HostModule &host = e.getHost();
    auto before = llvm::make_range(op->getBlock()->begin(), op->getIterator());
    int64_t index = llvm::count_if(before, [](Operation &o) { return isa<MicroBatchesOp>(o); });
    std::string name = (e.getName() + "_body_" + Twine(index)).str();
    SmallVector<Value> shared = getShared(loop, host.parameters);
    if (failed(HostEmitter(host, loop.getLoc()).emitRound(name, loop, shared)))
      return failure();

    OpBuilder &b = e.builder();
    Location loc = e.getLoc();
    SmallVector<Value> arguments{e.context(), e.environment()};
    for (Value value : shared)
      arguments.push_back(e.pointer(value));
    auto callRound = [&](Value round) {
      Value where =
          LLVM::GEPOp::create(b, loc, e.environment().getType(), b.getI64Type(), e.environment(),
                              ArrayRef<LLVM::GEPArg>{(int32_t)host.layout.microBatchIndex()});
      LLVM::StoreOp::create(b, loc, round, where);
      // The device has an env of its own, which changes as work gets there.
      if (host.layout.axisSize("mb") > 1)
        e.call(TPC_ABI(tpc_set_env), e.i32(host.layout.microBatchIndex()), abi::I64(round));
      auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                              llvm::to_vector(TypeRange(ValueRange(arguments))));
      LLVM::CallOp::create(b, loc, type, name, arguments);
    };
    int64_t count = host.layout.axisSize("mb");
    Value first = e.i64(0);
    if (count == 1 || !loop.getBatchAttr()) {
      callRound(first);
      return success();
    }
    Value one = e.i64(1), last = e.i64(count);
    Block *from = b.getInsertionBlock();
    Region *region = from->getParent();
    Block *body = b.createBlock(region, region->end(), b.getI64Type(), loc);
    b.setInsertionPointToEnd(from);
    LLVM::BrOp::create(b, loc, ValueRange{first}, body);
    b.setInsertionPointToStart(body);
    callRound(body->getArgument(0));
    Value next = LLVM::AddOp::create(b, loc, body->getArgument(0), one);
    Value more = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, next, last);
    Block *after = b.createBlock(region, region->end());
    b.setInsertionPointToEnd(body);
    LLVM::CondBrOp::create(b, loc, more, body, ValueRange{next}, after, ValueRange());
    b.setInsertionPointToStart(after);
    return success();
  }
};
} // namespace

void mlir::tpc::attachStageModels(MLIRContext *context) {
  MicroBatchesOp::attachInterface<MicroBatchesModel>(*context);
}
