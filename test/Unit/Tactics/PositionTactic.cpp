//===- PositionTactic.cpp - Tactic outside of the compiler ----------------===//
//
// Splits the rows of small tables, such as positions, over tp. The tactics of the compiler
// replicate these, because each rank needs all positions of its tokens. This file is all that the
// tactic needs: no other file names it.
//
//===----------------------------------------------------------------------===//

#include "tpc/Transforms/Tactics/Tactic.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

struct PositionTactic : Tactic {
  StringRef getName() const override { return "positions"; }
  StringRef getSummary() const override { return "rows of tables that the vocabulary leaves"; }
  bool isEnabled(const ::tpc::ShardSpec &spec) const override {
    return !spec.manual && spec.grid.size("tp") > 1;
  }
  SmallVector<StringRef> getNeeds() const override { return {"columns"}; }
  SmallVector<StringRef> getProvides() const override { return {"axes"}; }

  LogicalResult seed(PartitionState &state) const override {
    const PartitionProblem &problem = state.problem;
    for (Operation *op : problem.getOps()) {
      auto embedding = dyn_cast<EmbeddingOp>(op);
      if (!embedding)
        continue;
      for (int cls : problem.classes.getClasses(embedding->getOperand(0), 0)) {
        SmallVector<StringAttr> axes = state.getFreeAtoms(cls, "tp");
        if (axes.empty())
          continue;
        state.assign(cls, axes, "a rank stores its part of the table", op);
        state.expectOfClass(cls, axes, problem.describe(cls), "tp");
        state.explain(problem.describe(cls) + " over tp: " + problem.describeSites(cls));
      }
    }
    return success();
  }
};

} // namespace

static TacticRegistration<PositionTactic> registration;
