//===- Api.cpp - cuBLASLt entry points ------------------------------------===//

#include "Cuda/Alive.h"
#include "Functions.h"
#include "Matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

namespace sim::lt {
extern "C" {
#define FUNCTION(result, name, parameters)                                                         \
  __attribute__((visibility("default"))) result name parameters;
#include "Functions.def"
#undef FUNCTION
}

struct Context {
  int device;
};
} // namespace sim::lt

namespace sim::lt {

namespace {

Status misuse(const char *call, Status status, const std::string &what) {
  driver().finding(std::string("misuse: ") + call + ": " + what);
  return status;
}

/// Writes a completed call to the trace.
Status traced(const std::string &call, Status status) {
  driver().trace(call + " = " + std::to_string(int(status)));
  return status;
}

template <class T> Status create(const char *call, T **handle, const T &made) {
  if (!handle)
    return INVALID_VALUE;
  *handle = Alive<T>::get().add(made);
  return traced(call, SUCCESS);
}

template <class T> Status destroy(const char *call, T *handle) {
  return traced(call, Alive<T>::get().remove(handle)
                          ? SUCCESS
                          : misuse(call, INVALID_VALUE, "no such description"));
}

/// Storage of a descriptor's attribute. It is copied in or out if the caller's size is the same.
struct Field {
  void *data = nullptr;
  size_t bytes = 0;
};
template <class T> Field field(T &value) { return {&value, sizeof(T)}; }

Field fieldOf(Desc &desc, DescAttribute attribute) {
  switch (attribute) {
  case DescComputeType:
    return field(desc.compute);
  case DescScaleType:
    return field(desc.scale);
  case DescPointerMode:
    return field(desc.pointerMode);
  case DescTransA:
    return field(desc.transA);
  case DescTransB:
    return field(desc.transB);
  case DescTransC:
    return field(desc.transC);
  case DescEpilogue:
    return field(desc.epilogue);
  case DescBiasPointer:
    return field(desc.bias);
  case DescBiasBatchStride:
    return field(desc.biasBatchStride);
  case DescBiasDataType:
    return field(desc.biasType);
  }
  return {};
}

Field fieldOf(Layout &layout, LayoutAttribute attribute) {
  switch (attribute) {
  case LayoutType:
    return field(layout.type);
  case LayoutOrder:
    return field(layout.order);
  case LayoutRows:
    return field(layout.rows);
  case LayoutCols:
    return field(layout.cols);
  case LayoutLd:
    return field(layout.ld);
  case LayoutBatchCount:
    return field(layout.batches);
  case LayoutStridedBatchOffset:
    return field(layout.stride);
  }
  return {};
}

Field fieldOf(Preference &preference, PreferenceAttribute attribute) {
  switch (attribute) {
  case PrefSearchMode:
    return field(preference.searchMode);
  case PrefMaxWorkspaceBytes:
    return field(preference.maxWorkspace);
  case PrefReductionSchemeMask:
    return field(preference.reductions);
  case PrefMinAlignmentA:
    return field(preference.alignment[0]);
  case PrefMinAlignmentB:
    return field(preference.alignment[1]);
  case PrefMinAlignmentC:
    return field(preference.alignment[2]);
  case PrefMinAlignmentD:
    return field(preference.alignment[3]);
  }
  return {};
}

template <class T, class A>
Status set(const char *call, T *handle, A attribute, const void *value, size_t bytes) {
  if (!Alive<T>::get().has(handle))
    return misuse(call, INVALID_VALUE, "no such description");
  Field found = fieldOf(*handle, attribute);
  if (!found.data) {
    driver().finding(std::string("not simulated: ") + call + " of attribute " +
                     std::to_string(int(attribute)));
    return NOT_SUPPORTED;
  }
  if (!value || bytes != found.bytes)
    return misuse(call, INVALID_VALUE,
                  "attribute " + std::to_string(int(attribute)) + " has " +
                      std::to_string(found.bytes) + " bytes");
  std::memcpy(found.data, value, bytes);
  return SUCCESS;
}

template <class T, class A>
Status get(const char *call, T *handle, A attribute, void *value, size_t bytes, size_t *written) {
  if (!Alive<T>::get().has(handle))
    return misuse(call, INVALID_VALUE, "no such description");
  Field found = fieldOf(*handle, attribute);
  if (!found.data)
    return NOT_SUPPORTED;
  if (written)
    *written = found.bytes;
  if (!bytes)
    return SUCCESS;
  if (!value || bytes != found.bytes)
    return INVALID_VALUE;
  std::memcpy(value, found.data, bytes);
  return SUCCESS;
}

Status makeProblem(const char *call, Context *handle, Desc *desc, Layout *a, Layout *b, Layout *c,
                   Layout *d, Problem &problem) {
  if (!Alive<Context>::get().has(handle))
    return misuse(call, NOT_INITIALIZED, "no handle");
  if (!Alive<Desc>::get().has(desc))
    return misuse(call, INVALID_VALUE, "the handle is no matmul descriptor");
  for (Layout *one : {a, b, c, d})
    if (!Alive<Layout>::get().has(one))
      return misuse(call, INVALID_VALUE, "no layout");
  std::string why;
  Status status = Problem::make(*desc, *a, *b, *c, *d, problem, why);
  return status ? misuse(call, status, why) : SUCCESS;
}

/// Returns the alignment of an address, up to the maximum that algorithms distinguish.
uint32_t alignmentOf(uint64_t address) {
  return uint32_t(std::min<uint64_t>(256, address & (~address + 1)));
}

/// Returns, for the trace, everything that the choice of algorithms depends on.
std::string nameOf(const Problem &problem, const std::array<uint32_t, 4> &alignments,
                   uint32_t alignmentOfBias) {
  std::string name = problem.name();
  for (uint32_t one : alignments)
    name += ":" + std::to_string(one);
  return name + ":" + std::to_string(problem.desc.epilogue & Bias ? alignmentOfBias : 0);
}

/// Rejection of an unsupported epilogue: by the heuristic (AtOnce), or by each algorithm that it
/// recommends (Later). Which epilogues a problem supports depends on the seed.
enum class Refusal { None, AtOnce, Later };
Refusal refusalOf(const Problem &problem) {
  if (problem.desc.epilogue == Default)
    return Refusal::None;
  uint64_t draw =
      (problem.hash() ^ driver().seed() * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd >> 40;
  uint64_t many = problem.desc.epilogue & Gelu ? 2 : 5;
  return draw % many == 0         ? Refusal::AtOnce
         : draw % (4 * many) == 1 ? Refusal::Later
                                  : Refusal::None;
}

} // namespace

Status cublasLtCreate(Context **handle) {
  int device = driver().currentDevice();
  // Without a current context, the library would use the primary context of device 0, which need
  // not be the program's.
  if (device < 0)
    return misuse("cublasLtCreate", NOT_INITIALIZED, "no context is current");
  return create("cublasLtCreate", handle, {device});
}

Status cublasLtDestroy(Context *handle) {
  return traced("cublasLtDestroy", Alive<Context>::get().remove(handle)
                                       ? SUCCESS
                                       : misuse("cublasLtDestroy", NOT_INITIALIZED, "no handle"));
}

size_t cublasLtGetVersion() { return 130100; }
size_t cublasLtGetCudartVersion() { return 13000; }

const char *cublasLtGetStatusName(Status status) {
  switch (status) {
#define TPC_SIM_STATUS(value, name)                                                                \
  case value:                                                                                      \
    return "CUBLAS_STATUS_" #name;
    TPC_SIM_STATUSES(TPC_SIM_STATUS)
#undef TPC_SIM_STATUS
  }
  return "unknown status";
}

const char *cublasLtGetStatusString(Status status) { return cublasLtGetStatusName(status); }

Status cublasLtMatmulDescCreate(Desc **desc, ComputeType compute, DataType scale) {
  Desc made;
  made.compute = compute;
  made.scale = scale;
  return create("cublasLtMatmulDescCreate", desc, made);
}

Status cublasLtMatmulDescDestroy(Desc *desc) { return destroy("cublasLtMatmulDescDestroy", desc); }

Status cublasLtMatmulDescSetAttribute(Desc *desc, DescAttribute attribute, const void *value,
                                      size_t bytes) {
  return set("cublasLtMatmulDescSetAttribute", desc, attribute, value, bytes);
}

Status cublasLtMatmulDescGetAttribute(Desc *desc, DescAttribute attribute, void *value,
                                      size_t bytes, size_t *written) {
  return get("cublasLtMatmulDescGetAttribute", desc, attribute, value, bytes, written);
}

Status cublasLtMatrixLayoutCreate(Layout **layout, DataType type, uint64_t rows, uint64_t cols,
                                  int64_t ld) {
  Layout made;
  made.type = type;
  made.rows = rows;
  made.cols = cols;
  made.ld = ld;
  return create("cublasLtMatrixLayoutCreate", layout, made);
}

Status cublasLtMatrixLayoutDestroy(Layout *layout) {
  return destroy("cublasLtMatrixLayoutDestroy", layout);
}

Status cublasLtMatrixLayoutSetAttribute(Layout *layout, LayoutAttribute attribute,
                                        const void *value, size_t bytes) {
  return set("cublasLtMatrixLayoutSetAttribute", layout, attribute, value, bytes);
}

Status cublasLtMatrixLayoutGetAttribute(Layout *layout, LayoutAttribute attribute, void *value,
                                        size_t bytes, size_t *written) {
  return get("cublasLtMatrixLayoutGetAttribute", layout, attribute, value, bytes, written);
}

Status cublasLtMatmulPreferenceCreate(Preference **preference) {
  return create("cublasLtMatmulPreferenceCreate", preference, Preference());
}

Status cublasLtMatmulPreferenceDestroy(Preference *preference) {
  return destroy("cublasLtMatmulPreferenceDestroy", preference);
}

Status cublasLtMatmulPreferenceSetAttribute(Preference *preference, PreferenceAttribute attribute,
                                            const void *value, size_t bytes) {
  return set("cublasLtMatmulPreferenceSetAttribute", preference, attribute, value, bytes);
}

Status cublasLtMatmulPreferenceGetAttribute(Preference *preference, PreferenceAttribute attribute,
                                            void *value, size_t bytes, size_t *written) {
  return get("cublasLtMatmulPreferenceGetAttribute", preference, attribute, value, bytes, written);
}

Status cublasLtMatmulAlgoGetHeuristic(Context *handle, Desc *desc, Layout *a, Layout *b, Layout *c,
                                      Layout *d, Preference *preference, int requested,
                                      HeuristicResult *results, int *returned) {
  const char *call = "cublasLtMatmulAlgoGetHeuristic";
  if (returned)
    *returned = 0;
  Problem problem;
  if (Status status = makeProblem(call, handle, desc, a, b, c, d, problem))
    return status;
  if (requested < 1 || !results || !returned || !Alive<Preference>::get().has(preference))
    return misuse(call, INVALID_VALUE, "results or preferences are null");
  static std::array<std::atomic<uint64_t>, 64> asked;
  auto device = size_t(driver().currentDevice());
  if (driver().injected("heuristic", ++asked[device % asked.size()], int(device)))
    return NOT_SUPPORTED;
  Refusal refusal = refusalOf(problem);
  if (refusal == Refusal::AtOnce)
    return NOT_SUPPORTED;
  // There may be fewer results than requested. Entries after these are not algorithms.
  int count = 1 + int((problem.hash() ^ driver().seed()) % 6);
  count = std::min(count, requested);
  std::memset(results, 0, sizeof(*results) * size_t(requested));
  bool usable = false;
  for (int i = 0; i < count; ++i) {
    AlgorithmChoice choice = choose(problem, *preference, driver().seed(), unsigned(i));
    HeuristicResult &result = results[i];
    // The state of some entries is an error, so that they are unusable.
    if (i + 1 < count && choice.chunk == 100) {
      result.state = NOT_SUPPORTED;
      continue;
    }
    // At least one entry is usable. If no other is, the last one is.
    if (i + 1 == count && !usable)
      choice.refused = 0;
    if (refusal == Refusal::Later)
      choice.refused = 1;
    usable |= !choice.refused;
    std::memcpy(&result.algo, &choice, sizeof(choice));
    result.workspaceSize = choice.workspace;
    result.state = SUCCESS;
    result.wavesCount = 1;
  }
  *returned = count;
  return traced(std::string(call) + " " +
                    nameOf(problem, preference->alignment, alignmentOf(desc->bias)),
                SUCCESS);
}

static Status checkAlgo(const char *call, const Problem &problem, const Algo *algo,
                        AlgorithmChoice &choice) {
  std::memcpy(&choice, algo, sizeof(choice));
  if (choice.magic != choiceMagic)
    return misuse(call, INVALID_VALUE, "the algorithm is not a result of a heuristic");
  if (choice.problem != problem.hash())
    return misuse(call, INVALID_VALUE, "the algorithm is for another matmul");
  return choice.refused ? NOT_SUPPORTED : SUCCESS;
}

Status cublasLtMatmulAlgoCheck(Context *handle, Desc *desc, Layout *a, Layout *b, Layout *c,
                               Layout *d, const Algo *algo, HeuristicResult *result) {
  const char *call = "cublasLtMatmulAlgoCheck";
  Problem problem;
  if (Status status = makeProblem(call, handle, desc, a, b, c, d, problem))
    return status;
  if (!algo || !result)
    return INVALID_VALUE;
  AlgorithmChoice choice;
  if (Status status = checkAlgo(call, problem, algo, choice))
    return traced(call, status);
  result->algo = *algo;
  result->workspaceSize = choice.workspace;
  result->state = SUCCESS;
  result->wavesCount = 1;
  return traced(call, SUCCESS);
}

Status cublasLtMatmul(Context *handle, Desc *desc, const void *alpha, const void *a,
                      Layout *aLayout, const void *b, Layout *bLayout, const void *beta,
                      const void *c, Layout *cLayout, void *d, Layout *dLayout, const Algo *algo,
                      void *workspace, size_t workspaceBytes, Stream *stream) {
  const char *call = "cublasLtMatmul";
  Problem problem;
  if (Status status = makeProblem(call, handle, desc, aLayout, bLayout, cLayout, dLayout, problem))
    return status;
  if (handle->device != driver().currentDevice())
    return misuse(call, INVALID_VALUE, "the handle is for another device than the current one");
  StreamInfo info;
  if (driver().describe(stream, info))
    return EXECUTION_FAILED;
  Operands operands;
  auto address = [](const void *pointer) { return uint64_t(reinterpret_cast<uintptr_t>(pointer)); };
  operands.addresses = {address(a), address(b), address(c), address(d)};
  if (!alpha || !beta || !a || !b || !d)
    return misuse(call, INVALID_VALUE, "a null pointer");
  if (desc->pointerMode == Host) {
    std::memcpy(&operands.alpha, alpha, 4);
    std::memcpy(&operands.beta, beta, 4);
  } else {
    operands.alphaAddress = address(alpha);
    operands.betaAddress = address(beta);
  }
  bool usesC = operands.beta != 0 || operands.betaAddress;
  if (usesC && !c)
    return misuse(call, INVALID_VALUE, "C is null");
  if (c == d && usesC &&
      (cLayout->ld != dLayout->ld || cLayout->order != dLayout->order ||
       cLayout->stride != dLayout->stride))
    return misuse(call, INVALID_VALUE, "C and D are the same memory, but their layouts differ");
  AlgorithmChoice choice;
  if (algo) {
    if (Status status = checkAlgo(call, problem, algo, choice))
      return traced(call, status);
  } else {
    // Without an algorithm, one is chosen by the alignment of the operands and the given workspace.
    Preference preference;
    preference.maxWorkspace = workspaceBytes;
    for (unsigned i = 0; i < 4; ++i)
      preference.alignment[i] = alignmentOf(operands.addresses[i]);
    if (!usesC)
      preference.alignment[2] = 256;
    choice = choose(problem, preference, driver().seed(), 0);
  }
  if (refusalOf(problem) != Refusal::None)
    return NOT_SUPPORTED;
  const char *names[] = {"A", "B", "C", "D"};
  for (unsigned i = 0; i < 4; ++i)
    if ((i != 2 || usesC) && operands.addresses[i] % choice.alignment[i])
      return misuse(call, algo ? NOT_SUPPORTED : INVALID_VALUE,
                    std::string(names[i]) + " is not aligned to " +
                        std::to_string(choice.alignment[i]) + " bytes, as the preferences promise");
  if (choice.workspace > workspaceBytes)
    return misuse(call, INVALID_VALUE,
                  "a workspace of " + std::to_string(workspaceBytes) +
                      " bytes for an algorithm of " + std::to_string(choice.workspace));
  operands.workspace = address(workspace);
  if (choice.workspace && (!workspace || operands.workspace % 16))
    return misuse(call, INVALID_VALUE, "the workspace is not aligned to 16 bytes");
  bool tanhGelu = driver().seed() % 2;
  switch (driver().enqueue(stream, makeMatmul(problem, operands, choice, tanhGelu))) {
  case sim::SUCCESS: {
    std::array<uint32_t, 4> alignments;
    for (unsigned i = 0; i < 4; ++i)
      alignments[i] = alignmentOf(operands.addresses[i]);
    return traced(std::string(call) + " " + nameOf(problem, alignments, alignmentOf(desc->bias)) +
                      (usesC ? ":C" : "") + " algorithm " + std::to_string(choice.id) + " pace " +
                      std::to_string(choice.pace),
                  SUCCESS);
  }
  case ERROR_OUT_OF_MEMORY:
    return ALLOC_FAILED;
  default:
    return EXECUTION_FAILED;
  }
}

} // namespace sim::lt
