//===- OpTable.h - Import handlers by ONNX operator and version -*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_OPTABLE_H
#define TPC_LIB_IMPORT_ONNX_OPTABLE_H

#include "Node.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::tpc::frontend {

using Handler = LogicalResult (*)(Node &);

/// Import handlers by domain, op type, and first supported version of the operator set.
class OpTable {
public:
  /// Returns the table of all ops that tpc imports.
  static const OpTable &get();

  /// Registers `handler` for the versions `since` of the operator set. Each of them changed the
  /// op's definition, and the handler supports the change. `limits` lists what the handler rejects
  /// beyond the limits of all ops: attributes, types, ranks, values that must be known. It is empty
  /// if the handler takes all that ONNX defines, and is printed by printOnnxOps.
  void add(StringRef domain, StringRef opType, ArrayRef<int64_t> since, Handler handler,
           StringRef limits);
  /// Registers a handler for domain ai.onnx.
  void add(StringRef opType, ArrayRef<int64_t> since, Handler handler, StringRef limits = "") {
    add("", opType, since, handler, limits);
  }
  /// Registers a handler for domain com.microsoft, version 1.
  void addMicrosoft(StringRef opType, Handler handler, StringRef limits = "") {
    add("com.microsoft", opType, {1}, handler, limits);
  }

  /// Registers that the handlers of an op read inputs with several elements per byte
  /// (Tensor::packedBits). For all other ops such an input is an error.
  void unpacks(StringRef domain, StringRef opType);

  /// Returns the handler of the highest version up to `version`, or null if there is none.
  Handler lookup(StringRef domain, StringRef opType, int64_t version) const;
  bool isUnpacking(StringRef domain, StringRef opType) const;

  /// Newest operator set of ai.onnx whose changes have been reviewed.
  static constexpr int64_t kNewestOpset = 28;

  /// Prints a markdown table of the ops of `domain`: versions and limits, sorted by name.
  void print(raw_ostream &os, StringRef domain) const;

private:
  struct Entry {
    int64_t since;
    Handler handler;
    StringRef limits; // a string literal
  };
  llvm::StringMap<SmallVector<Entry, 4>> entries; // key: domain, NUL, op type
  llvm::StringSet<> unpacking;                    // the same keys
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
void addTensorScatterOps(OpTable &table);
void addSelectionOps(OpTable &table);
void addEinsumOps(OpTable &table);
void addGeneratorOps(OpTable &table);
void addMatmulOps(OpTable &table);
void addQuantizedOps(OpTable &table);
void addQuantizeLinearOps(OpTable &table);
void addQOperators(OpTable &table);
void addReduceOps(OpTable &table);
void addNormOps(OpTable &table);
void addExpertOps(OpTable &table);
void addConvOps(OpTable &table);
void addLossOps(OpTable &table);
void addAttentionOps(OpTable &table);
void addMicrosoftAttentionOps(OpTable &table);
void addGroupQueryAttentionOps(OpTable &table);

/// Extreme elements along a dimension, the most extreme element first. Of equal elements, the one
/// with the lowest index is first.
struct Selection {
  SmallVector<Value> values, indices; // of size 1 along the dimension
  Value taken;                        // true where an element is selected
};
/// Selects `count` elements along `dim`. Reports an error if that is more than tpc selects, or more
/// than there are.
FailureOr<Selection> selectExtremes(Node &n, Value operand, ReduceFunction function, int64_t dim,
                                    int64_t count);

} // namespace mlir::tpc::frontend

#endif
