//===- CudnnTest.cpp - Attention graphs, valid and rejected ---------------===//

#include "Cudnn/Functions.h"
#include "SimulatorTesting.h"
#include "cuda/library/CudnnPlan.h"

#include <bit>
#include <cmath>

using namespace sim;
namespace product = tpc::rt::cuda::dnn;

namespace {

struct Cudnn : Device {
  void *dnnLibrary = open("libcudnn.so.9");
#define FUNCTION(result, name, parameters)                                                         \
  dnn::type::name *name = reinterpret_cast<dnn::type::name *>(dlsym(dnnLibrary, #name));
#include "Cudnn/Functions.def"
#undef FUNCTION

  Cudnn() {
    EXPECT_EQ(cuStreamCreate(&stream, 1), SUCCESS);
    EXPECT_EQ(cudnnCreate(&handle), dnn::SUCCESS);
    EXPECT_EQ(cudnnSetStream(handle, stream), dnn::SUCCESS);
  }

  dnn::Descriptor *make(dnn::Kind kind) {
    dnn::Descriptor *made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(kind, &made), dnn::SUCCESS);
    return made;
  }
  template <class T>
  dnn::Status set(dnn::Descriptor *of, dnn::Attribute attribute, dnn::Type type,
                  std::vector<T> values) {
    return cudnnBackendSetAttribute(of, attribute, type, int64_t(values.size()), values.data());
  }
  dnn::Descriptor *tensor(int64_t id, std::vector<int64_t> dims, dnn::DataType type = dnn::F32) {
    dnn::Descriptor *made = make(dnn::KindTensor);
    std::vector<int64_t> strides{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    EXPECT_EQ(set<int64_t>(made, dnn::TensorId, dnn::TypeInt64, {id}), dnn::SUCCESS);
    EXPECT_EQ(set<int64_t>(made, dnn::TensorDims, dnn::TypeInt64, dims), dnn::SUCCESS);
    EXPECT_EQ(set<int64_t>(made, dnn::TensorStrides, dnn::TypeInt64, strides), dnn::SUCCESS);
    EXPECT_EQ(set<int64_t>(made, dnn::TensorAlignment, dnn::TypeInt64, {16}), dnn::SUCCESS);
    EXPECT_EQ(set<int>(made, dnn::TensorType, dnn::TypeData, {type}), dnn::SUCCESS);
    return made;
  }
  dnn::Descriptor *exponential() {
    dnn::Descriptor *how = make(dnn::KindPointwise);
    EXPECT_EQ(set<int>(how, dnn::PwMode, dnn::TypePointwiseMode, {dnn::Exp}), dnn::SUCCESS);
    EXPECT_EQ(set<int>(how, dnn::PwPrecision, dnn::TypeData, {dnn::F32}), dnn::SUCCESS);
    EXPECT_EQ(cudnnBackendFinalize(how), dnn::SUCCESS);
    return how;
  }

  Stream *stream = nullptr;
  dnn::Context *handle = nullptr;
};

uint16_t toBits(float value, bool isHalf) {
  return isHalf ? std::bit_cast<uint16_t>(_Float16(value))
                : uint16_t((std::bit_cast<uint32_t>(value) + 0x8000) >> 16);
}
double toNumber(uint16_t bits, bool isHalf) {
  return isHalf ? double(std::bit_cast<_Float16>(bits))
                : double(std::bit_cast<float>(uint32_t(bits) << 16));
}

struct Case {
  const char *name;
  bool isHalf = true;
  int64_t heads = 4, kvHeads = 4, queries = 5, keys = 9, size = 8, valueSize = 8;
  bool causal = false;
  int64_t offset = 0;
  bool cached = false; // keys and values as in a cache: heads of tokens, with unused capacity
  bool hasBias = false, biasOfBatches = false, biasOfHeads = false, biasIsFloat = false;
};

/// Runs the attention graph that tpc builds. Returns 0 if the result is correct, or 2 if the
/// library rejects the graph. Rows have padding, which differs between operands.
int runAttention(const Case &c) {
  Cudnn lib;
  std::string problem;
  const product::Library *library = product::Library::load(problem);
  EXPECT_TRUE(library) << problem;
  constexpr int64_t batch = 2;
  auto draw = [&](int64_t count, double seed) {
    std::vector<uint16_t> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(toBits(float(std::sin(double(i) * 0.7 + seed)), c.isHalf));
    return values;
  };
  int64_t qStride = c.heads * c.size + 8, kStride = c.kvHeads * c.size + 16,
          vStride = c.kvHeads * c.valueSize + 24, outStride = c.heads * c.valueSize + 32;
  int64_t capacity = c.cached ? c.keys + 5 : c.keys;
  if (c.cached)
    kStride = c.size, vStride = c.valueSize;
  int64_t kHead = c.cached ? capacity * c.size : c.size,
          vHead = c.cached ? capacity * c.valueSize : c.valueSize,
          kBatch = c.cached ? c.kvHeads * kHead : c.keys * kStride,
          vBatch = c.cached ? c.kvHeads * vHead : c.keys * vStride;
  int64_t ofHead = c.queries * c.keys, ofBatch = c.biasOfHeads ? c.heads * ofHead : ofHead;
  auto q = draw(batch * c.queries * qStride, 1), k = draw(batch * kBatch, 2),
       v = draw(batch * vBatch, 3), bias = draw(batch * ofBatch, 4),
       out = draw(batch * c.queries * outStride, 5);
  const std::vector<uint16_t> before = out;
  for (int64_t i = 0; c.cached && i < batch * c.kvHeads; ++i) { // NaN after the last key
    std::fill(k.begin() + i * kHead + c.keys * kStride, k.begin() + (i + 1) * kHead, 0x7fff);
    std::fill(v.begin() + i * vHead + c.keys * vStride, v.begin() + (i + 1) * vHead, 0x7fff);
  }
  DevicePointer outMemory = lib.upload(out);
  auto pointer = [](DevicePointer address) { return reinterpret_cast<float *>(address); };
  tpc_attention_args args = {};
  args.q = pointer(lib.upload(q));
  args.k = pointer(lib.upload(k));
  args.v = pointer(lib.upload(v));
  args.out = pointer(outMemory);
  args.batch = batch;
  args.seq_q = c.queries;
  args.seq_k = capacity;
  args.heads_q = c.heads;
  args.heads_kv = c.kvHeads;
  args.head_size = c.size;
  args.value_size = c.valueSize;
  args.q_row_stride = qStride;
  args.k_row_stride = kStride;
  args.v_row_stride = vStride;
  args.out_row_stride = outStride;
  args.scale = 0.4f;
  args.causal = c.causal;
  args.causal_offset = c.cached ? 0 : c.offset;
  if (c.cached) {
    args.lengths = reinterpret_cast<const int64_t *>(
        lib.upload(std::vector<int64_t>(size_t(batch), c.offset)));
    args.k_batch_stride = kBatch, args.k_head_stride = kHead;
    args.v_batch_stride = vBatch, args.v_head_stride = vHead;
  }
  args.dtype = args.bias_dtype = c.isHalf ? TPC_F16 : TPC_BF16;
  std::vector<float> wide;
  for (uint16_t bits : bias)
    wide.push_back(float(toNumber(bits, c.isHalf)));
  if (c.hasBias) {
    args.bias = pointer(c.biasIsFloat ? lib.upload(wide) : lib.upload(bias));
    args.bias_dtype = c.biasIsFloat ? TPC_F32 : args.dtype;
    args.bias_batch_stride = c.biasOfBatches ? ofBatch : 0;
    args.bias_head_stride = c.biasOfHeads ? ofHead : 0;
  }
  try {
    auto *handle = reinterpret_cast<product::Handle>(lib.handle);
    product::AttentionPlan plan(*library, handle,
                                product::AttentionShape::of(args, c.cached ? c.offset : 0));
    DevicePointer workspace = lib.allocate(size_t(std::max<int64_t>(plan.workspaceBytes(), 1)));
    plan.run(handle, args, reinterpret_cast<void *>(workspace));
  } catch (const std::exception &) {
    return 2;
  }
  EXPECT_EQ(lib.cuStreamSynchronize(lib.stream), SUCCESS);
  out = lib.download<uint16_t>(outMemory, out.size());
  auto number = [&](const std::vector<uint16_t> &of, int64_t index) {
    return toNumber(of[size_t(index)], c.isHalf);
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        int64_t own = h / (c.heads / c.kvHeads);
        std::vector<double> weights;
        double total = 0;
        for (int64_t j = 0; j < c.keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < c.size; ++d)
            score += number(q, (b * c.queries + i) * qStride + h * c.size + d) *
                     number(k, b * kBatch + own * kHead + j * kStride + d);
          score *= double(args.scale);
          if (c.hasBias)
            score += number(bias, b * args.bias_batch_stride + h * args.bias_head_stride +
                                      i * c.keys + j);
          weights.push_back(!c.causal || j <= i + c.offset ? std::exp(score) : 0);
          total += weights.back();
        }
        for (int64_t d = 0; d < c.valueSize; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < c.keys; ++j)
            sum +=
                weights[size_t(j)] / total * number(v, b * vBatch + own * vHead + j * vStride + d);
          EXPECT_NEAR(number(out, (b * c.queries + i) * outStride + h * c.valueSize + d), sum,
                      c.isHalf ? 2e-3 : 2e-2);
        }
      }
  for (int64_t token = 0; token < batch * c.queries; ++token) // values in the padding
    for (int64_t d = c.heads * c.valueSize; d < outStride; ++d)
      EXPECT_EQ(out[size_t(token * outStride + d)], before[size_t(token * outStride + d)]);
  return testing::Test::HasFailure();
}

} // namespace

TEST(Cudnn, HasAllEntryPoints) {
  auto check = [] {
    Cudnn lib;
#define FUNCTION(result, name, parameters) EXPECT_TRUE(lib.name) << #name;
#include "Cudnn/Functions.def"
#undef FUNCTION
  };
  EXPECT_PASSES({}, check);
}

TEST(Cudnn, ComputesOrRejectsAttention) {
  const Case cases[] = {
      {.name = "plain"},
      {.name = "bf16", .isHalf = false, .causal = true},
      {.name = "groups of heads", .kvHeads = 2},
      {.name = "causal", .queries = 9, .causal = true},
      {.name = "causal, with a past", .causal = true, .offset = 4},
      {.name = "an empty cache", .queries = 9, .causal = true, .cached = true},
      {.name = "a cache with a past, bf16",
       .isHalf = false,
       .kvHeads = 2,
       .valueSize = 16,
       .causal = true,
       .offset = 4,
       .cached = true},
      {.name = "wide values", .valueSize = 16},
      {.name = "one bias", .hasBias = true},
      {.name = "a bias for each of the batch", .hasBias = true, .biasOfBatches = true},
      {.name = "a bias for each head", .hasBias = true, .biasOfHeads = true},
      {.name = "a bias for all", .hasBias = true, .biasOfBatches = true, .biasOfHeads = true},
      {.name = "a bias of f32", .hasBias = true, .biasIsFloat = true},
  };
  int refused = 0;
  for (const Case &one : cases) {
    SCOPED_TRACE(one.name);
    int numComputed = 0;
    for (int seed = 0; seed < 4; ++seed) {
      Findings findings;
      int status = inProcess(findings.with(seeded(seed, {{"TPC_CUDA_LIBS", TPC_SIMULATOR_DIR}})),
                             [&] { _exit(runAttention(one)); });
      EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
      numComputed += status == 0;
      refused += WEXITSTATUS(status) == 2;
      EXPECT_EQ(findings.text(), "");
    }
    EXPECT_GT(numComputed, 0);
  }
  EXPECT_GT(refused, 1);
}

TEST(Cudnn, HasNoEngineForHeadsOfOddSizes) {
  EXPECT_EQ(WEXITSTATUS(inProcess({{"TPC_CUDA_LIBS", TPC_SIMULATOR_DIR}},
                                  [] { _exit(runAttention({.name = "odd", .size = 10})); })),
            2);
}

TEST(Cudnn, ReportsMisuse) {
  auto finds = [](const char *wanted, void (*f)(Cudnn &)) {
    Findings findings;
    EXPECT_PASSES(findings.with(), [&] {
      Cudnn lib;
      f(lib);
    });
    EXPECT_FINDS(findings, wanted);
  };
  finds("CUDNN_ATTR_TENSOR_UNIQUE_ID has another type", [](Cudnn &lib) {
    dnn::Descriptor *tensor = lib.make(dnn::KindTensor);
    EXPECT_EQ(lib.set<int>(tensor, dnn::TensorId, dnn::TypeData, {1}),
              dnn::BAD_PARAM_ATTRIBUTE_TYPE);
  });
  finds("is none of this descriptor's", [](Cudnn &lib) {
    EXPECT_EQ(lib.set<int64_t>(lib.make(dnn::KindMatmul), dnn::TensorId, dnn::TypeInt64, {1}),
              dnn::BAD_PARAM);
  });
  finds("it has no CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT", [](Cudnn &lib) {
    EXPECT_EQ(lib.cudnnBackendFinalize(lib.make(dnn::KindTensor)), dnn::BAD_PARAM);
  });
  finds("it is final", [](Cudnn &lib) {
    dnn::Descriptor *tensor = lib.tensor(1, {1, 1, 1, 1});
    EXPECT_EQ(lib.cudnnBackendFinalize(tensor), dnn::SUCCESS);
    EXPECT_EQ(lib.set<int64_t>(tensor, dnn::TensorId, dnn::TypeInt64, {2}), dnn::BAD_PARAM);
  });
  finds("CUDNN_ATTR_OPERATION_POINTWISE_XDESC is not final", [](Cudnn &lib) {
    dnn::Descriptor *operation = lib.make(dnn::KindPointwiseOp);
    EXPECT_EQ(lib.set<dnn::Descriptor *>(operation, dnn::PwOpX, dnn::TypeDescriptor,
                                         {lib.tensor(1, {1, 1, 2, 2})}),
              dnn::BAD_PARAM_NOT_FINALIZED);
  });
  finds("operands do not broadcast", [](Cudnn &lib) {
    dnn::Descriptor *x = lib.tensor(1, {1, 1, 2, 2}), *y = lib.tensor(2, {1, 1, 2, 3});
    EXPECT_EQ(lib.cudnnBackendFinalize(x), dnn::SUCCESS);
    EXPECT_EQ(lib.cudnnBackendFinalize(y), dnn::SUCCESS);
    dnn::Descriptor *operation = lib.make(dnn::KindPointwiseOp), *graph = lib.make(dnn::KindGraph);
    auto point = [&](dnn::Attribute attribute, dnn::Descriptor *other) {
      EXPECT_EQ(lib.set<dnn::Descriptor *>(operation, attribute, dnn::TypeDescriptor, {other}),
                dnn::SUCCESS);
    };
    point(dnn::PwOpHow, lib.exponential());
    point(dnn::PwOpX, x);
    point(dnn::PwOpY, y);
    EXPECT_EQ(lib.cudnnBackendFinalize(operation), dnn::SUCCESS);
    EXPECT_EQ(lib.set<dnn::Context *>(graph, dnn::GraphHandle, dnn::TypeHandle, {lib.handle}),
              dnn::SUCCESS);
    EXPECT_EQ(lib.set<dnn::Descriptor *>(graph, dnn::GraphOps, dnn::TypeDescriptor, {operation}),
              dnn::SUCCESS);
    EXPECT_EQ(lib.cudnnBackendFinalize(graph), dnn::BAD_PARAM_SHAPE_MISMATCH);
  });
  finds("a pack must have one pointer for each tensor number", [](Cudnn &lib) {
    dnn::Descriptor *pack = lib.make(dnn::KindPack);
    lib.set<int64_t>(pack, dnn::PackIds, dnn::TypeInt64, {1, 1});
    lib.set<void *>(pack, dnn::PackPointers, dnn::TypePointer, {pack, pack});
    lib.set<void *>(pack, dnn::PackWorkspace, dnn::TypePointer, {nullptr});
    EXPECT_EQ(lib.cudnnBackendFinalize(pack), dnn::BAD_PARAM);
  });
  finds("no plan or no pack that is final", [](Cudnn &lib) {
    EXPECT_EQ(lib.cudnnBackendExecute(lib.handle, lib.make(dnn::KindPlan), lib.make(dnn::KindPack)),
              dnn::BAD_PARAM_NOT_FINALIZED);
  });
  finds("cudnnBackendDestroyDescriptor: no descriptor", [](Cudnn &lib) {
    dnn::Descriptor *made = lib.make(dnn::KindTensor);
    EXPECT_EQ(lib.cudnnBackendDestroyDescriptor(made), dnn::SUCCESS);
    EXPECT_EQ(lib.cudnnBackendDestroyDescriptor(made), dnn::BAD_PARAM);
  });
  finds("not simulated", [](Cudnn &lib) {
    dnn::Descriptor *made = nullptr;
    EXPECT_EQ(lib.cudnnBackendCreateDescriptor(dnn::Kind(10), &made), dnn::NOT_SUPPORTED);
  });
}
