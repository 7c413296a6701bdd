//===- Balance.cpp - Whether all stages have work -------------------------===//

#include "Chain.h"

#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Dist.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

struct Stage {
  size_t from, to; // places
  double seconds = 0;
  int64_t layers = 0;
  bool hasLayers = false;        // or a part of one
  double outside = 0;            // seconds of what is not in a function that is a layer
  Operation *heaviest = nullptr; // of that
  double heaviestSeconds = 0;
};

class Balance {
public:
  Balance(Chain &chain, CostModel &model, ArrayRef<size_t> cuts);
  std::string describe() const;

private:
  std::string explainWithout(const Stage &stage) const;
  std::string explainSlowest(const Stage &stage) const;
  std::string explainStretch(const Stage &stage) const;
  std::string countInLayers(double seconds) const;

  Chain &chain;
  std::vector<Stage> stages;
  int64_t layers = 0;
  double total = 0;
  double layerSeconds = 0; // of one function that is a layer; 0: there is none
};

} // namespace

static std::string quote(Operation *op) { return "'" + getSourceName(op->getLoc()) + "'"; }

static std::string count(int64_t number, StringRef what) {
  return std::to_string(number) + " " + what.str() + (number == 1 ? "" : "s");
}

Balance::Balance(Chain &chain, CostModel &model, ArrayRef<size_t> cuts) : chain(chain) {
  double inLayers = 0;
  int64_t functions = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    Stage stage;
    stage.from = i == 0 ? 0 : cuts[i - 1];
    stage.to = i < cuts.size() ? cuts[i] : chain.getPlaces().size();
    stage.seconds = chain.getCost(stage.from, stage.to).seconds;
    for (Operation *op : chain.getCarried(stage.from, stage.to)) {
      int64_t found = countLayers(op);
      double seconds = model.getCost(op).seconds;
      stage.layers += found;
      if (isOfLayers(op)) {
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

/// The longest stretch of a stage without a place to cut.
std::string Balance::explainStretch(const Stage &stage) const {
  size_t longest = stage.from;
  double most = 0;
  for (size_t place = stage.from; place < stage.to; ++place)
    if (double seconds = chain.getCost(place, place + 1).seconds; seconds > most) {
      most = seconds;
      longest = place;
    }
  ArrayRef<Operation *> ops = chain.getCarried(longest, longest + 1);
  if (ops.size() == 1)
    return quote(ops.front()) + " takes " + countInLayers(most);
  return "between " + quote(ops.front()) + " and " + quote(ops.back()) +
         " more than one activation is live";
}

/// Why a stage has no layer.
std::string Balance::explainWithout(const Stage &stage) const {
  if (layers < int64_t(stages.size()))
    return "there are fewer layers than stages";
  if (stage.heaviest && (layerSeconds == 0 || stage.seconds > 0.9 * layerSeconds))
    return "what it has takes " + countInLayers(stage.seconds) + ", most of all " +
           quote(stage.heaviest);
  const Stage &slowest = *llvm::max_element(
      stages, [](const Stage &a, const Stage &b) { return a.seconds < b.seconds; });
  return explainStretch(slowest);
}

/// Why a stage has so much more than others.
std::string Balance::explainSlowest(const Stage &stage) const {
  int64_t least = layers / int64_t(stages.size());
  if (layerSeconds > 0 && stage.layers <= least && stage.outside > 0.25 * layerSeconds)
    return "beside " + count(stage.layers, "layer") + " it has what takes " +
           countInLayers(stage.outside) + ", most of all " + quote(stage.heaviest);
  if (stage.layers == least + 1)
    return "it has " + count(stage.layers, "layer") + " of " + std::to_string(layers) +
           ", which do not divide by " + std::to_string(stages.size());
  return explainStretch(stage);
}

std::string Balance::describe() const {
  std::string pp = "pp" + std::to_string(stages.size()) + ": ";
  SmallVector<std::string> without;
  const Stage *first = nullptr;
  for (auto [i, stage] : llvm::enumerate(stages))
    if (!stage.hasLayers) {
      without.push_back(std::to_string(i));
      first = first ? first : &stage;
    }
  if (layers > 0 && first)
    return pp + (without.size() == 1 ? "stage " : "stages ") + llvm::join(without, ", ") +
           (without.size() == 1 ? " has none of " : " have none of ") + count(layers, "layer") +
           ": " + explainWithout(*first);

  auto slowest = llvm::max_element(
      stages, [](const Stage &a, const Stage &b) { return a.seconds < b.seconds; });
  double ratio = total > 0 ? slowest->seconds * double(stages.size()) / total : 0;
  if (ratio <= 1.5)
    return "";
  return llvm::formatv("{0}stage {1} takes {2:f2} times the mean of the stages: ", pp,
                       slowest - stages.begin(), ratio)
             .str() +
         explainSlowest(*slowest);
}

std::string mlir::tpc::describeImbalance(Chain &chain, CostModel &model, ArrayRef<size_t> cuts) {
  return cuts.empty() ? "" : Balance(chain, model, cuts).describe();
}
