//===- OpTable.h - Import handlers by ONNX operator and version -*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_OPTABLE_H
#define TPC_LIB_IMPORT_ONNX_OPTABLE_H

#include "Node.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::tpc::frontend {

using Handler = LogicalResult (*)(Node &);

/// Import handlers by domain, op type, and first operator set version that they apply to.
class OpTable {
public:
  /// Returns the table of all ops that tpc imports.
  static const OpTable &get();

  /// Registers `handler` for the versions `since` of the operator set. Each of them changed the
  /// op's definition, and the handler supports the change.
  void add(StringRef domain, StringRef opType, ArrayRef<int64_t> since, Handler handler);
  /// Registers a handler for domain ai.onnx.
  void add(StringRef opType, ArrayRef<int64_t> since, Handler handler) {
    add("", opType, since, handler);
  }
  /// Registers a handler for domain com.microsoft, version 1.
  void addMicrosoft(StringRef opType, Handler handler) {
    add("com.microsoft", opType, {1}, handler);
  }

  /// Returns the handler of the highest version up to `version`, or null if there is none.
  Handler lookup(StringRef domain, StringRef opType, int64_t version) const;

  /// Newest operator set of ai.onnx whose changes have been reviewed.
  static constexpr int64_t kNewestOpset = 28;

private:
  struct Entry {
    int64_t since;
    Handler handler;
  };
  llvm::StringMap<SmallVector<Entry, 4>> entries; // key: domain, NUL, op type
};

// Registration functions, one per file in Ops/.
void addElementwiseOps(OpTable &table);
void addActivationOps(OpTable &table);
void addLogicOps(OpTable &table);
void addShapeOps(OpTable &table);
void addReshapeOps(OpTable &table);
void addSliceOps(OpTable &table);
void addGatherOps(OpTable &table);
void addScatterOps(OpTable &table);
void addGeneratorOps(OpTable &table);
void addMatmulOps(OpTable &table);
void addReduceOps(OpTable &table);
void addNormOps(OpTable &table);
void addAttentionOps(OpTable &table);
void addMicrosoftAttentionOps(OpTable &table);

} // namespace mlir::tpc::frontend

#endif
