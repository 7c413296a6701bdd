//===- Balance.cpp - Diagnosis of imbalanced stages -----------------------===//

#include "PipelineChain.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

struct StageLoad {
  size_t from, to; // cut points
  double seconds = 0;
  int64_t layers = 0;
  bool hasLayers = false;        // a layer or a segment of a layer
  double outside = 0;            // seconds of ops outside of layer functions
  Operation *heaviest = nullptr; // slowest op outside of layer functions
  double heaviestSeconds = 0;
};

class Balance {
public:
  Balance(PipelineChain &chain, CostModel &model, ArrayRef<size_t> cuts, int64_t chunksPerRank);
  std::string describe() const;

private:
  std::string explainMissingLayer(const StageLoad &stage) const;
  std::string explainSlowest(const StageLoad &stage) const;
  std::string explainStretch(const StageLoad &stage) const;
  std::string countInLayers(double seconds) const;

  PipelineChain &chain;
  int64_t chunksPerRank;
  std::vector<StageLoad> stages;
  int64_t layers = 0;
  double total = 0;
  double layerSeconds = 0; // mean seconds of a layer; 0 without layers
};

} // namespace

static std::string count(int64_t number, StringRef what) {
  return std::to_string(number) + " " + what.str() + (number == 1 ? "" : "s");
}

Balance::Balance(PipelineChain &chain, CostModel &model, ArrayRef<size_t> cuts,
                 int64_t chunksPerRank)
    : chain(chain), chunksPerRank(chunksPerRank) {
  double inLayers = 0;
  int64_t functions = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    StageLoad stage;
    stage.from = i == 0 ? 0 : cuts[i - 1];
    stage.to = i < cuts.size() ? cuts[i] : chain.getCutPoints().size();
    stage.seconds = chain.getCost(stage.from, stage.to).seconds;
    for (Operation *op : chain.getCarried(stage.from, stage.to)) {
      int64_t found = countLayers(op);
      double seconds = model.getCost(op).seconds;
      stage.layers += found;
      if (callsLayers(op)) {
        stage.hasLayers = true;
        functions += found;
        inLayers += seconds;
        continue;
      }
      stage.hasLayers |= found > 0;
      stage.outside += seconds;
      if (seconds > stage.heaviestSeconds) {
        stage.heaviest = op;
        stage.heaviestSeconds = seconds;
      }
    }
    layers += stage.layers;
    total += stage.seconds;
    stages.push_back(stage);
  }
  if (functions > 0)
    layerSeconds = inLayers / double(functions);
}

std::string Balance::countInLayers(double seconds) const {
  if (layerSeconds > 0)
    return llvm::formatv("as long as {0:f1} layers", seconds / layerSeconds).str();
  return llvm::formatv("{0:f0}% of the time of the model", 100 * seconds / total).str();
}

/// Explains the longest sequence of ops of a stage without a cut point.
std::string Balance::explainStretch(const StageLoad &stage) const {
  size_t longest = stage.from;
  double maxSeconds = 0;
  for (size_t cutPoint = stage.from; cutPoint < stage.to; ++cutPoint)
    if (double seconds = chain.getCost(cutPoint, cutPoint + 1).seconds; seconds > maxSeconds) {
      maxSeconds = seconds;
      longest = cutPoint;
    }
  ArrayRef<Operation *> ops = chain.getCarried(longest, longest + 1);
  if (ops.size() == 1)
    return quote(ops.front()) + " takes " + countInLayers(maxSeconds);
  return "between " + quote(ops.front()) + " and " + quote(ops.back()) +
         " more than one activation is live";
}

/// Explains why a stage has no layer.
std::string Balance::explainMissingLayer(const StageLoad &stage) const {
  if (layers < int64_t(stages.size()))
    return chunksPerRank == 1 ? "there are fewer layers than stages"
                              : "there are fewer layers than chunks on all ranks of pp";
  if (stage.heaviest && (layerSeconds == 0 || stage.seconds > 0.9 * layerSeconds))
    return "its other ops take " + countInLayers(stage.seconds) + ", mostly " +
           quote(stage.heaviest);
  const StageLoad &slowest = *llvm::max_element(
      stages, [](const StageLoad &a, const StageLoad &b) { return a.seconds < b.seconds; });
  return explainStretch(slowest);
}

/// Explains why a stage takes much longer than others.
std::string Balance::explainSlowest(const StageLoad &stage) const {
  int64_t minLayers = layers / int64_t(stages.size());
  if (layerSeconds > 0 && stage.layers <= minLayers && stage.outside > 0.25 * layerSeconds)
    return "in addition to " + count(stage.layers, "layer") + ", it has ops that take " +
           countInLayers(stage.outside) + ", mostly " + quote(stage.heaviest);
  if (stage.layers == minLayers + 1)
    return "it has " + count(stage.layers, "layer") + " of " + std::to_string(layers) + ", and " +
           std::to_string(stages.size()) + " does not divide " + std::to_string(layers);
  return explainStretch(stage);
}

std::string Balance::describe() const {
  int64_t ranks = int64_t(stages.size()) / chunksPerRank;
  std::string pp = kPipelineAxis.str() + std::to_string(ranks), unit = "stage";
  if (chunksPerRank > 1) {
    pp += ",vpp" + std::to_string(chunksPerRank);
    unit = "chunk";
  }
  pp += ": ";
  SmallVector<std::string> without;
  const StageLoad *first = nullptr;
  for (auto [i, stage] : llvm::enumerate(stages))
    if (!stage.hasLayers) {
      without.push_back(std::to_string(i));
      first = first ? first : &stage;
    }
  if (layers > 0 && first)
    return pp + unit + (without.size() == 1 ? " " : "s ") + llvm::join(without, ", ") +
           (without.size() == 1 ? " has none of " : " have none of ") + count(layers, "layer") +
           ": " + explainMissingLayer(*first);

  auto slowest = llvm::max_element(
      stages, [](const StageLoad &a, const StageLoad &b) { return a.seconds < b.seconds; });
  double ratio = total > 0 ? slowest->seconds * double(stages.size()) / total : 0;
  if (ratio <= 1.5)
    return "";
  return llvm::formatv("{0}{1} {2} takes {3:f2} times the mean of the {1}s: ", pp, unit,
                       slowest - stages.begin(), ratio)
             .str() +
         explainSlowest(*slowest);
}

std::string mlir::tpc::describeImbalance(PipelineChain &chain, CostModel &model,
                                         ArrayRef<size_t> cuts, int64_t chunksPerRank) {
  return cuts.empty() ? "" : Balance(chain, model, cuts, chunksPerRank).describe();
}
