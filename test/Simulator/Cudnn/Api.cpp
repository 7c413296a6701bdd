//===- Api.cpp - cuDNN entry points ---------------------------------------===//

#include "Cuda/Alive.h"
#include "Descriptors.h"

#include <cstring>

namespace sim::dnn {
extern "C" {
#define FUNCTION(result, name, parameters)                                                         \
  __attribute__((visibility("default"))) result name parameters;
#include "Functions.def"
#undef FUNCTION
}

namespace {

Status misuse(const char *call, Status status, const std::string &what) {
  driver().finding(std::string("misuse: ") + call + ": " + what);
  return status;
}

struct Rule {
  Kind kind;
  Type type;
  int64_t most;
  const char *name;
};

const Rule *ruleOf(Attribute attribute) {
  switch (attribute) {
#define TPC_SIM_ATTRIBUTE(value, name, vendors, kind, type, most, needed)                          \
  case name: {                                                                                     \
    static constexpr Rule rule{kind, type, most, "CUDNN_ATTR_" #vendors};                          \
    return &rule;                                                                                  \
  }
    TPC_SIM_DNN_ATTRIBUTES(TPC_SIM_ATTRIBUTE)
#undef TPC_SIM_ATTRIBUTE
  }
  return nullptr;
}

size_t bytesOf(Type type) {
  switch (type) {
#define TPC_SIM_TYPE(value, name, vendors, bytes)                                                  \
  case name:                                                                                       \
    return bytes;
    TPC_SIM_DNN_TYPES(TPC_SIM_TYPE)
#undef TPC_SIM_TYPE
  }
  return 0;
}

bool isKind(Kind kind) {
  switch (kind) {
#define TPC_SIM_KIND(value, name, vendors) case name:
    TPC_SIM_DNN_KINDS(TPC_SIM_KIND)
#undef TPC_SIM_KIND
    return true;
  }
  return false;
}

/// Reads the operands from a call's variant pack and checks them against the plan.
Status readOperands(const Plan &plan, const Pack &pack, Operands &operands, std::string &why) {
  std::map<int64_t, uint64_t> given;
  for (size_t i = 0; i < pack.ids.size(); ++i)
    given[pack.ids[i]] = pack.pointers[i];
  for (const auto &[id, tensor] : plan.graph->tensors) {
    if (tensor.isVirtual)
      continue;
    std::string name = "tensor " + std::to_string(id);
    auto found = given.find(id);
    if (found == given.end() || !found->second) {
      why = name + " has no pointer";
      return BAD_PARAM_NULL_POINTER;
    }
    uint64_t pointer = found->second;
    given.erase(found);
    bool isOnDevice = driver().allocated(pointer, bytesOf(tensor.type));
    if (isOnDevice == tensor.isByValue) {
      why = name + (isOnDevice ? " is given by value, from the device's memory"
                               : " is not in the device's memory");
      return BAD_PARAM;
    }
    if (pointer % uint64_t(tensor.alignment)) {
      why = name + " is not aligned to " + std::to_string(tensor.alignment) + " bytes";
      return BAD_PARAM_MISALIGNED_POINTER;
    }
    if (!tensor.isByValue) {
      operands.addresses[id] = pointer;
      continue;
    }
    const void *value = reinterpret_cast<const void *>(pointer);
    int32_t integer;
    std::memcpy(&integer, value, 4);
    float number;
    std::memcpy(&number, value, 4);
    operands.values[id] = tensor.type == I32 ? float(integer) : number;
  }
  if (!given.empty()) {
    why = "tensor " + std::to_string(given.begin()->first) + " is not in the graph";
    return BAD_PARAM;
  }
  operands.workspace = pack.workspace;
  if (plan.workspace && !driver().allocated(pack.workspace, size_t(plan.workspace))) {
    why = "the workspace has fewer than " + std::to_string(plan.workspace) + " bytes";
    return BAD_PARAM_NULL_POINTER;
  }
  return SUCCESS;
}

} // namespace

bool isAlive(const Descriptor *descriptor) { return Alive<Descriptor>::get().has(descriptor); }
bool isAlive(const Context *context) { return Alive<Context>::get().has(context); }

size_t cudnnGetVersion() { return 91900; }

const char *cudnnGetErrorString(Status status) {
  switch (status) {
#define TPC_SIM_STATUS(value, name)                                                                \
  case value:                                                                                      \
    return "CUDNN_STATUS_" #name;
    TPC_SIM_DNN_STATUSES(TPC_SIM_STATUS)
#undef TPC_SIM_STATUS
  }
  return "CUDNN_UNKNOWN_STATUS";
}

// Creation and destruction of descriptors are traced.
template <class T> static Status create(const char *call, T made, T **handle) {
  *handle = Alive<T>::get().add(std::move(made));
  driver().trace(std::string(call) + " = 0");
  return SUCCESS;
}

template <class T>
static Status destroy(const char *call, T *handle, Status otherwise, const char *why) {
  if (!Alive<T>::get().remove(handle))
    return misuse(call, otherwise, why);
  driver().trace(std::string(call) + " = 0");
  return SUCCESS;
}

Status cudnnCreate(Context **handle) {
  if (!handle)
    return BAD_PARAM_NULL_POINTER;
  int device = driver().currentDevice();
  if (device < 0)
    return misuse("cudnnCreate", NOT_INITIALIZED, "no context is current");
  return create<Context>("cudnnCreate", {device}, handle);
}

Status cudnnDestroy(Context *handle) {
  return destroy("cudnnDestroy", handle, NOT_INITIALIZED, "no handle");
}

Status cudnnSetStream(Context *handle, Stream *stream) {
  if (!isAlive(handle))
    return misuse("cudnnSetStream", NOT_INITIALIZED, "no handle");
  StreamInfo info;
  if (driver().describe(stream, info) || info.device != handle->device)
    return misuse("cudnnSetStream", BAD_PARAM, "the stream must be of the handle's device");
  handle->stream = stream;
  return SUCCESS;
}

Status cudnnBackendCreateDescriptor(Kind kind, Descriptor **made) {
  if (!made)
    return BAD_PARAM_NULL_POINTER;
  if (!isKind(kind)) {
    driver().finding("not simulated: cudnnBackendCreateDescriptor of kind " +
                     std::to_string(int(kind)));
    return NOT_SUPPORTED;
  }
  return create<Descriptor>("cudnnBackendCreateDescriptor", {kind, {}, false, {}}, made);
}

Status cudnnBackendDestroyDescriptor(Descriptor *descriptor) {
  return destroy("cudnnBackendDestroyDescriptor", descriptor, BAD_PARAM, "no descriptor");
}

Status cudnnBackendFinalize(Descriptor *descriptor) {
  const char *call = "cudnnBackendFinalize";
  if (!isAlive(descriptor))
    return misuse(call, BAD_PARAM, "no descriptor");
  if (descriptor->isFinal)
    return misuse(call, BAD_PARAM, "it is final already");
  std::string why;
  Status status = descriptor->finalize(why);
  if (status)
    return why.empty() ? status : misuse(call, status, why);
  descriptor->isFinal = true;
  return SUCCESS;
}

Status cudnnBackendSetAttribute(Descriptor *descriptor, Attribute attribute, Type type,
                                int64_t count, const void *values) {
  const char *call = "cudnnBackendSetAttribute";
  if (!isAlive(descriptor))
    return misuse(call, BAD_PARAM, "no descriptor");
  if (descriptor->isFinal)
    return misuse(call, BAD_PARAM, "it is final");
  const Rule *rule = ruleOf(attribute);
  if (!rule) {
    driver().finding("not simulated: cudnnBackendSetAttribute of attribute " +
                     std::to_string(int(attribute)));
    return NOT_SUPPORTED;
  }
  if (rule->kind != descriptor->kind)
    return misuse(call, BAD_PARAM, std::string(rule->name) + " is none of this descriptor's");
  if (rule->type != type)
    return misuse(call, BAD_PARAM_ATTRIBUTE_TYPE, std::string(rule->name) + " has another type");
  if (!values || count < 1 || count > rule->most)
    return misuse(call, BAD_PARAM,
                  std::string(rule->name) + " has 1 to " + std::to_string(rule->most) +
                      " elements");
  if (type == TypeDescriptor)
    for (int64_t i = 0; i < count; ++i) {
      Descriptor *other;
      std::memcpy(&other, static_cast<const char *>(values) + i * 8, 8);
      if (!isAlive(other))
        return misuse(call, BAD_PARAM, std::string(rule->name) + " is no descriptor");
      if (!other->isFinal)
        return misuse(call, BAD_PARAM_NOT_FINALIZED, std::string(rule->name) + " is not final");
    }
  auto *bytes = static_cast<const uint8_t *>(values);
  descriptor->attributes[attribute].assign(bytes, bytes + size_t(count) * bytesOf(type));
  return SUCCESS;
}

Status cudnnBackendGetAttribute(Descriptor *descriptor, Attribute attribute, Type type,
                                int64_t requested, int64_t *count, void *values) {
  const char *call = "cudnnBackendGetAttribute";
  if (!isAlive(descriptor))
    return misuse(call, BAD_PARAM, "no descriptor");
  if (!descriptor->isFinal)
    return misuse(call, BAD_PARAM_NOT_FINALIZED, "it is not final");
  if (auto *plan = std::get_if<Plan>(&descriptor->contents);
      plan && attribute == PlanWorkspace && type == TypeInt64) {
    if (requested != 1 || !values)
      return misuse(call, BAD_PARAM, "the attribute has one element");
    std::memcpy(values, &plan->workspace, 8);
    if (count)
      *count = 1;
    return SUCCESS;
  }
  auto *configs = std::get_if<std::vector<Config>>(&descriptor->contents);
  if (!configs || attribute != HeurResults || type != TypeDescriptor) {
    driver().finding("not simulated: cudnnBackendGetAttribute of attribute " +
                     std::to_string(int(attribute)));
    return NOT_SUPPORTED;
  }
  if (count)
    *count = int64_t(configs->size());
  for (size_t i = 0; values && i < configs->size() && int64_t(i) < requested; ++i) {
    Descriptor *output;
    std::memcpy(&output, static_cast<char *>(values) + i * 8, 8);
    if (!isAlive(output) || output->kind != KindConfig)
      return misuse(call, BAD_PARAM, "results must be descriptors of engine configurations");
    output->contents = (*configs)[i];
    output->isFinal = true;
  }
  return SUCCESS;
}

/// Whether all descriptors that a plan references are alive. The documentation does not permit
/// their destruction before the plan's.
static bool hasLiveReferences(const Descriptor &descriptor) {
  for (const auto &[attribute, bytes] : descriptor.attributes)
    if (ruleOf(attribute)->type == TypeDescriptor)
      for (size_t at = 0; at < bytes.size(); at += 8) {
        const Descriptor *other;
        std::memcpy(&other, bytes.data() + at, 8);
        if (!isAlive(other) || !hasLiveReferences(*other))
          return false;
      }
  return true;
}

Status cudnnBackendExecute(Context *handle, Descriptor *planDescriptor,
                           Descriptor *packDescriptor) {
  const char *call = "cudnnBackendExecute";
  if (!isAlive(handle))
    return misuse(call, NOT_INITIALIZED, "no handle");
  auto *plan = isAlive(planDescriptor) ? std::get_if<Plan>(&planDescriptor->contents) : nullptr;
  auto *pack = isAlive(packDescriptor) ? std::get_if<Pack>(&packDescriptor->contents) : nullptr;
  if (!plan || !pack)
    return misuse(call, BAD_PARAM_NOT_FINALIZED, "no plan or no pack that is final");
  if (!hasLiveReferences(*planDescriptor))
    return misuse(call, BAD_PARAM, "a descriptor of the plan was destroyed");
  if (handle->device != driver().currentDevice() || plan->device != handle->device)
    return misuse(call, BAD_PARAM,
                  "the handle or the plan is for another device than the current one");
  Operands operands;
  std::string why;
  if (Status status = readOperands(*plan, *pack, operands, why))
    return misuse(call, status, why);
  StreamInfo info;
  if (driver().describe(handle->stream, info))
    return EXECUTION_FAILED;
  driver().trace("cudnnBackendExecute");
  // A launch may fail. Then nothing is enqueued, and a capture continues.
  if (plan->fails && !info.capturing)
    return EXECUTION_FAILED;
  return driver().enqueue(handle->stream, makeAttentionKernels(*plan, operands)) ? EXECUTION_FAILED
                                                                                 : SUCCESS;
}

} // namespace sim::dnn
