//===- ManifestTraining.cpp - Reads the manifest's training step ----------===//

#include "program/ManifestNode.h"
#include <algorithm>

namespace tpc::rt {

namespace {

/// Returns the index of a port, or -1.
int findPort(const std::vector<Port> &ports, const std::string &name) {
  auto found =
      std::find_if(ports.begin(), ports.end(), [&](const Port &port) { return port.name == name; });
  return found == ports.end() ? -1 : static_cast<int>(found - ports.begin());
}

int requireScalar(const Node &node, const std::vector<Port> &ports, const std::string &name) {
  int index = findPort(ports, name);
  if (index < 0 || ports[static_cast<size_t>(index)].dtype != TPC_F32 ||
      !ports[static_cast<size_t>(index)].shape.empty())
    refuse(node.where, "there is no scalar '" + name + "' of type f32");
  return index;
}

} // namespace

Training readTraining(const Node &node, const Manifest &manifest) {
  Training training;
  training.optimizer = node["optimizer"].text();
  training.labels = findPort(manifest.inputs, "labels");
  if (training.labels < 0)
    refuse(node.where, "there is no input 'labels'");
  const Port &labels = manifest.inputs[static_cast<size_t>(training.labels)];
  training.tokens = -1;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Port &port = manifest.inputs[i];
    if (port.name != "labels" && port.dtype == TPC_I64 && port.shape == labels.shape &&
        port.fallback == Port::Default::None && training.tokens < 0)
      training.tokens = static_cast<int>(i);
  }
  size_t rank = labels.shape.size();
  bool areTokens = labels.dtype == TPC_I64 && rank == 2;
  for (size_t dim = 0; areTokens && dim < rank; ++dim)
    areTokens = std::find(manifest.symbols.begin(), manifest.symbols.end(), labels.shape[dim]) !=
                manifest.symbols.end();
  if (!areTokens || training.tokens < 0)
    refuse(node.where, "labels and token ids must be i64 [batch, sequence], with symbolic sizes");
  training.batch = labels.shape.front();
  training.sequence = labels.shape.back();
  const Port &tokens = manifest.inputs[static_cast<size_t>(training.tokens)];
  training.lastToken = tokens.range ? tokens.range->second : INT64_MAX;
  training.rate = requireScalar(node, manifest.inputs, "learning_rate");
  training.loss = requireScalar(node, manifest.outputs, "loss");
  training.norm = requireScalar(node, manifest.outputs, "grad_norm");
  if (training.optimizer != "adamw")
    return training;
  training.correction1 = requireScalar(node, manifest.inputs, "correction1");
  training.correction2 = requireScalar(node, manifest.inputs, "correction2");
  for (auto [key, value] : {std::pair{"beta1", &training.beta1}, {"beta2", &training.beta2}}) {
    const json &number = node[key].value;
    if (!number.is_number() || number.get<double>() < 0 || number.get<double>() >= 1)
      refuse(node.where, std::string(key) + " must be a number that is at least 0 and less than 1");
    *value = number.get<double>();
  }
  return training;
}

} // namespace tpc::rt
