//===- PrintReport.cpp - Printing of the report ---------------------------===//

#include "tpc/Analysis/ParseSymbols.h"
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
    FailureOr<Symbols> symbols =
        parseSymbols(ArrayRef<std::string>(shape), getOperation().getLoc());
    if (failed(symbols))
      return signalPassFailure();
    auto report = computeReport(getOperation(), *symbols);
    if (failed(report))
      return signalPassFailure();
    if (json)
      llvm::outs() << llvm::formatv("{0:2}", report->toJSON()) << "\n";
    else
      report->print(llvm::outs());
  }
};
} // namespace
