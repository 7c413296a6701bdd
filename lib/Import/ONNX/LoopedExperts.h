//===- LoopedExperts.h - Experts in an unrolled loop ------------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_LOOPEDEXPERTS_H
#define TPC_LIB_IMPORT_ONNX_LOOPEDEXPERTS_H

#include "GraphRewrite.h"

namespace mlir::tpc::frontend {

namespace looped {

/// Role of a value computed from the positions of an expert's tokens. There are n positions.
enum class Kind {
  Positions, ///< [dimensions, n], or [n, dimensions]
  Column,    ///< one dimension of them, [1, n] or [n, 1]
  Index,     ///< one dimension of them: [n], [n, 1], or [n, width] (expanded)
  Scaled,    ///< [n]: an index times the number `factor`
  Linear,    ///< [n]: a scaled index and another index
  Tuple,     ///< [n, 2]: two indices
  Sizes,     ///< sizes of one of the values
  Rows,      ///< functions of the token of each position; n is dimension `axis`
  Gate,      ///< [n] or [n, 1]: the routing weight of each position
  Gated,     ///< Rows times Gate
};

struct Role {
  Kind kind;
  int loop;
  int dim = 0;   // mask dimension of the index; Linear, Tuple: of the first index
  int other = 0; // Linear, Tuple: mask dimension of the second index
  int rank = 1, axis = 0;
  bool isTransposed = false; // Positions, Column: n is first
  bool isExpanded = false;   // Index: [n, width]
  bool isGathered = false;   // Rows: not computed yet
  StringRef factor = {};
};

} // namespace looped

/// Replaces an unrolled loop over experts, of which each computes the tokens at the positions of
/// its mask, by layers of all tokens times gates.
class LoopedExperts : public RoleRewrite<looped::Role> {
public:
  using RoleRewrite::RoleRewrite;
  /// Matches all loops. Returns whether there are any.
  bool match(const llvm::StringSet<> &outputs);

private:
  using Kind = looped::Kind;
  using Role = looped::Role;
  /// One expert of a loop.
  struct Expert {
    StringRef mask;     // [.., ..], nonzero for its positions
    std::string all;    // masks [experts, .., ..] of the loop, or empty
    int64_t number = 0; // index of the expert in `all`
    int rank = 0;
    bool isMatched = true, hasResult = false;
    SmallVector<const NodeProto *> dropped, replaced;
  };

  bool begin(const NodeProto &nonzero);
  bool visit(const NodeProto &node);
  bool visitIndex(const NodeProto &node, const Role &role);
  bool visitGather(const NodeProto &node);
  bool visitElementwise(const NodeProto &node);
  bool visitScatter(const NodeProto &node);
  bool visitRows(const NodeProto &node, const Role &role);

  // LoopedShapes.cpp
  int getReshapedRank(const NodeProto &node);
  bool isColumnCount(StringRef size, StringRef weights);
  bool isColumn(StringRef name);
  bool areDistinct(StringRef ids);
  bool keepsRows(const NodeProto &expand);
  bool assignsOnce(const NodeProto &scatter, const Role &index);
  /// Replaces `node` by the sums of weights [tokens, k] over the positions of each token, or of the
  /// number 1 if `weights` is empty.
  void addGate(const NodeProto &node, StringRef output, StringRef weights, const Role &role,
               SmallVectorImpl<NodeProto *> &added);

  /// Same as `set`, for a node that is no longer needed.
  bool drop(const NodeProto &node, const Role &role) {
    experts[role.loop].dropped.push_back(&node);
    return set(node, role);
  }
  void replaceIn(const Role &role, const NodeProto &node, ArrayRef<NodeProto *> by) {
    replace(node, by);
    experts[role.loop].replaced.push_back(&node);
  }

  SmallVector<Expert> experts;
  llvm::StringMap<std::string> routings; // by masks, weights and order
};

SmallVector<int64_t> getInts(const NodeProto &node, StringRef name);

/// Replaces all such loops among `nodes`, which are in order. `outputs`: names used outside.
void replaceLoopedExperts(SmallVectorImpl<const NodeProto *> &nodes,
                          const llvm::StringSet<> &outputs, Importer &importer, Scope &scope,
                          NewNodes &storage);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_LOOPEDEXPERTS_H
