//===- ReportSchedule.cpp - Idle slots of a pipeline's schedule -----------===//

#include "tpc/Analysis/Report.h"

using namespace mlir;
using namespace mlir::tpc;

std::vector<int64_t> mlir::tpc::getChunks(StageOp stage) {
  ScheduleAttr schedule = stage->getParentOfType<PipelineOp>().getScheduleAttr();
  std::vector<int64_t> chunks = {int64_t(stage.getIndex())};
  if (schedule)
    chunks = schedule.getChunks(stage.getIndex());
  // A pipeline without a schedule may have several loops.
  chunks.resize(llvm::range_size(stage.getBody().getOps<MicroBatchesOp>()), chunks.front());
  return chunks;
}

ScheduleRow ScheduleRow::count(PipelineOp pipeline, int64_t microBatches) {
  int64_t ranks = llvm::range_size(pipeline.getBody().getOps<StageOp>());
  ScheduleAttr schedule = pipeline.getScheduleAttr();
  if (!schedule || microBatches == 0)
    return {"gpipe", ranks, microBatches, microBatches > 0 ? ranks - 1 : 0};
  ::tpc::ScheduleTable table(ranks);
  int64_t chunks = 0, busy = 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (const ::tpc::ScheduleEvent &event : schedule.getEvents(rank))
      if (event.microBatch < microBatches) {
        table[rank].push_back(event);
        chunks = std::max(chunks, event.chunk + 1);
        busy += rank == 0 && event.phase == ::tpc::SchedulePhase::Forward;
      }
  return {schedule.getPolicy().str(), ranks, busy, ::tpc::countSlots(table, chunks).slots - busy};
}
