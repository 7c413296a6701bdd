//===- Descriptors.cpp - Checks of descriptors on finalization ------------===//

#include "Descriptors.h"

#include <cstring>
#include <set>

namespace sim::dnn {

uint64_t draw(uint64_t hash, uint64_t of, uint64_t below) {
  uint64_t random = (hash ^ driver().seed() * 0x9e3779b97f4a7c15 ^ of << 20) * 0xff51afd7ed558ccd;
  random = (random ^ random >> 29) * 0xc4ceb9fe1a85ec53;
  return (random >> 33) % below;
}

template <class T> std::vector<T> Descriptor::list(Attribute attribute) const {
  auto found = attributes.find(attribute);
  if (found == attributes.end())
    return {};
  std::vector<T> values(found->second.size() / sizeof(T));
  std::memcpy(values.data(), found->second.data(), found->second.size());
  return values;
}

template <class T> T Descriptor::get(Attribute attribute, T otherwise) const {
  auto found = attributes.find(attribute);
  if (found == attributes.end())
    return otherwise;
  T value;
  std::memcpy(&value, found->second.data(), sizeof(T));
  return value;
}

template <class T> const T *Descriptor::of(Attribute attribute) const {
  auto *other = get<Descriptor *>(attribute);
  return isAlive(other) ? std::get_if<T>(&other->contents) : nullptr;
}

Status Descriptor::finalizeTensor(std::string &why) {
  Tensor tensor;
  tensor.id = get<int64_t>(TensorId);
  tensor.alignment = get<int64_t>(TensorAlignment);
  tensor.type = get<DataType>(TensorType);
  tensor.isVirtual = get<bool>(TensorVirtual);
  tensor.isByValue = get<bool>(TensorByValue);
  auto dims = list<int64_t>(TensorDims), strides = list<int64_t>(TensorStrides);
  if (dims.size() != 4 || strides.size() != 4) {
    why = "a tensor must have four sizes and strides";
    return NOT_SUPPORTED;
  }
  for (unsigned i = 0; i < 4; ++i) {
    if (dims[i] < 1 || strides[i] < 1) {
      why = "sizes and strides must be positive";
      return BAD_PARAM;
    }
    tensor.dims[i] = dims[i];
    tensor.strides[i] = strides[i];
  }
  if (tensor.isVirtual && tensor.isByValue) {
    why = "a tensor must not be both virtual and passed by value";
    return BAD_PARAM;
  }
  if (tensor.type != F32 && tensor.type != F16 && tensor.type != I32 && tensor.type != Bf16 &&
      tensor.type != Boolean) {
    why = "not simulated: this element type";
    return NOT_SUPPORTED;
  }
  contents = tensor;
  return SUCCESS;
}

Status Descriptor::finalizeOperation(std::string &why) {
  Operation operation;
  operation.kind = kind;
  bool isMatmul = kind == KindMatmulOp, isReduction = kind == KindReductionOp;
  const OperationMode *mode = of<OperationMode>(isMatmul      ? MatmulOpHow
                                                : isReduction ? ReductionOpHow
                                                              : PwOpHow);
  const Tensor *x = of<Tensor>(isMatmul ? MatmulOpA : isReduction ? ReductionOpX : PwOpX);
  const Tensor *y = of<Tensor>(isMatmul ? MatmulOpC : isReduction ? ReductionOpY : PwOpY);
  const Tensor *b = isMatmul ? of<Tensor>(MatmulOpB) : isReduction ? nullptr : of<Tensor>(PwOpB);
  const Tensor *t = kind == KindPointwiseOp ? of<Tensor>(PwOpT) : nullptr;
  if (!mode || !x || !y || (isMatmul && !b)) {
    why = "a descriptor of the operation has the wrong kind";
    return BAD_PARAM_DESCRIPTOR_TYPE;
  }
  operation.mode = mode->mode;
  operation.axis = mode->axis;
  operation.x = *x;
  operation.y = *y;
  if (b)
    operation.b = *b;
  if (t)
    operation.t = *t;
  if (kind == KindPointwiseOp) {
    bool isUnary = mode->mode == Exp || mode->mode == Log || mode->mode == GenIndex;
    if (isUnary == bool(b) || (mode->mode == Select) != bool(t) ||
        (mode->mode == GenIndex && (mode->axis < 2 || mode->axis > 3))) {
      why = "the operands or the axis of a pointwise operation do not match its mode";
      return BAD_PARAM;
    }
  }
  contents = operation;
  return SUCCESS;
}

Status Descriptor::finalizeGraph(std::string &why) {
  auto graph = std::make_shared<Graph>();
  for (Descriptor *op : list<Descriptor *>(GraphOps)) {
    const Operation *operation = isAlive(op) ? std::get_if<Operation>(&op->contents) : nullptr;
    if (!operation) {
      why = "the graph contains a descriptor that is no operation";
      return BAD_PARAM_DESCRIPTOR_TYPE;
    }
    if (Status status = graph->add(*operation, why))
      return status;
  }
  contents = std::shared_ptr<const Graph>(graph);
  return SUCCESS;
}

Status Descriptor::finalizeHeuristic(std::string &why) {
  auto *graph = of<std::shared_ptr<const Graph>>(HeurGraph);
  if (!graph) {
    why = "the descriptor of a heuristics query must be a graph";
    return BAD_PARAM_DESCRIPTOR_TYPE;
  }
  std::vector<Config> found;
  uint64_t hash = (*graph)->hash();
  // Some graphs have no engine, and some only a fallback engine.
  uint64_t choice = draw(hash, 1, 6);
  bool isFallback = get<HeuristicMode>(HeurMode) == HeuristicFallback;
  if ((*graph)->isAttention() && choice != 0 && (choice != 1 || isFallback))
    for (uint64_t i = 0, count = 1 + draw(hash, 2, 3); i < count; ++i)
      found.push_back({*graph, i + (isFallback ? 100 : 0)});
  contents = found;
  return SUCCESS;
}

Status Descriptor::finalizePlan(std::string &why) {
  const Config *config = of<Config>(PlanConfig);
  auto *context = get<Context *>(PlanHandle);
  if (!config || !isAlive(context)) {
    why = "a plan must have an engine configuration and a handle";
    return BAD_PARAM;
  }
  StreamInfo info;
  if (context->stream && !driver().describe(context->stream, info) && info.capturing) {
    driver().invalidate(context->stream);
    why = "the plan loads kernels, which is not allowed during a capture";
    return EXECUTION_FAILED;
  }
  uint64_t hash = config->graph->hash();
  if (draw(hash, 10 + config->id, 4) == 0)
    return NOT_SUPPORTED; // some recommended configurations have no plan
  constexpr int64_t workspaces[] = {0, 256, 4096};
  contents = Plan{config->graph, context->device, workspaces[draw(hash, 20 + config->id, 3)],
                  draw(hash, 30 + config->id, 10) == 0};
  return SUCCESS;
}

Status Descriptor::finalizePack(std::string &why) {
  Pack pack{list<int64_t>(PackIds), list<uint64_t>(PackPointers), get<uint64_t>(PackWorkspace)};
  std::set<int64_t> ids(pack.ids.begin(), pack.ids.end());
  if (ids.size() != pack.ids.size() || pack.pointers.size() != pack.ids.size()) {
    why = "a pack must have one pointer for each tensor number, each once";
    return BAD_PARAM;
  }
  contents = pack;
  return SUCCESS;
}

Status Descriptor::finalize(std::string &why) {
#define TPC_SIM_ATTRIBUTE(value, name, vendors, ofKind, type, most, needed)                        \
  if (needed && kind == ofKind && !attributes.contains(name)) {                                    \
    why = "it has no CUDNN_ATTR_" #vendors;                                                        \
    return BAD_PARAM;                                                                              \
  }
  TPC_SIM_DNN_ATTRIBUTES(TPC_SIM_ATTRIBUTE)
#undef TPC_SIM_ATTRIBUTE
  switch (kind) {
  case KindTensor:
    return finalizeTensor(why);
  case KindPointwise:
    contents = OperationMode{get<int>(PwMode), get<int64_t>(PwAxis, -1)};
    return SUCCESS;
  case KindMatmul:
    contents = OperationMode{};
    return SUCCESS;
  case KindReduction:
    contents = OperationMode{get<int>(ReductionOperator), -1};
    return SUCCESS;
  case KindMatmulOp:
  case KindPointwiseOp:
  case KindReductionOp:
    return finalizeOperation(why);
  case KindGraph:
    return finalizeGraph(why);
  case KindHeuristic:
    return finalizeHeuristic(why);
  case KindPlan:
    return finalizePlan(why);
  case KindPack:
    return finalizePack(why);
  case KindConfig:
    break;
  }
  why = "only heuristics fill an engine configuration";
  return BAD_PARAM;
}

} // namespace sim::dnn
