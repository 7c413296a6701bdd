//===- MutateFacts.cpp - Faults in facts of a program ---------------------===//
//
// Names, defaults, constraints, the grid, caches and the optimizer: in model, staged and lowered
// programs.
//
//===----------------------------------------------------------------------===//

#include "Mutate.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

static StringAttr text(Mutator &m, const Twine &value) { return m.builder.getStringAttr(value); }

//===----------------------------------------------------------------------===//
// Attributes of the module
//===----------------------------------------------------------------------===//

static bool changeSource(Mutator &m) {
  auto source = m.module->getAttrOfType<StringAttr>(kSourceAttr);
  if (!source)
    return false;
  m.module->setAttr(kSourceAttr, text(m, "/elsewhere" + source.getValue()));
  return true;
}

/// Sets an attribute to another value, or removes it. Returns false if it does not exist.
static bool changeText(Mutator &m, StringRef name, StringRef other) {
  if (!m.module->hasAttr(name))
    return false;
  if (m.draw(2))
    m.module->removeAttr(name);
  else
    m.module->setAttr(name, text(m, other));
  return true;
}
static bool changeSchedule(Mutator &m) { return changeText(m, kScheduleAttr, "0123456789abcdef"); }
/// Records a skipped check. Only in lowered programs, because parsing a staged program drops
/// reports.
static bool addReport(Mutator &m) {
  if (m.find<ModuleOp>([&](ModuleOp op) { return op != m.module; }).empty())
    return false;
  m.module->setAttr(m.draw(2) ? kNotVerifiedAttr : kNoRandomizedCheckAttr, text(m, "nothing"));
  return true;
}
/// Changes the target. Only in lowered programs, because a staged program is valid for any target.
static bool changeTarget(Mutator &m) {
  if (m.find<ModuleOp>([&](ModuleOp op) { return op != m.module; }).empty())
    return false;
  auto target = m.module->getAttrOfType<StringAttr>(kTargetAttr);
  m.module->setAttr(kTargetAttr, text(m, target && target == "cuda" ? "cpu" : "cuda"));
  return true;
}
static bool dropBatch(Mutator &m) { return bool(m.module->removeAttr(kBatchAttr)); }
static bool toggleNorms(Mutator &m) {
  if (!m.grid)
    return false; // not partitioned
  if (!m.module->removeAttr(kNormsDecomposedAttr))
    m.module->setAttr(kNormsDecomposedAttr, m.builder.getUnitAttr());
  return true;
}

/// Modifies the list of constraints, unless it is empty.
static bool changeConstraint(Mutator &m, function_ref<bool(NamedAttrList &)> change) {
  auto list = m.module->getAttrOfType<ArrayAttr>(kConstraintsAttr);
  if (!list || list.empty())
    return false;
  SmallVector<Attribute> all(list.getValue());
  Attribute &entry = all[m.seed % all.size()];
  NamedAttrList fields(cast<DictionaryAttr>(entry));
  if (!change(fields))
    return false;
  entry = fields.getDictionary(m.context);
  m.module->setAttr(kConstraintsAttr, m.builder.getArrayAttr(all));
  return true;
}
template <bool isMaximum> static bool moveBound(Mutator &m) {
  return changeConstraint(m, [&](NamedAttrList &fields) {
    StringRef field = isMaximum ? "max" : "min";
    auto bound = dyn_cast_or_null<IntegerAttr>(fields.get(field));
    if (bound)
      fields.set(field, m.builder.getI64IntegerAttr(bound.getInt() + (m.draw(2) ? 1 : -1)));
    return bool(bound);
  });
}
static bool dropConstraintMaximum(Mutator &m) {
  return changeConstraint(m, [](NamedAttrList &fields) { return bool(fields.erase("max")); });
}
static bool changeConstrained(Mutator &m) {
  return changeConstraint(m, [&](NamedAttrList &fields) {
    SymExpr size = cast<SymExprAttr>(fields.get("expr")).getExpr();
    fields.set("expr", SymExprAttr::get(m.context, m.draw(2) ? size + SymExpr(1) : size * 2));
    return true;
  });
}
static bool changeReason(Mutator &m) {
  return changeConstraint(m, [&](NamedAttrList &fields) {
    fields.set("why", text(m, "no reason"));
    return true;
  });
}
static bool dropConstraint(Mutator &m) {
  auto list = m.module->getAttrOfType<ArrayAttr>(kConstraintsAttr);
  if (!list || list.empty())
    return false;
  SmallVector<Attribute> all(list.getValue());
  all.erase(all.begin() + m.seed % all.size());
  m.module->setAttr(kConstraintsAttr, m.builder.getArrayAttr(all));
  return true;
}
static bool addConstraint(Mutator &m) {
  auto list = m.module->getAttrOfType<ArrayAttr>(kConstraintsAttr);
  SmallVector<Attribute> all;
  if (list)
    llvm::append_range(all, list.getValue());
  NamedAttrList fields;
  fields.set("expr", SymExprAttr::get(m.context, SymExpr::symbol("batch")));
  fields.set("max", m.builder.getI64IntegerAttr(1));
  all.push_back(fields.getDictionary(m.context));
  m.module->setAttr(kConstraintsAttr, m.builder.getArrayAttr(all));
  return true;
}

//===----------------------------------------------------------------------===//
// The grid
//===----------------------------------------------------------------------===//

static bool
changeGrid(Mutator &m,
           function_ref<bool(SmallVectorImpl<StringAttr> &, SmallVectorImpl<int64_t> &, int64_t &)>
               change) {
  if (!m.grid)
    return false;
  SmallVector<StringAttr> order(m.grid.getOrder());
  SmallVector<int64_t> sizes(m.grid.getSizes());
  int64_t microBatches = m.grid.getMicroBatches();
  if (!change(order, sizes, microBatches))
    return false;
  m.module->setAttr(kMeshAttr,
                    MeshAttr::get(m.context, order, sizes, m.grid.getViews(), microBatches,
                                  m.grid.getGpusPerNode(), m.grid.getChunksPerRank()));
  return true;
}
static bool reorderGrid(Mutator &m) {
  return changeGrid(m, [](auto &order, auto &sizes, int64_t &) {
    for (unsigned i = 0; i < sizes.size(); ++i)
      for (unsigned j = i + 1; j < sizes.size(); ++j)
        if (sizes[i] > 1 && sizes[j] > 1) {
          std::swap(order[i], order[j]);
          std::swap(sizes[i], sizes[j]);
          return true;
        }
    return false;
  });
}
static bool resizeGrid(Mutator &m) {
  return changeGrid(m, [&](auto &, auto &sizes, int64_t &) {
    sizes[m.seed % sizes.size()] *= 2;
    return true;
  });
}
static bool addMicroBatches(Mutator &m) {
  return changeGrid(m, [](auto &, auto &, int64_t &microBatches) {
    microBatches *= 2;
    return true;
  });
}
static bool changeNodes(Mutator &m) {
  if (!m.grid)
    return false;
  m.module->setAttr(kMeshAttr,
                    MeshAttr::get(m.context, m.grid.getOrder(), m.grid.getSizes(),
                                  m.grid.getViews(), m.grid.getMicroBatches(),
                                  m.grid.getGpusPerNode() + 2, m.grid.getChunksPerRank()));
  return true;
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

namespace {
/// Attributes of inputs or outputs: of @main or of the pipeline.
class PortList {
public:
  PortList(Mutator &m, bool outputs) : m(m), outputs(outputs) {
    for (auto op : m.module.getOps<PipelineOp>())
      pipeline = op;
    if (!pipeline)
      main = m.module.lookupSymbol<func::FuncOp>("main");
    if (pipeline)
      for (Attribute attribute : outputs ? pipeline.getOutputs() : pipeline.getInputAttrs())
        list.push_back(cast<DictionaryAttr>(attribute));
    else if (main)
      for (unsigned i = 0; i < (outputs ? main.getNumResults() : main.getNumArguments()); ++i) {
        auto found = outputs ? main.getResultAttrDict(i) : main.getArgAttrDict(i);
        list.push_back(found ? found : DictionaryAttr::get(m.context));
      }
  }
  StringRef nameKey() const {
    return pipeline && outputs ? StringRef("name") : StringRef(kNameAttr);
  }
  bool isCache(unsigned i) const { return bool(getCache(list[i])); }
  void set(unsigned i, StringRef field, Attribute value) {
    NamedAttrList fields(list[i]);
    if (value)
      fields.set(field, value);
    else
      fields.erase(field);
    list[i] = fields.getDictionary(m.context);
  }
  void store() {
    if (pipeline) {
      SmallVector<Attribute> all(list.begin(), list.end());
      (outputs ? pipeline.setOutputsAttr(m.builder.getArrayAttr(all))
               : pipeline.setInputAttrsAttr(m.builder.getArrayAttr(all)));
    } else if (outputs) {
      main.setAllResultAttrs(list);
    } else {
      main.setAllArgAttrs(list);
    }
  }

  SmallVector<DictionaryAttr> list;

private:
  Mutator &m;
  bool outputs;
  PipelineOp pipeline;
  func::FuncOp main;
};
} // namespace

/// Changes one of the matching inputs or outputs.
static bool changePort(Mutator &m, bool outputs, function_ref<bool(PortList &, unsigned)> change) {
  PortList ports(m, outputs);
  for (unsigned k = 0; k < ports.list.size(); ++k) {
    unsigned i = (k + m.seed) % ports.list.size();
    if (!change(ports, i))
      continue;
    ports.store();
    return true;
  }
  return false;
}

template <bool outputs> static bool renamePort(Mutator &m) {
  return changePort(m, outputs, [&](PortList &ports, unsigned i) {
    bool named = bool(ports.list[i].get(ports.nameKey()));
    if (named)
      ports.set(i, ports.nameKey(), text(m, "other"));
    return named;
  });
}
template <bool outputs> static bool swapNames(Mutator &m) {
  return changePort(m, outputs, [&](PortList &ports, unsigned i) {
    unsigned j = (i + 1) % ports.list.size();
    Attribute a = ports.list[i].get(ports.nameKey()), b = ports.list[j].get(ports.nameKey());
    if (!a || !b || a == b)
      return false;
    ports.set(i, ports.nameKey(), b);
    ports.set(j, ports.nameKey(), a);
    return true;
  });
}
static bool swapCaches(Mutator &m) {
  return changePort(m, m.draw(2), [&](PortList &ports, unsigned i) {
    unsigned j = (i + 1) % ports.list.size();
    if (i == j || !ports.isCache(i) || !ports.isCache(j))
      return false;
    Attribute cache = getCache(ports.list[i]);
    ports.set(i, kCacheAttr, getCache(ports.list[j]));
    ports.set(j, kCacheAttr, cache);
    return true;
  });
}
static bool dropCacheMark(Mutator &m) {
  return changePort(m, m.draw(2), [&](PortList &ports, unsigned i) {
    bool isCache = ports.isCache(i);
    if (isCache)
      ports.set(i, kCacheAttr, {});
    return isCache;
  });
}
static bool changeDefault(Mutator &m) {
  return changePort(m, false, [&](PortList &ports, unsigned i) {
    InputDefaultAttr value = InputDefaultAttr::lookup(ports.list[i]);
    if (!value)
      return false;
    Attribute other;
    if (m.draw(2))
      other = value.getKind() == InputDefaultKind::Ones
                  ? InputDefaultAttr::get(m.context, InputDefaultKind::Positions)
                  : InputDefaultAttr::get(m.context, InputDefaultKind::Ones);
    ports.set(i, kDefaultAttr, other);
    return true;
  });
}
static bool addDefault(Mutator &m) {
  return changePort(m, false, [&](PortList &ports, unsigned i) {
    if (ports.isCache(i) || InputDefaultAttr::lookup(ports.list[i]))
      return false;
    ports.set(i, kDefaultAttr, InputDefaultAttr::get(m.context, InputDefaultKind::Ones));
    return true;
  });
}
static bool changeRequired(Mutator &m) {
  return changePort(m, false, [&](PortList &ports, unsigned i) {
    if (ports.isCache(i))
      return false;
    bool has = bool(ports.list[i].get(kRequiredAttr));
    ports.set(i, kRequiredAttr, has ? Attribute() : Attribute(text(m, "it must")));
    return true;
  });
}
/// Changes the type of an output. Only in pipelines, whose outputs have separate types.
static bool changeOutputType(Mutator &m) {
  return changePort(m, true, [&](PortList &ports, unsigned i) {
    auto type = ports.list[i].getAs<TypeAttr>("type");
    auto tensor = type ? dyn_cast<RankedTensorType>(type.getValue()) : RankedTensorType();
    if (!tensor || tensor.getRank() == 0)
      return false;
    SmallVector<SymExpr> sizes = getSizes(tensor);
    Type element = tensor.getElementType();
    if (m.draw(2))
      sizes.back() = sizes.back() + SymExpr(1);
    else
      element = element.isF32() ? m.builder.getF16Type() : Type(m.builder.getF32Type());
    ports.set(i, "type", TypeAttr::get(makeTensorType(element, sizes)));
    return true;
  });
}
static bool changeCopies(Mutator &m) {
  return changePort(m, true, [&](PortList &ports, unsigned i) {
    auto copies = ports.list[i].getAs<DenseI64ArrayAttr>(kCopiesAttr);
    if (!copies)
      return false;
    ports.set(i, kCopiesAttr,
              m.draw(2) ? Attribute()
                        : Attribute(m.builder.getDenseI64ArrayAttr({copies[0], copies[1] * 2})));
    return true;
  });
}

//===----------------------------------------------------------------------===//
// Training steps
//===----------------------------------------------------------------------===//

static bool changeOptimizer(Mutator &m, function_ref<bool(NamedAttrList &)> change) {
  auto optimizer = m.module->getAttrOfType<DictionaryAttr>(kOptimizerAttr);
  if (!optimizer)
    return false;
  NamedAttrList fields(optimizer);
  if (!change(fields))
    return false;
  m.module->setAttr(kOptimizerAttr, fields.getDictionary(m.context));
  return true;
}
static bool renameOptimizer(Mutator &m) {
  return changeOptimizer(m, [&](NamedAttrList &fields) {
    fields.set("name", text(m, "other"));
    return true;
  });
}
static bool changeOptimizerNumber(Mutator &m) {
  return changeOptimizer(m, [&](NamedAttrList &fields) {
    SmallVector<NamedAttribute> numbers;
    for (NamedAttribute field : fields)
      if (isa<FloatAttr>(field.getValue()))
        numbers.push_back(field);
    if (numbers.empty())
      return false;
    NamedAttribute field = m.drawFrom(numbers);
    auto number = cast<FloatAttr>(field.getValue());
    fields.set(field.getName(), FloatAttr::get(number.getType(), number.getValueAsDouble() * 0.5));
    return true;
  });
}
static bool dropOptimizer(Mutator &m) { return bool(m.module->removeAttr(kOptimizerAttr)); }
static bool swapUpdates(Mutator &m) {
  return changePort(m, true, [&](PortList &ports, unsigned i) {
    Attribute update = ports.list[i].get(kUpdateAttr);
    for (unsigned j = 0; update && j < ports.list.size(); ++j)
      if (Attribute other = ports.list[j].get(kUpdateAttr); other && other != update) {
        ports.set(i, kUpdateAttr, other);
        ports.set(j, kUpdateAttr, update);
        return true;
      }
    return false;
  });
}
static bool dropUpdate(Mutator &m) {
  return changePort(m, true, [&](PortList &ports, unsigned i) {
    bool has = bool(ports.list[i].get(kUpdateAttr));
    if (has)
      ports.set(i, kUpdateAttr, {});
    return has;
  });
}

ArrayRef<Mutation> mutate::getFactMutations() {
  static constexpr Mutation mutations[] = {
      {"fact-source", "the source of weight files is changed", changeSource},
      {"fact-schedule", "the hash of the schedule is changed or removed", changeSchedule},
      {"fact-report", "a verifier is recorded as skipped", addReport},
      {"fact-target", "the target is changed", changeTarget},
      {"fact-batch", "the symbol of the micro-batch size is removed", dropBatch},
      {"fact-norms", "decomposed norms are recorded as fused, or the reverse", toggleNorms},
      {"fact-constraint-min", "a minimum is off by one", moveBound<false>},
      {"fact-constraint-max", "a maximum is off by one", moveBound<true>},
      {"fact-constraint-unbounded", "a maximum is removed", dropConstraintMaximum},
      {"fact-constraint-size", "another size is constrained", changeConstrained},
      {"fact-constraint-reason", "a constraint has another reason", changeReason},
      {"fact-constraint-lost", "a constraint is removed", dropConstraint},
      {"fact-constraint-more", "there is one more constraint", addConstraint},
      {"fact-grid-order", "two axes of the grid are exchanged", reorderGrid},
      {"fact-grid-size", "an axis of the grid is longer", resizeGrid},
      {"fact-grid-rounds", "there are more micro-batches", addMicroBatches},
      {"fact-grid-nodes", "more ranks share a node", changeNodes},
      {"fact-input-name", "an input is renamed", renamePort<false>},
      {"fact-input-names", "names of two inputs are exchanged", swapNames<false>},
      {"fact-input-default", "a default is changed or removed", changeDefault},
      {"fact-input-default-more", "an input gets a default", addDefault},
      {"fact-input-required", "an input becomes required, or no longer is", changeRequired},
      {"fact-output-name", "an output is renamed", renamePort<true>},
      {"fact-output-names", "names of two outputs are exchanged", swapNames<true>},
      {"fact-output-type", "an output has another type", changeOutputType},
      {"fact-output-copies", "copies in an output are more, or removed", changeCopies},
      {"fact-caches-swapped", "two caches are exchanged", swapCaches},
      {"fact-cache-lost", "an argument is no longer marked as a cache", dropCacheMark},
      {"fact-optimizer-name", "the optimizer is renamed", renameOptimizer},
      {"fact-optimizer-number", "a number of the optimizer is halved", changeOptimizerNumber},
      {"fact-optimizer-lost", "the optimizer is not named", dropOptimizer},
      {"fact-updates-swapped", "outputs replace each other's weights", swapUpdates},
      {"fact-update-lost", "an output no longer replaces its weight", dropUpdate},
  };
  return mutations;
}
