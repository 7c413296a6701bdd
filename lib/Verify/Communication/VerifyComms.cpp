//===- VerifyComms.cpp - Proof of deadlock freedom ------------------------===//

#include "VerifyComms.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Verify/Certificate.h"
#include "tpc/Verify/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_VERIFYCOMMS
#include "tpc/Verify/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

static std::string outputName(PipelineOp pipeline, int64_t index) {
  if (auto dict = dyn_cast<DictionaryAttr>(pipeline.getOutputs()[index]))
    if (auto name = dict.getAs<StringAttr>("name"))
      return "output '" + name.getValue().str() + "'";
  return "output " + std::to_string(index);
}

static LogicalResult collectOutputs(PipelineOp pipeline, const Schedule::Items &items,
                                    llvm::MapVector<int64_t, SmallVector<OutputOp>> &outputs) {
  for (const Item &item : items) {
    if (item.kind == Item::Kind::Output) {
      auto output = cast<OutputOp>(item.op);
      if (output.getIndex() >= pipeline.getOutputs().size())
        return output.emitError() << "there is no output " << int64_t(output.getIndex());
      outputs[output.getIndex()].push_back(output);
    } else if (item.kind == Item::Kind::Loop) {
      // Events of all micro-batches deliver the same outputs: those of the first are read.
      if (item.at <= 0 && failed(collectOutputs(pipeline, item.body, outputs)))
        return failure();
    } else if (item.kind == Item::Kind::Branch) {
      for (const Schedule::Items *side : {&item.body, &item.other})
        for (const Item &inner : *side)
          if (inner.kind == Item::Kind::Output)
            return inner.op->emitError(
                "an output must not be in a branch, because it may then not be delivered");
    }
  }
  return success();
}

LogicalResult comms::checkOutputs(const Schedule &schedule) {
  PipelineOp pipeline = schedule.getPipeline();
  llvm::MapVector<int64_t, SmallVector<OutputOp>> outputs;
  for (const auto &[stage, items] : schedule.getStages())
    if (failed(collectOutputs(pipeline, items, outputs)))
      return failure();
  for (int64_t i = 0; i < int64_t(pipeline.getOutputs().size()); ++i) {
    ArrayRef<OutputOp> found = outputs[i];
    if (found.empty())
      return pipeline.emitError() << outputName(pipeline, i) << " is delivered by no stage";
    if (found.size() > 1) {
      InFlightDiagnostic diag = OutputOp(found[1]).emitError()
                                << outputName(pipeline, i) << " is delivered twice";
      diag.attachNote(OutputOp(found[0]).getLoc()) << "delivered here first";
      return diag;
    }
    auto dict = dyn_cast<DictionaryAttr>(pipeline.getOutputs()[i]);
    auto type = dict ? dict.getAs<TypeAttr>("type") : TypeAttr();
    auto promised = type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
    Type delivered = OutputOp(found[0]).getValue().getType();
    Type full = getCopies(pipeline, i).getDeliveredType(delivered);
    if (!promised || promised.getElementType() != getElementTypeOrSelf(delivered) ||
        getSizes(promised) != getSizes(full))
      return OutputOp(found[0]).emitError()
             << outputName(pipeline, i) << " is delivered as " << delivered
             << ", which is not a slice of the type that the pipeline declares";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

static LogicalResult checkEvents(const Schedule &schedule, const Schedule::Items &items) {
  for (const Item &item : items)
    if ((item.kind == Item::Kind::Comm && isCollective(item.op) &&
         failed(checkCollective(schedule, item.op))) ||
        failed(checkEvents(schedule, item.body)) || failed(checkEvents(schedule, item.other)))
      return failure();
  return success();
}

FailureOr<Certificate> Certificate::make(ModuleOp module) {
  FailureOr<Schedule> schedule = Schedule::project(module);
  if (failed(schedule))
    return failure();
  // The hash must be that of this program, because executables compare it at startup.
  if (auto recorded = module->getAttrOfType<StringAttr>(kScheduleAttr))
    if (std::string hash = schedule->getHash(); recorded.getValue() != hash)
      return emitError(module.getLoc())
             << "'" << kScheduleAttr << "' is " << recorded << ", but the hash of what the program "
             << "communicates is \"" << hash
             << "\": if the program was changed on purpose, remove the attribute";
  // Each function is checked once.
  for (const auto &[function, items] : schedule->getFunctions())
    if (failed(checkEvents(*schedule, items)))
      return failure();
  for (const auto &[stage, items] : schedule->getStages())
    if (failed(checkEvents(*schedule, items)))
      return failure();
  if (failed(checkStarts(*schedule)) || failed(checkUniformity(*schedule)) ||
      failed(checkOutputs(*schedule)))
    return failure();
  FailureOr<Crossings> crossings = matchCrossings(*schedule);
  if (failed(crossings) || failed(findOrder(*schedule, *crossings)))
    return failure();
  return Certificate(makeCertificateJSON(*schedule, *crossings));
}

void Certificate::print(raw_ostream &os) const { os << llvm::formatv("{0:2}", json) << "\n"; }

namespace {
struct VerifyComms : public mlir::tpc::impl::VerifyCommsBase<VerifyComms> {
  using VerifyCommsBase::VerifyCommsBase;

  void runOnOperation() override {
    FailureOr<Certificate> proof = Certificate::make(getOperation());
    if (failed(proof))
      return signalPassFailure();
    if (certificate == "-") {
      proof->print(llvm::outs());
    } else if (!certificate.empty()) {
      std::error_code code;
      llvm::raw_fd_ostream os(certificate, code);
      if (!code) {
        proof->print(os);
        os.close();
        code = os.error();
        os.clear_error();
      }
      if (code) {
        emitError(getOperation().getLoc())
            << "certificate: cannot write '" << certificate << "': " << code.message();
        return signalPassFailure();
      }
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
