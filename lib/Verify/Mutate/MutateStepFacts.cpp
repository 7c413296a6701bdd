//===- MutateStepFacts.cpp - Faults in facts of steps, caches, weights ----===//
//
// Faults in `tpc.step`, in types and order of caches, and in locations of weights and parameters.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"
#include "tpc/Dialect/SourceCaches.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/WeightParts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Steps and caches
//===----------------------------------------------------------------------===//

static bool changeStep(Mutator &m, function_ref<bool(PreallocatedStep &)> change) {
  auto step = PreallocatedStep::lookup(m.module);
  if (!step || !change(*step))
    return false;
  step->attachTo(m.module);
  return true;
}
static bool changeWindow(Mutator &m) {
  return changeStep(m, [&](PreallocatedStep &step) {
    if (!step.windowed)
      return false;
    int64_t &window = step.windowed->window;
    int64_t others[] = {window - 1, window + 1, 1, window * 2};
    window = std::max<int64_t>(1, others[m.seed % 4]);
    return true;
  });
}
static bool dropWindowNames(Mutator &m) {
  return changeStep(m, [](PreallocatedStep &step) {
    bool has = step.windowed.has_value();
    step.windowed.reset();
    return has;
  });
}
static bool toggleLast(Mutator &m) {
  return changeStep(m, [](PreallocatedStep &step) {
    step.last = !step.last;
    return true;
  });
}
static bool swapStepInputs(Mutator &m) {
  return changeStep(m, [&](PreallocatedStep &step) {
    if (step.windowed && m.draw(2))
      std::swap(m.draw(4) < 2 ? step.lengths : step.counts, step.windowed->lengths);
    else
      std::swap(step.lengths, step.counts);
    return true;
  });
}
static bool otherStepInput(Mutator &m) {
  return changeStep(m, [&](PreallocatedStep &step) {
    (m.draw(2) ? step.lengths : step.counts) = "input_ids";
    return true;
  });
}
/// Changes the symbols of a step that takes past keys and values and returns extended ones.
static bool changeStepSymbols(Mutator &m, function_ref<bool(StepSymbols &)> change) {
  auto symbols = StepSymbols::lookup(m.module);
  if (!symbols || !change(*symbols))
    return false;
  symbols->attachTo(m.module);
  return true;
}
static bool swapStepSymbols(Mutator &m) {
  auto swap = [](StepSymbols &symbols) {
    std::swap(symbols.past, symbols.tokens);
    return true;
  };
  return changeStepSymbols(m, swap) || changeStep(m, [&](PreallocatedStep &step) {
           if (step.windowed && m.draw(2))
             std::swap(step.capacity, step.windowed->capacity);
           else
             std::swap(step.tokens, step.capacity);
           return true;
         });
}
static bool otherStepSymbol(Mutator &m) {
  auto caches = m.module.getOps<CacheOp>();
  if (caches.empty())
    return false;
  auto batch = getSymbolName(getSizes((*caches.begin()).getType())[0]);
  if (!batch)
    return false;
  auto change = [&](StepSymbols &symbols) {
    (m.draw(2) ? symbols.tokens : symbols.past) = *batch;
    return true;
  };
  return changeStepSymbols(m, change) || changeStep(m, [&](PreallocatedStep &step) {
           (m.draw(2) ? step.tokens : step.capacity) = *batch;
           return true;
         });
}
static bool dropStep(Mutator &m) { return bool(m.module->removeAttr(kStepAttr)); }

/// Names another symbol or input for the source tokens of an encoder-decoder.
static bool changeSourceCaches(Mutator &m) {
  std::optional<SourceCaches> source = SourceCaches::lookup(m.module);
  if (!source)
    return false;
  switch (m.seed % 3) {
  case 0:
    std::swap(source->tokens, source->capacity);
    break;
  case 1:
    source->capacity = "elsewhere";
    break;
  default:
    source->lengths = "input_ids";
  }
  source->attachTo(m.module);
  return true;
}

static bool changeCacheType(Mutator &m) {
  auto cache = m.pickAny<CacheOp>();
  if (!cache)
    return false;
  SmallVector<SymExpr> sizes = getSizes(cache.getType());
  Type element = cast<RankedTensorType>(cache.getType()).getElementType();
  if (m.draw(2))
    element = element.isF32() ? m.builder.getF16Type() : Type(m.builder.getF32Type());
  else
    sizes[1] = sizes[1] + SymExpr(1);
  cache.setType(makeTensorType(element, sizes));
  return true;
}
static bool reorderCaches(Mutator &m) {
  auto cache =
      m.pick<CacheOp>([](CacheOp op) { return isa_and_nonnull<CacheOp>(op->getNextNode()); });
  if (cache)
    cache->moveAfter(cache->getNextNode());
  return bool(cache);
}

//===----------------------------------------------------------------------===//
// Weights and parameter entries
//===----------------------------------------------------------------------===//

static WeightOp pickWeight(Mutator &m) { return m.pickAny<WeightOp>(); }
static bool moveWeight(Mutator &m) {
  auto weight = pickWeight(m);
  if (weight)
    weight.setOffset(weight.getOffset() + 4);
  return bool(weight);
}
static bool otherFile(Mutator &m) {
  auto weight = pickWeight(m);
  if (weight)
    weight.setFile("other.bin");
  return bool(weight);
}
static bool swapWeights(Mutator &m) {
  auto other = [](WeightOp weight) -> WeightOp {
    for (auto op : weight->getParentOfType<ModuleOp>().getOps<WeightOp>())
      if (op != weight && op.getType() == weight.getType() && op.getOffset() != weight.getOffset())
        return op;
    return {};
  };
  auto weight = m.pick<WeightOp>([&](WeightOp op) { return bool(other(op)); });
  if (!weight)
    return false;
  WeightOp second = other(weight);
  int64_t offset = weight.getOffset();
  weight.setOffset(second.getOffset());
  second.setOffset(offset);
  return true;
}
/// Exchanges two parts of a weight, or moves one.
static bool changeParts(Mutator &m) {
  auto weight = m.pick<WeightOp>([](WeightOp op) { return getParts(op).size() > 1; });
  if (!weight)
    return false;
  SmallVector<int64_t> parts(getParts(weight));
  if (m.draw(2))
    std::swap(parts[0], parts[1]);
  else
    parts.back() += 4;
  weight->setAttr(kPartsAttr, m.builder.getDenseI64ArrayAttr(parts));
  return true;
}
static bool changeWeightType(Mutator &m) {
  auto weight = pickWeight(m);
  if (!weight)
    return false;
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape(type.getShape());
  Type element = type.getElementType();
  if (m.draw(2) && !shape.empty())
    shape.front() += 1;
  else
    element = element.isF32() ? m.builder.getF16Type() : Type(m.builder.getF32Type());
  weight.setType(RankedTensorType::get(shape, element));
  return true;
}

static buffer::EntryOp pickEntry(Mutator &m) { return m.pickAny<buffer::EntryOp>(); }
static bool moveEntry(Mutator &m) {
  auto entry = pickEntry(m);
  if (!entry)
    return false;
  int64_t stages = m.sizeOf("pp");
  entry.setStage((entry.getStage() + 1) % std::max<int64_t>(2, stages));
  return true;
}
static bool changeEntryUse(Mutator &m) {
  auto entry = pickEntry(m);
  if (!entry)
    return false;
  buffer::LoadAttr load = entry.getLoad();
  bool packed = load.getUse() == buffer::ParameterUse::Packed;
  entry.setLoadAttr(buffer::LoadAttr::get(
      m.context, packed ? buffer::ParameterUse::Dense : buffer::ParameterUse::Packed,
      load.getWeight(), load.getView(), load.getType()));
  return true;
}
static bool changeEntryView(Mutator &m) {
  auto entry =
      m.pick<buffer::EntryOp>([](buffer::EntryOp op) { return bool(op.getLoad().getView()); });
  if (!entry)
    return false;
  buffer::LoadAttr load = entry.getLoad();
  ViewAttr view = load.getView();
  entry.setLoadAttr(buffer::LoadAttr::get(
      m.context, load.getUse(), load.getWeight(),
      ViewAttr::get(m.context, view.getOffset() + 1, view.getDims()), load.getType()));
  return true;
}
/// Changes the factors of a dimension of a view: the seed selects one of all matches.
static bool changeEntryFactors(Mutator &m,
                               function_ref<bool(ArrayRef<StridedFactorAttr>, unsigned)> fits,
                               function_ref<void(SmallVectorImpl<Attribute> &, unsigned)> change) {
  SmallVector<std::tuple<buffer::EntryOp, unsigned, unsigned>> matches;
  for (auto entry : m.find<buffer::EntryOp>([](buffer::EntryOp) { return true; }))
    if (ViewAttr view = entry.getLoad().getView())
      for (unsigned d = 0; d < view.getDims().size(); ++d) {
        auto factors = llvm::to_vector(view.getFactors(d));
        for (unsigned i = 0; i < factors.size(); ++i)
          if (fits(factors, i))
            matches.emplace_back(entry, d, i);
      }
  if (matches.empty())
    return false;
  auto [entry, d, i] = matches[m.seed % matches.size()];
  m.location = entry;
  buffer::LoadAttr load = entry.getLoad();
  SmallVector<ArrayAttr> dims(load.getView().getDims());
  SmallVector<Attribute> factors(dims[d].getValue());
  change(factors, i);
  dims[d] = m.builder.getArrayAttr(factors);
  entry.setLoadAttr(buffer::LoadAttr::get(
      m.context, load.getUse(), load.getWeight(),
      ViewAttr::get(m.context, load.getView().getOffset(), dims), load.getType()));
  return true;
}
/// Increments the stride of a factor with several elements.
static bool changeEntryStride(Mutator &m) {
  return changeEntryFactors(
      m, [](ArrayRef<StridedFactorAttr> factors, unsigned i) { return factors[i].getSize() > 1; },
      [&](SmallVectorImpl<Attribute> &factors, unsigned i) {
        auto factor = cast<StridedFactorAttr>(factors[i]);
        factors[i] = StridedFactorAttr::get(m.context, factor.getSize(), factor.getStride() + 1);
      });
}
/// Exchanges the sizes of adjacent factors, such as heads and their copies.
static bool swapEntrySizes(Mutator &m) {
  return changeEntryFactors(
      m,
      [](ArrayRef<StridedFactorAttr> factors, unsigned i) {
        return i + 1 < factors.size() && factors[i].getSize() != factors[i + 1].getSize();
      },
      [&](SmallVectorImpl<Attribute> &factors, unsigned i) {
        auto a = cast<StridedFactorAttr>(factors[i]), b = cast<StridedFactorAttr>(factors[i + 1]);
        factors[i] = StridedFactorAttr::get(m.context, b.getSize(), a.getStride());
        factors[i + 1] = StridedFactorAttr::get(m.context, a.getSize(), b.getStride());
      });
}
static bool addEntry(Mutator &m) {
  auto entry = pickEntry(m);
  if (!entry)
    return false;
  auto copy = cast<buffer::EntryOp>(m.builder.clone(*entry));
  copy.setSymName("one_more");
  return true;
}

ArrayRef<Mutation> mutate::getStepFactMutations() {
  static constexpr Mutation mutations[] = {
      {"fact-cache-type", "a cache has another type", changeCacheType},
      {"fact-cache-order", "two caches are declared in the other order", reorderCaches},
      {"fact-step-window", "the window is changed", changeWindow},
      {"fact-step-no-window", "sliding-window caches are not named", dropWindowNames},
      {"fact-step-last", "logits are recorded for all tokens, or for the last", toggleLast},
      {"fact-step-inputs", "two inputs of the step are exchanged", swapStepInputs},
      {"fact-step-input", "another input is named", otherStepInput},
      {"fact-step-symbols", "two symbols of the step are exchanged", swapStepSymbols},
      {"fact-step-symbol", "another symbol is named", otherStepSymbol},
      {"fact-step-lost", "the step is not named", dropStep},
      {"fact-step-source", "another symbol or input of source tokens is named", changeSourceCaches},
      {"fact-weight-parts", "a part of a weight is at another location", changeParts},
      {"fact-weight-offset", "a weight begins four bytes later", moveWeight},
      {"fact-weight-file", "a weight is in another file", otherFile},
      {"fact-weights-swapped", "the locations of two weights are exchanged", swapWeights},
      {"fact-weight-type", "a weight has another type", changeWeightType},
      {"fact-entry-stage", "another stage loads a parameter", moveEntry},
      {"fact-entry-use", "a parameter is packed, or not", changeEntryUse},
      {"fact-entry-view", "a view begins one element later", changeEntryView},
      {"fact-entry-stride", "the stride of a parameter is larger", changeEntryStride},
      {"fact-entry-sizes", "the sizes of two factors of a view are exchanged", swapEntrySizes},
      {"fact-entry-more", "a parameter is loaded twice", addEntry},
  };
  return mutations;
}
