//===- SortedExperts.h - Experts with rows sorted by expert -----*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_SORTEDEXPERTS_H
#define TPC_LIB_IMPORT_ONNX_SORTEDEXPERTS_H

#include "GraphRewrite.h"

namespace mlir::tpc::frontend {

namespace sorted {

/// Role of a value computed from the sort.
enum class Kind {
  Rows,    ///< [N, ...] in sorted order
  Ids,     ///< Rows: the sorted ids, or a function of one id each
  Order,   ///< Rows: the sort's indices
  Token,   ///< Rows: order / number
  False,   ///< Rows: false or 0, because an index is not negative
  Float,   ///< Rows: the sort's indices as floats
  Ratio,   ///< Rows: order / number as floats
  Floor,   ///< Rows: the floor of Ratio
  Sign,    ///< Rows: the sign of Ratio: 0 only where Floor is 0
  Unknown, ///< Rows: a function of the order without a row of other data
  Counts,  ///< histogram of the ids
  Ends,    ///< cumulative sums of Counts
  End,     ///< element `number` of Ends
  Range,   ///< indices of the rows of expert `number`
  Part,    ///< rows of expert `number`, of `rows`
  Product, ///< their matmul with its matrix in `stack`
  Inverse, ///< inverse permutation
};

struct Role {
  Kind kind;
  int rank = 1;
  int64_t number = 0;
  StringRef rows = {}, stack = {};
  /// Set for products whose `stack` is the matrix of one expert, [outputs, inputs] if transposed.
  bool isSeparate = false, isTransposed = false;

  bool isRows() const { return kind <= Kind::Unknown; }
  bool isOrder() const { return isRows() && kind != Kind::Rows && kind != Kind::Ids; }
};

class SortedExperts : public RoleRewrite<sorted::Role> {
public:
  using RoleRewrite::RoleRewrite;
  /// Returns false if the uses of the sort are not those of experts.
  bool match(const NodeProto &sort, const llvm::StringSet<> &outputs);
  /// Returns the first Split of rows in the order of `sort` by constant sizes; null if none.
  const NodeProto *findTracedSplit(const NodeProto &sort);

private:
  bool isSort(const NodeProto &node);
  bool visit(const NodeProto &node);
  bool visitElementwise(const NodeProto &node);
  bool visitGather(const NodeProto &node);
  bool visitHistogram(const NodeProto &node);
  bool visitMatMul(const NodeProto &node);
  bool visitConcat(const NodeProto &node);
  void visitFloor(const NodeProto &node, const Role &first, const Role *second, Role &result);

  // CountedExperts.cpp
  bool isFilled(StringRef name, double number);
  bool isCount(StringRef name, int64_t e, StringRef &counts);
  bool isHistogram(StringRef counts);
  bool visitSplit(const NodeProto &node);
  bool visitGemm(const NodeProto &node);
  bool visitScatterOfSums(const NodeProto &node);
  StringRef stackMatrices(const NodeProto &node, SmallVectorImpl<NodeProto *> &by);

  /// Same as `set`, for a node that is no longer needed.
  bool drop(const NodeProto &node, const Role &role) {
    dropped.insert(&node);
    return set(node, role);
  }
  std::optional<int> rankOf(StringRef name, int depth = 0);
  /// Evaluates `name`, a function of an expert id, at `id`.
  std::optional<double> evaluate(StringRef name, double id, bool &isFloat, int depth = 0);

  StringRef ids;
  int64_t bins = 0; // of the histogram
  bool hasProducts = false, hasResult = false;
};

} // namespace sorted

/// Replaces experts whose rows are sorted by expert (SortedExperts.cpp) by nodes without a sort.
/// `nodes` are in order, producers first. `outputs`: names used outside of them. New nodes are
/// added to `storage`. Returns a Split whose sizes are those of the tokens of an export, or null.
const NodeProto *unsortExperts(SmallVectorImpl<const NodeProto *> &nodes,
                               const llvm::StringSet<> &outputs, Importer &importer, Scope &scope,
                               NewNodes &storage);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_SORTEDEXPERTS_H
