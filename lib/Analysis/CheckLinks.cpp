//===- CheckLinks.cpp - Warnings about tensor parallelism across nodes ----===//
//
// Collectives of tensor (and sequence) parallelism are blocking and occur several times per layer,
// so they should use the fastest links. A group that crosses a node boundary runs at the speed of
// the inter-node link.
//
//===----------------------------------------------------------------------===//

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Passes.h"
#include "tpc/Analysis/Report.h"
#include "tpc/Dialect/MeshViews.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_CHECKLINKS
#include "tpc/Analysis/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {

/// Traffic of one rank along an axis in one step, for the stage with the most traffic.
struct Traffic {
  double bytes = 0, seconds = 0;
  double withinNode = 0; // estimated seconds if all ranks were in one node
};

struct CheckLinks : public mlir::tpc::impl::CheckLinksBase<CheckLinks> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    GridAttr grid = GridAttr::lookup(module);
    if (!grid || !grid.getGpusPerNode())
      return;
    LinkModel links(module);
    std::optional<Report> report;
    Symbols symbols;
    int64_t block = 1; // consecutive ranks of a group if the order begins with tp
    for (StringAttr axis : getViewAxes(grid, "tp")) {
      block *= grid.getAxisSize(axis);
      if (!links.crossesNodes(axis))
        continue;
      if (!report) {
        symbols = getNominalSymbols(module);
        FailureOr<Report> computed = computeReport(module, symbols);
        if (failed(computed))
          return signalPassFailure();
        report = std::move(*computed);
      }
      warn(module, grid, axis, block, symbols, getTraffic(links, axis, *report));
    }
  }

  Traffic getTraffic(const LinkModel &links, StringRef axis, const Report &report) {
    std::map<int64_t, Traffic> stages;
    for (const CollectiveRow &row : report.collectives) {
      SmallVector<StringRef> names;
      StringRef(row.axis).split(names, '-');
      ::tpc::Transfer transfer;
      if (!llvm::is_contained(names, axis) || row.count == 0 ||
          !::tpc::parseTransfer(row.kind, transfer))
        continue;
      SmallVector<StringAttr> axes;
      for (StringRef name : names)
        axes.push_back(StringAttr::get(&getContext(), name));
      int64_t members = links.getGroupSize(axes);
      double each = double(row.bytes) / double(row.count);
      Traffic &traffic = stages[row.stage];
      traffic.bytes += row.count * ::tpc::getSentBytes(transfer, members, each);
      traffic.seconds += row.count * links.getSeconds(transfer, axes, each);
      traffic.withinNode +=
          row.count * ::tpc::getSeconds(links.getLinks().intraNode, transfer, members, each);
    }
    Traffic slowest;
    for (const auto &[stage, traffic] : stages)
      if (traffic.seconds > slowest.seconds)
        slowest = traffic;
    return slowest;
  }

  void warn(ModuleOp module, GridAttr grid, StringRef axis, int64_t block, const Symbols &symbols,
            const Traffic &traffic) {
    int64_t size = grid.getAxisSize(axis), node = grid.getGpusPerNode();
    std::string at;
    for (const std::string &name : getInputSymbols(module))
      at += (at.empty() ? " at " : ", ") + name + "=" + std::to_string(symbols.at(name));
    InFlightDiagnostic diag = emitWarning(module.getLoc());
    diag << "groups of " << axis << " (" << size << " ranks) reach over nodes of " << node
         << " GPUs (gpus-per-node=" << node << "):" << at << " a rank sends "
         << llvm::formatv("{0:f3} MiB in a step over the link between nodes, an estimated "
                          "{1:f3} ms instead of {2:f3} ms within a node",
                          traffic.bytes / (1 << 20), traffic.seconds * 1e3,
                          traffic.withinNode * 1e3)
                .str();
    if (node % block == 0)
      diag << "; an order that begins with tp keeps it in a node";
    else if (!grid.hasAxis("tpx"))
      diag << "; a tp that divides " << node << " keeps it in a node";
    else
      diag << "; tp of two dimensions whose product divides " << node << " keeps it in a node";
  }
};

} // namespace
