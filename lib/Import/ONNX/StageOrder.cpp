//===- StageOrder.cpp - Pipeline stage order along graph edges ------------===//

#include "StageOrder.h"
#include "Importer.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc::frontend;

StageOrder::StageOrder(const ::onnx::GraphProto &graph) : graph(graph) {
  llvm::StringMap<int> producers;
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output())
      if (!output.empty())
        producers.try_emplace(output, i);
  needs.resize(graph.node_size());
  for (int i = 0; i < graph.node_size(); ++i) {
    std::vector<std::string> uses;
    collectUses(graph.node(i), uses);
    for (const std::string &name : uses)
      if (auto it = producers.find(name); it != producers.end())
        needs[i].push_back(it->second);
  }
  // Nodes may be in any order in the file. Each is entered once, so the walk terminates.
  SmallVector<bool> entered(graph.node_size());
  SmallVector<std::pair<int, size_t>> stack;
  auto enter = [&](int node) {
    if (!std::exchange(entered[node], true))
      stack.push_back({node, 0});
  };
  for (int i = 0; i < graph.node_size(); ++i) {
    enter(i);
    while (!stack.empty()) {
      auto &[node, next] = stack.back();
      if (next < needs[node].size()) {
        int need = needs[node][next++];
        enter(need);
      } else {
        order.push_back(node);
        stack.pop_back();
      }
    }
  }
}

std::optional<StageOrder::BackwardDependence>
StageOrder::findBackwardDependence(const Stages &stages) const {
  // Per node: the node in the latest stage, among the node and all its transitive producers.
  SmallVector<const ::onnx::NodeProto *> latest(graph.node_size());
  auto stageOf = [&](const ::onnx::NodeProto *node) {
    auto it = stages.find(node);
    return it == stages.end() ? int64_t(-1) : it->second;
  };
  for (int i : order) {
    for (int need : needs[i])
      if (stageOf(latest[need]) > stageOf(latest[i]))
        latest[i] = latest[need];
    const ::onnx::NodeProto *node = &graph.node(i);
    int64_t stage = stageOf(node);
    if (stage < 0)
      continue;
    if (stageOf(latest[i]) > stage)
      return BackwardDependence{latest[i], node};
    latest[i] = node;
  }
  return std::nullopt;
}
