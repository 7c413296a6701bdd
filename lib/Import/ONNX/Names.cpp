//===- Names.cpp - Printable names ----------------------------------------===//
//
// A name in protobuf may contain any bytes. This file rewrites each name to printable UTF-8,
// because messages, the IR, JSON and the command lines of executables print names.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "tpc/printable.h"

#include "onnx.pb.h"

using namespace mlir::tpc::frontend;

namespace {
/// Calls `fn` with each name in a model.
class Names {
public:
  explicit Names(llvm::function_ref<void(std::string &)> fn) : fn(fn) {}

  void visit(::onnx::ModelProto &model) {
    visit(*model.mutable_graph());
    visitOpsets(*model.mutable_opset_import());
    for (auto &function : *model.mutable_functions()) {
      for (std::string *name :
           {function.mutable_name(), function.mutable_domain(), function.mutable_overload()})
        fn(*name);
      visitAll(*function.mutable_input());
      visitAll(*function.mutable_output());
      visitAll(*function.mutable_attribute());
      visitAttributes(*function.mutable_attribute_proto());
      visitOpsets(*function.mutable_opset_import());
      visitNodes(*function.mutable_node());
    }
    for (auto &configuration : *model.mutable_configuration())
      fn(*configuration.mutable_name());
  }

private:
  void visitAll(::google::protobuf::RepeatedPtrField<std::string> &names) {
    for (std::string &name : names)
      fn(name);
  }
  template <typename Opsets> void visitOpsets(Opsets &opsets) {
    for (auto &opset : opsets)
      fn(*opset.mutable_domain());
  }
  template <typename Attributes> void visitAttributes(Attributes &attributes) {
    for (auto &attribute : attributes) {
      fn(*attribute.mutable_name());
      if (attribute.has_ref_attr_name())
        fn(*attribute.mutable_ref_attr_name());
      if (attribute.has_t() && attribute.t().has_name())
        fn(*attribute.mutable_t()->mutable_name());
      if (attribute.has_g())
        visit(*attribute.mutable_g());
      for (auto &graph : *attribute.mutable_graphs())
        visit(graph);
    }
  }
  template <typename Nodes> void visitNodes(Nodes &nodes) {
    for (auto &node : nodes) {
      for (std::string *name : {node.mutable_name(), node.mutable_op_type(), node.mutable_domain(),
                                node.mutable_overload()})
        fn(*name);
      visitAll(*node.mutable_input());
      visitAll(*node.mutable_output());
      visitAttributes(*node.mutable_attribute());
      for (auto &device : *node.mutable_device_configurations()) {
        fn(*device.mutable_configuration_id());
        for (auto &sharding : *device.mutable_sharding_spec())
          fn(*sharding.mutable_tensor_name());
      }
    }
  }
  template <typename Values> void visitValues(Values &values) {
    for (auto &value : values) {
      fn(*value.mutable_name());
      if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape())
        continue;
      auto &type = *value.mutable_type()->mutable_tensor_type();
      for (auto &dim : *type.mutable_shape()->mutable_dim())
        if (dim.has_dim_param())
          fn(*dim.mutable_dim_param());
    }
  }
  void visit(::onnx::GraphProto &graph) {
    visitNodes(*graph.mutable_node());
    for (auto &tensor : *graph.mutable_initializer())
      fn(*tensor.mutable_name());
    for (auto &tensor : *graph.mutable_sparse_initializer())
      fn(*tensor.mutable_values()->mutable_name());
    visitValues(*graph.mutable_input());
    visitValues(*graph.mutable_output());
  }

  llvm::function_ref<void(std::string &)> fn;
};
} // namespace

void mlir::tpc::frontend::makeNamesPrintable(::onnx::ModelProto &model) {
  llvm::StringSet<> taken;
  std::map<std::string, std::string> changed;
  Names([&](std::string &name) {
    if (::tpc::printable(name) == name)
      taken.insert(name);
    else
      changed[name];
  }).visit(model);
  if (changed.empty())
    return;
  // Distinct names stay distinct.
  for (auto &[name, text] : changed)
    for (text = ::tpc::printable(name); !taken.insert(text).second;)
      text += '_';
  Names([&](std::string &name) {
    if (auto it = changed.find(name); it != changed.end())
      name = it->second;
  }).visit(model);
}
