//===- CudnnTest.cpp - graphs of attention, and what is wrong with others -===//

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

/// Attention of the product's graph: 0 where it is right, 2 where the library refuses it.
int runAttention(bool isHalf, int64_t heads, int64_t kvHeads, int64_t queries, int64_t keys,
                 int64_t size, bool causal, int64_t offset, bool hasBias) {
  Cudnn lib;
  std::string problem;
  const product::Library *library = product::Library::load(problem);
  EXPECT_TRUE(library) << problem;
  constexpr int64_t batch = 2;
  auto draw = [&](int64_t count, double seed) {
    std::vector<uint16_t> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(toBits(float(std::sin(double(i) * 0.7 + seed)), isHalf));
    return values;
  };
  auto q = draw(batch * queries * heads * size, 1), k = draw(batch * keys * kvHeads * size, 2),
       v = draw(batch * keys * kvHeads * size, 3), bias = draw(batch * queries * keys, 4);
  std::vector<uint16_t> out(q.size(), 0);
  DevicePointer outMemory = lib.upload(out);
  auto pointer = [](DevicePointer address) { return reinterpret_cast<float *>(address); };
  tpc_attention_args args = {};
  args.q = pointer(lib.upload(q));
  args.k = pointer(lib.upload(k));
  args.v = pointer(lib.upload(v));
  args.out = pointer(outMemory);
  args.batch = batch;
  args.seq_q = queries;
  args.seq_k = keys;
  args.heads_q = heads;
  args.heads_kv = kvHeads;
  args.head_size = args.value_size = size;
  args.q_row_stride = args.out_row_stride = heads * size;
  args.k_row_stride = args.v_row_stride = kvHeads * size;
  args.scale = 0.4f;
  args.causal = causal;
  args.causal_offset = offset;
  args.dtype = args.bias_dtype = isHalf ? TPC_F16 : TPC_BF16;
  if (hasBias) {
    args.bias = pointer(lib.upload(bias));
    args.bias_batch_stride = queries * keys;
  }
  try {
    auto *handle = reinterpret_cast<product::Handle>(lib.handle);
    product::AttentionPlan plan(*library, handle, product::AttentionShape::of(args));
    DevicePointer workspace = lib.allocate(size_t(std::max<int64_t>(plan.workspaceBytes(), 1)));
    plan.run(handle, args, reinterpret_cast<void *>(workspace));
  } catch (const std::exception &) {
    return 2;
  }
  EXPECT_EQ(lib.cuStreamSynchronize(lib.stream), SUCCESS);
  out = lib.download<uint16_t>(outMemory, out.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        auto at = [&](const std::vector<uint16_t> &of, int64_t token, int64_t count, int64_t each,
                      int64_t head, int64_t c) {
          return toNumber(of[size_t(((b * count + token) * each + head) * size + c)], isHalf);
        };
        int64_t own = h / (heads / kvHeads);
        std::vector<double> weights;
        double total = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t c = 0; c < size; ++c)
            score += at(q, i, queries, heads, h, c) * at(k, j, keys, kvHeads, own, c);
          score *= double(args.scale);
          if (hasBias)
            score += toNumber(bias[size_t((b * queries + i) * keys + j)], isHalf);
          weights.push_back(!causal || j <= i + offset ? std::exp(score) : 0);
          total += weights.back();
        }
        for (int64_t c = 0; c < size; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < keys; ++j)
            sum += weights[size_t(j)] / total * at(v, j, keys, kvHeads, own, c);
          EXPECT_NEAR(at(out, i, queries, heads, h, c), sum, isHalf ? 2e-3 : 2e-2);
        }
      }
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

TEST(Cudnn, ComputesAttentionOrRefusesIt) {
  int right = 0, refused = 0, all = 0;
  for (int seed = 0; seed < 12; ++seed) {
    Findings findings;
    int status =
        inProcess(findings.with(seeded(seed, {{"TPC_CUDA_LIBS", TPC_SIMULATOR_DIR}})), [&] {
          bool odd = seed % 2;
          _exit(runAttention(/*isHalf=*/odd, /*heads=*/4, /*kvHeads=*/seed % 3 ? 2 : 4,
                             /*queries=*/5 + seed, /*keys=*/9 + seed, /*size=*/8,
                             /*causal=*/seed % 4 < 3,
                             /*offset=*/odd ? 4 : 0, /*hasBias=*/seed % 5 == 0));
        });
    ++all;
    right += WEXITSTATUS(status) == 0;
    refused += WEXITSTATUS(status) == 2;
    EXPECT_EQ(findings.text(), "");
  }
  EXPECT_EQ(right + refused, all);
  EXPECT_GT(right, 3);
  EXPECT_GT(refused, 1);
}

TEST(Cudnn, HasNoEngineForHeadsOfOddSizes) {
  EXPECT_EQ(
      WEXITSTATUS(inProcess({{"TPC_CUDA_LIBS", TPC_SIMULATOR_DIR}},
                            [] { _exit(runAttention(true, 2, 2, 4, 4, 10, true, 0, false)); })),
      2);
}

TEST(Cudnn, RefusesMisuse) {
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
  finds("a pack has as many pointers as numbers", [](Cudnn &lib) {
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
