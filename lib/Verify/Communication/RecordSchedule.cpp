//===- RecordSchedule.cpp - Hash of the schedule for the manifest ---------===//

#include "tpc/Verify/Schedule.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct RecordSchedule : public PassWrapper<RecordSchedule, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RecordSchedule)

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module.getOps<PipelineOp>().empty())
      return;
    FailureOr<Schedule> schedule = Schedule::project(module);
    if (failed(schedule))
      return signalPassFailure();
    module->setAttr(kScheduleAttr, StringAttr::get(&getContext(), schedule->getHash()));
  }
};
} // namespace

std::unique_ptr<Pass> mlir::tpc::createRecordSchedule() {
  return std::make_unique<RecordSchedule>();
}
