//===- PrintReport.cpp - What a staged program communicates ---------------===//

#include "tpc/Analysis/Passes.h"
#include "tpc/Analysis/Report.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_PRINTREPORT
#include "tpc/Analysis/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct PrintReport : public mlir::tpc::impl::PrintReportBase<PrintReport> {
  using PrintReportBase::PrintReportBase;
  void runOnOperation() override {
    Symbols symbols;
    for (const std::string &item : shape) {
      auto [name, size] = StringRef(item).split('=');
      if (name.empty() || size.getAsInteger(10, symbols[name.str()]) || symbols[name.str()] < 0) {
        emitError(getOperation().getLoc()) << "shape: '" << item << "' is not name=size";
        return signalPassFailure();
      }
    }
    auto report = computeReport(getOperation(), symbols);
    if (failed(report))
      return signalPassFailure();
    if (json)
      llvm::outs() << llvm::formatv("{0:2}", report->toJSON()) << "\n";
    else
      report->print(llvm::outs());
  }
};
} // namespace
