//===- OpTable.cpp - Import handlers by ONNX operator and version ---------===//

#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc::frontend;

static std::string keyOf(StringRef domain, StringRef opType) {
  return domain.str() + '\0' + opType.str();
}

void OpTable::add(StringRef domain, StringRef opType, ArrayRef<int64_t> since, Handler handler) {
  for (int64_t version : since)
    entries[keyOf(domain, opType)].push_back({version, handler});
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

const OpTable &OpTable::get() {
  static const OpTable table = [] {
    OpTable t;
    addElementwiseOps(t);
    addActivationOps(t);
    addLogicOps(t);
    addShapeOps(t);
    addReshapeOps(t);
    addSliceOps(t);
    addGatherOps(t);
    addScatterOps(t);
    addGeneratorOps(t);
    addMatmulOps(t);
    addReduceOps(t);
    addNormOps(t);
    addAttentionOps(t);
    addMicrosoftAttentionOps(t);
    return t;
  }();
  return table;
}
