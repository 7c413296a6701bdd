//===- OpTable.h - Which function imports which op -------------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_OPTABLE_H
#define TPC_LIB_IMPORT_ONNX_OPTABLE_H

#include "Node.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::tpc::frontend {

using Handler = LogicalResult (*)(Node &);

/// Handlers by domain, op type and the version of the operator set since which
/// they apply.
class OpTable {
public:
  /// All ops that tpc imports.
  static const OpTable &get();

  /// `since`: the versions of the operator set at which the op's definition
  /// changed and that this handler understands.
  void add(StringRef domain, StringRef opType, ArrayRef<int64_t> since, Handler handler);
  /// ai.onnx.
  void add(StringRef opType, ArrayRef<int64_t> since, Handler handler) {
    add("", opType, since, handler);
  }
  /// com.microsoft, version 1.
  void addMicrosoft(StringRef opType, Handler handler) {
    add("com.microsoft", opType, {1}, handler);
  }

  /// The handler of the highest version that is not above `version`; null if there is none.
  Handler lookup(StringRef domain, StringRef opType, int64_t version) const;

  /// The newest operator set of ai.onnx whose changes were looked at.
  static constexpr int64_t kNewestOpset = 28;

private:
  struct Entry {
    int64_t since;
    Handler handler;
  };
  llvm::StringMap<SmallVector<Entry, 4>> entries; // key: domain, NUL, op type
};

// One for each file in Ops/.
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
