//===- GraphRewrite.h - Replacement of nodes before import ------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_GRAPHREWRITE_H
#define TPC_LIB_IMPORT_ONNX_GRAPHREWRITE_H

#include "Importer.h"

#include "onnx.pb.h"

namespace mlir::tpc::frontend {

using ::onnx::NodeProto;
using Nodes = SmallVectorImpl<const NodeProto *>;

/// Returns an integer attribute, or `otherwise`.
int64_t getInt(const NodeProto &node, StringRef name, int64_t otherwise);
bool isOneOf(const NodeProto &node, std::initializer_list<StringRef> types);
bool isElementwise(const NodeProto &node);
/// Returns whether a scatter has this reduction.
bool hasReduction(const NodeProto &node, StringRef name);

/// Nodes that are dropped or replaced, and their new constants.
class GraphRewrite {
public:
  /// `nodes` are in order, producers first. New nodes are added to `storage`.
  GraphRewrite(Nodes &nodes, Importer &importer, Scope &scope, NewNodes &storage)
      : nodes(nodes), importer(importer), scope(scope), storage(storage) {
    for (const NodeProto *node : nodes)
      for (const std::string &output : node->output())
        if (!output.empty())
          producers[output] = node;
  }
  void apply();

protected:
  const NodeProto *producer(StringRef name) const { return producers.lookup(name); }
  std::optional<SmallVector<double>> constant(StringRef name);
  std::optional<SmallVector<double>> constant(const ::onnx::TensorProto &proto);
  std::optional<double> scalar(StringRef name);
  bool isNumber(const NodeProto &node, int input, double number);

  NodeProto &add(StringRef type, ArrayRef<StringRef> inputs, const Twine &output);
  StringRef addInts(const Twine &name, ArrayRef<int64_t> ints);
  void replace(const NodeProto &node, ArrayRef<NodeProto *> by) {
    for (NodeProto *added : by)
      added->set_name(node.name());
    replacements[&node].assign(by.begin(), by.end());
  }

  std::optional<SmallVector<double>> constant(const Tensor &tensor);

  Nodes &nodes;
  Importer &importer;
  Scope &scope;
  NewNodes &storage;
  llvm::StringMap<const NodeProto *> producers;
  llvm::DenseSet<const NodeProto *> dropped;
  llvm::DenseMap<const NodeProto *, SmallVector<const NodeProto *>> replacements;
  std::map<std::string, Tensor> constants; // new
};

/// Replacement of nodes by the roles of the values that they compute.
template <typename Role> class RoleRewrite : public GraphRewrite {
public:
  using GraphRewrite::GraphRewrite;

protected:
  const Role *roleOf(StringRef name) const {
    auto it = roles.find(name);
    return it == roles.end() ? nullptr : &it->second;
  }
  const Role *roleOf(const NodeProto &node, int input) const {
    return input < node.input_size() ? roleOf(node.input(input)) : nullptr;
  }
  /// Returns true.
  bool set(const NodeProto &node, const Role &role, int output = 0) {
    roles[node.output(output)] = role;
    return true;
  }

  llvm::StringMap<Role> roles;
};

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_GRAPHREWRITE_H
