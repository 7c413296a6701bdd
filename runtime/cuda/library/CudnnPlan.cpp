//===- CudnnPlan.cpp - Attention as a cuDNN graph -------------------------===//

#include "cuda/library/CudnnPlan.h"
#include <array>
#include <limits>
#include <stdexcept>

namespace tpc::rt::cuda::dnn {
namespace {

/// Tensors that have addresses. Virtual tensors are numbered from `firstVirtual` on.
enum Id : int64_t { qId = 1, kId, vId, outId, biasId, scaleId, shiftId, minusInfinityId };
constexpr int64_t firstVirtual = 100;

DataType typeOf(int32_t dtype) { return dtype == TPC_F32 ? f32 : dtype == TPC_F16 ? f16 : bf16; }

using Dims = std::array<int64_t, 4>;
constexpr DataType f32Type = f32;

/// Builds a graph, descriptor by descriptor.
class GraphBuilder {
public:
  GraphBuilder(const Library &library, const AttentionShape &shape, std::deque<Descriptor> &made)
      : library(library), shape(shape), made(made) {
    scores = {shape.batch, shape.heads, shape.queries, shape.keys};
  }

  std::vector<Object> build();

private:
  const Descriptor &tensor(int64_t id, DataType type, Dims dims, Dims strides, bool isVirtual,
                           bool isByValue, int64_t alignment = 16);
  const Descriptor &virtualTensor(DataType type, Dims dims) {
    return tensor(nextVirtual++, type, dims,
                  {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}, true, false);
  }
  const Descriptor &scalar(Id id, DataType type) {
    return tensor(id, type, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true, 4);
  }
  void matmul(const Descriptor &a, const Descriptor &b, const Descriptor &c);
  const Descriptor &pointwise(Pointwise mode, const Descriptor &x, const Descriptor *b,
                              DataType type = f32, DataType precision = f32, int64_t axis = -1,
                              const Descriptor *condition = nullptr, bool isOfRows = false);
  const Descriptor &reduce(int reduction, const Descriptor &x);
  Dims rows() const { return {scores[0], scores[1], scores[2], 1}; }
  Descriptor &make(Kind kind) { return made.emplace_back(library, kind); }

  const Library &library;
  const AttentionShape &shape;
  std::deque<Descriptor> &made;
  std::vector<Object> operations;
  Dims scores;
  int64_t nextVirtual = firstVirtual;
};

const Descriptor &GraphBuilder::tensor(int64_t id, DataType type, Dims dims, Dims strides,
                                       bool isVirtual, bool isByValue, int64_t alignment) {
  return make(tensorKind)
      .set(tensorId, int64Type, 1, &id)
      .set(tensorType, dataTypeType, 1, &type)
      .set(tensorDims, int64Type, 4, dims.data())
      .set(tensorStrides, int64Type, 4, strides.data())
      .set(tensorAlignment, int64Type, 1, &alignment)
      .set(tensorIsVirtual, booleanType, 1, &isVirtual)
      .set(tensorIsByValue, booleanType, 1, &isByValue)
      .finalize();
}

void GraphBuilder::matmul(const Descriptor &a, const Descriptor &b, const Descriptor &c) {
  Descriptor &how = make(matmulKind).set(matmulPrecision, dataTypeType, 1, &f32Type).finalize();
  operations.push_back(make(matmulOpKind)
                           .set(matmulOpA, a)
                           .set(matmulOpB, b)
                           .set(matmulOpC, c)
                           .set(matmulOpDescriptor, how)
                           .finalize());
}

const Descriptor &GraphBuilder::pointwise(Pointwise mode, const Descriptor &x, const Descriptor *b,
                                          DataType type, DataType precision, int64_t axis,
                                          const Descriptor *condition, bool isOfRows) {
  Descriptor &how = make(pointwiseKind)
                        .set(pointwiseMode, pointwiseModeType, 1, &mode)
                        .set(pointwisePrecision, dataTypeType, 1, &precision);
  if (axis >= 0)
    how.set(pointwiseAxis, int64Type, 1, &axis);
  how.finalize();
  const Descriptor &y = virtualTensor(type, isOfRows ? rows() : scores);
  Descriptor &operation = make(pointwiseOpKind)
                              .set(pointwiseOpDescriptor, how)
                              .set(pointwiseOpX, x)
                              .set(pointwiseOpY, y);
  if (b)
    operation.set(pointwiseOpB, *b);
  if (condition)
    operation.set(pointwiseOpT, *condition);
  operations.push_back(operation.finalize());
  return y;
}

const Descriptor &GraphBuilder::reduce(int reduction, const Descriptor &x) {
  Descriptor &how = make(reductionKind)
                        .set(reductionOperator, reductionOperatorType, 1, &reduction)
                        .set(reductionPrecision, dataTypeType, 1, &f32Type)
                        .finalize();
  const Descriptor &y = virtualTensor(f32, rows());
  operations.push_back(make(reductionOpKind)
                           .set(reductionOpX, x)
                           .set(reductionOpY, y)
                           .set(reductionOpDescriptor, how)
                           .finalize());
  return y;
}

std::vector<Object> GraphBuilder::build() {
  const AttentionShape &s = shape;
  DataType element = typeOf(s.dtype);
  auto given = [&](Id id, int64_t heads, int64_t tokens, int64_t size, int64_t stride) {
    return &tensor(id, element, {s.batch, heads, tokens, size}, {tokens * stride, size, stride, 1},
                   false, false);
  };
  const Descriptor *q = given(qId, s.heads, s.queries, s.headSize, s.qStride);
  const Descriptor *k = &tensor(kId, element, {s.batch, s.kvHeads, s.headSize, s.keys},
                                {s.kBatchStride, s.kHeadStride, 1, s.kStride}, false, false);
  const Descriptor *v = &tensor(vId, element, {s.batch, s.kvHeads, s.keys, s.valueSize},
                                {s.vBatchStride, s.vHeadStride, s.vStride, 1}, false, false);
  const Descriptor *out = given(outId, s.heads, s.queries, s.valueSize, s.outStride);

  const Descriptor *x = &virtualTensor(f32, scores);
  matmul(*q, *k, *x);
  x = &pointwise(multiply, *x, &scalar(scaleId, f32));
  if (s.biasType >= 0) {
    const Descriptor &bias =
        tensor(biasId, typeOf(s.biasType),
               {s.biasBatchStride ? s.batch : 1, s.biasHeadStride ? s.heads : 1, s.queries, s.keys},
               {s.biasBatchStride ? s.biasBatchStride : s.queries * s.keys,
                s.biasHeadStride ? s.biasHeadStride : s.queries * s.keys, s.keys, 1},
               false, false);
    x = &pointwise(add, *x, &bias);
  }
  if (s.causal) {
    const Descriptor *row = &pointwise(generateIndex, *x, nullptr, i32, f32, 2);
    const Descriptor *column = &pointwise(generateIndex, *x, nullptr, i32, f32, 3);
    if (s.causalOffset)
      row = &pointwise(add, *row, &scalar(shiftId, i32), i32, i32, 3);
    const Descriptor *sees = &pointwise(isGreaterOrEqual, *row, column, boolean, boolean);
    x = &pointwise(select, *x, &scalar(minusInfinityId, f32), f32, f32, -1, sees);
  }
  const Descriptor &largest = reduce(reduceMax, *x);
  const Descriptor &powers = pointwise(exponential, pointwise(subtract, *x, &largest), nullptr);
  const Descriptor &sums = reduce(reduceSum, powers);
  // The result is unused, but the library's pattern includes it.
  pointwise(add, largest, &pointwise(logarithm, sums, nullptr, f32, f32, -1, nullptr, true), f32,
            f32, -1, nullptr, true);
  const Descriptor &weights = pointwise(divide, powers, &sums, element);
  matmul(weights, *v, *out);
  return std::move(operations);
}

} // namespace

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Descriptor::Descriptor(const Library &library, Kind kind) : library(&library) {
  library.check(library.BackendCreateDescriptor(kind, &object), "to make a descriptor");
}

Descriptor::~Descriptor() {
  if (object)
    library->BackendDestroyDescriptor(object);
}

Descriptor &Descriptor::set(Attribute attribute, Type type, int64_t count, const void *values) {
  library->check(library->BackendSetAttribute(object, attribute, type, count, values),
                 ("to describe attribute " + std::to_string(attribute)).c_str());
  return *this;
}

Descriptor &Descriptor::set(Attribute attribute, const Descriptor &other) {
  return set(attribute, descriptorType, 1, &other.object);
}

Descriptor &Descriptor::finalize() {
  library->check(library->BackendFinalize(object), "to describe attention");
  return *this;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

AttentionShape AttentionShape::of(const tpc_attention_args &a, int64_t past) {
  return {a.dtype,
          a.bias ? a.bias_dtype : -1,
          a.batch,
          a.seq_q,
          a.lengths ? past + a.seq_q + a.causal_offset : a.seq_k,
          a.heads_q,
          a.heads_kv,
          a.head_size,
          a.value_size,
          a.q_row_stride,
          a.k_row_stride,
          a.v_row_stride,
          a.out_row_stride,
          a.bias ? a.bias_batch_stride : 0,
          a.bias ? a.bias_head_stride : 0,
          a.causal,
          a.causal ? past + a.causal_offset : 0,
          a.lengths ? a.k_batch_stride : a.seq_k * a.k_row_stride,
          a.lengths ? a.k_head_stride : a.head_size,
          a.lengths ? a.v_batch_stride : a.seq_k * a.v_row_stride,
          a.lengths ? a.v_head_stride : a.value_size};
}

AttentionPlan::AttentionPlan(const Library &library, Handle handle, const AttentionShape &shape,
                             const std::string &deviceJson)
    : library(library), shape(shape) {
  std::vector<Object> operations = GraphBuilder(library, shape, made).build();
  const Descriptor *device = nullptr;
  if (!deviceJson.empty())
    device = &made.emplace_back(library, devicePropertiesKind)
                  .set(Attribute::deviceJson, charType, static_cast<int64_t>(deviceJson.size() + 1),
                       deviceJson.c_str())
                  .finalize();
  Descriptor &graph = made.emplace_back(library, graphKind)
                          .set(graphOps, descriptorType, static_cast<int64_t>(operations.size()),
                               operations.data());
  if (handle)
    graph.set(graphHandle, handleType, 1, &handle);
  graph.finalize();
  std::string why = "no engine is named";
  for (int mode : {heuristicA, heuristicFallback}) {
    Descriptor heuristic(library, heuristicKind);
    heuristic.set(heuristicGraph, graph).set(heuristicMode, heuristicModeType, 1, &mode);
    if (device)
      heuristic.set(heuristicDevice, *device);
    if (library.BackendFinalize(heuristic) != success)
      continue;
    int64_t count = 0;
    if (library.BackendGetAttribute(heuristic, heuristicResults, descriptorType, 0, &count,
                                    nullptr) != success)
      continue;
    std::vector<Descriptor> configs;
    std::vector<Object> objects;
    for (int64_t i = 0; i < count; ++i)
      objects.push_back(configs.emplace_back(library, engineConfigKind));
    library.check(library.BackendGetAttribute(heuristic, heuristicResults, descriptorType, count,
                                              &count, objects.data()),
                  "to name engines");
    for (int64_t i = 0; i < count; ++i) {
      Descriptor plan(library, planKind);
      plan.set(planConfig, configs[static_cast<size_t>(i)]);
      if (handle)
        plan.set(planHandle, handleType, 1, &handle);
      if (device)
        plan.set(planDevice, *device);
      Status status = library.BackendFinalize(plan);
      if (status != success) {
        why = library.GetErrorString(status);
        continue;
      }
      library.check(
          library.BackendGetAttribute(plan, planWorkspaceBytes, int64Type, 1, nullptr, &workspace),
          "to query the workspace");
      made.push_back(std::move(configs[static_cast<size_t>(i)]));
      made.push_back(std::move(plan));
      return;
    }
  }
  throw std::runtime_error("no plan: " + why);
}

void AttentionPlan::run(Handle handle, const tpc_attention_args &args, void *scratch) const {
  float scale = args.scale, minusInfinity = -std::numeric_limits<float>::infinity();
  auto shift = static_cast<int32_t>(shape.causalOffset);
  std::vector<int64_t> ids{qId, kId, vId, outId, scaleId};
  std::vector<const void *> pointers{args.q, args.k, args.v, args.out, &scale};
  auto give = [&](Id id, const void *pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  if (shape.biasType >= 0)
    give(biasId, args.bias);
  if (shape.causal)
    give(minusInfinityId, &minusInfinity);
  if (shape.causal && shape.causalOffset)
    give(shiftId, &shift);
  Descriptor pack(library, variantPackKind);
  pack.set(packIds, int64Type, static_cast<int64_t>(ids.size()), ids.data())
      .set(packPointers, pointerType, static_cast<int64_t>(ids.size()), pointers.data())
      .set(packWorkspace, pointerType, 1, &scratch)
      .finalize();
  library.check(library.BackendExecute(handle, made.back(), pack), "to compute attention");
}

} // namespace tpc::rt::cuda::dnn
