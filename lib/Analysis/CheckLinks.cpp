//===- CheckLinks.cpp - Warnings about views across nodes -----------------===//
//
// Blocking collectives that occur several times per layer should use the fastest links. A group
// that crosses a node boundary runs at the speed of the inter-node link.
//
//===----------------------------------------------------------------------===//

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Passes.h"
#include "tpc/Analysis/Report.h"

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
  using CheckLinksBase::CheckLinksBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr grid = MeshAttr::lookup(module);
    if (!grid || !grid.getGpusPerNode())
      return;
    LinkModel links(module);
    std::optional<Report> report;
    Symbols symbols;
    int64_t block = 1; // consecutive ranks of a group if the order begins with the view
    for (StringAttr axis : grid.getView(view)) {
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

  void warn(ModuleOp module, MeshAttr grid, StringRef axis, int64_t block, const Symbols &symbols,
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
      diag << "; an order that begins with " << view << " keeps it in a node";
    else
      diag << "; a " << view << " whose size divides " << node << " keeps it in a node";
  }
};

} // namespace
