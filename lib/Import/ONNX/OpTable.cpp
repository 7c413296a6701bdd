//===- OpTable.cpp - Import handlers by ONNX operator and version ---------===//

#include "OpTable.h"
#include "Importer.h"
#include "tpc/Import/ONNX/Import.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::tpc::frontend;

static std::string keyOf(StringRef domain, StringRef opType) {
  return domain.str() + '\0' + opType.str();
}

void OpTable::add(StringRef domain, StringRef opType, ArrayRef<int64_t> since, Handler handler,
                  StringRef limits) {
  for (int64_t version : since)
    entries[keyOf(domain, opType)].push_back({version, handler, limits});
}

void OpTable::unpacks(StringRef domain, StringRef opType) {
  unpacking.insert(keyOf(domain, opType));
}

bool OpTable::isUnpacking(StringRef domain, StringRef opType) const {
  return unpacking.contains(keyOf(domain, opType));
}

Handler OpTable::lookup(StringRef domain, StringRef opType, int64_t version) const {
  auto it = entries.find(keyOf(domain, opType));
  if (it == entries.end())
    return nullptr;
  const Entry *best = nullptr;
  for (const Entry &entry : it->second)
    if (entry.since <= version && (!best || entry.since > best->since))
      best = &entry;
  return best ? best->handler : nullptr;
}

void OpTable::print(raw_ostream &os, StringRef domain) const {
  bool versioned = domain.empty();
  os << "| operator |" << (versioned ? " operator sets | changed in |" : "") << " limits |\n";
  os << "|---|" << (versioned ? "---|---|" : "") << "---|\n";
  std::string prefix = keyOf(domain, "");
  SmallVector<StringRef> names;
  for (StringRef key : entries.keys())
    if (key.starts_with(prefix))
      names.push_back(key.drop_front(prefix.size()));
  llvm::sort(names);
  for (StringRef name : names) {
    ArrayRef<Entry> versions = entries.find(keyOf(domain, name))->second;
    os << "| `" << name << "` | ";
    if (versioned) {
      os << versions.front().since << "–" << kNewestOpset << " | ";
      llvm::interleaveComma(versions.drop_front(), os, [&](const Entry &e) { os << e.since; });
      os << " | ";
    }
    os << versions.front().limits << " |\n";
  }
}

void ::tpc::printOnnxOps(raw_ostream &os) {
  const OpTable &table = OpTable::get();
  os << "# ONNX operators\n\n"
        "Operators that the importer reads. *Operator sets* is the range of ai.onnx operator sets "
        "that are supported, and\n*changed in* lists those in it that changed the operator. "
        "[Importing ONNX](../design/onnx-import.md) describes\nsizes, constants, caches and "
        "causality.\n\n"
        "Limits of all operators:\n\n"
        "* Element types are float32, float16, bfloat16, float64, int8, int16, int32, int64, uint8 "
        "and bool.\n"
        "* Arithmetic, comparisons and reductions take operands of one type and, unless a row says "
        "otherwise, no booleans.\n"
        "* Shapes, axes, pads and the like are inputs that must be *known while importing*: "
        "constants, or integer\n  expressions over the sizes of inputs.\n"
        "* An attribute that the importer does not read is an error, and so is a use of an output "
        "that "
        "it does not\n  compute.\n"
        "* Sequences, optional values, strings and sparse tensors are not supported.\n"
        "* Below operator set 7, comparisons and logical operators broadcast trailing dimensions "
        "only.\n\n"
        "Functions of the model are inlined. An operator that is not in a table is an error that "
        "lists all such nodes.\n\n"
        "## ai.onnx\n\n";
  table.print(os, "");
  os << "\n## com.microsoft\n\nVersion 1, as the optimizer of ONNX Runtime writes them.\n\n";
  table.print(os, "com.microsoft");
}

const OpTable &OpTable::get() {
  static const OpTable table = [] {
    OpTable t;
    t.add("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, importIf,
          "condition known while importing, or a comparison of a size with a number: one branch is "
          "imported, that of small sizes");
    addElementwiseOps(t);
    addActivationOps(t);
    addLogicOps(t);
    addShapeOps(t);
    addReshapeOps(t);
    addSliceOps(t);
    addGatherOps(t);
    addScatterOps(t);
    addTensorScatterOps(t);
    addSelectionOps(t);
    addExpertOps(t);
    addEinsumOps(t);
    addGeneratorOps(t);
    addMatmulOps(t);
    addQuantizedOps(t);
    addQuantizeLinearOps(t);
    addQOperators(t);
    addReduceOps(t);
    addNormOps(t);
    addConvOps(t);
    addLossOps(t);
    addAttentionOps(t);
    addMicrosoftAttentionOps(t);
    addGroupQueryAttentionOps(t);
    return t;
  }();
  return table;
}
