//===- Main.cpp - Acceptance of tpc's graphs by the real cuDNN ------------===//
//
// tpc-cudnn-plans [--few]: plans the attention cases that cuda::getLibraryLimitation leaves to
// cuDNN, for described devices that need not be installed. Prints a line for each;
// test_cudnn_accepts.py runs it with a driver without devices.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/CudnnPlan.h"
#include <cstdio>
#include <cstring>
#include <stdexcept>

using namespace tpc::rt::cuda::dnn;

namespace {

struct DeviceText {
  const char *name;
  int version, multiprocessors, sharedOptIn, registers = 65536;
  long long memory, cache;

  // NVIDIA publishes these values.
  std::string json() const {
    std::string text = "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, "
                       "1024, 64], \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
                       "\"reservedSharedMemoryPerBlock\": 1024, \"maxCtasPerSM\": 32, "
                       "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"pciDeviceId\": "
                       "0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"smClockRateKHz\": "
                       "1500000, \"memClockRateKHz\": 1500000, \"cudaDeviceId\": 0, "
                       "\"driverVer\": 13000";
    auto add = [&](const char *key, long long value) {
      text += ", \"" + std::string(key) + "\": " + std::to_string(value);
    };
    add("deviceVer", version);
    add("multiProcessorCount", multiprocessors);
    add("maxSharedMemoryPerBlockOptin", sharedOptIn);
    add("regsPerBlock", registers);
    add("maxRegistersPerSM", registers);
    add("totalGlobalMem", memory);
    add("l2CacheSize", cache);
    return text + ", \"deviceName\": \"" + name + "\"}";
  }
};

const DeviceText devices[] = {
    {"NVIDIA A100-SXM4-80GB", 800, 108, 166912, 65536, 85000000000, 41943040},
    {"NVIDIA H100 80GB HBM3", 900, 132, 232448, 65536, 85000000000, 52428800},
    {"NVIDIA B200", 1000, 148, 232448, 65536, 190000000000, 132644864},
};

struct Case {
  const char *name;
  int32_t dtype;
  int64_t heads, kvHeads, queries, keys, size, valueSize;
  int32_t causal;
  int64_t offset;
  int32_t biasType = -1;
  int64_t capacity =
      0; // of caches; 0: none. `offset` is then the number of keys before the queries
};

// Head sizes, types, groups, lengths, offsets and biases that occur in programs; the first ones are
// the selection of --few.
const Case cases[] = {
    {"causal, f16", TPC_F16, 12, 12, 128, 128, 64, 64, 1, 0},
    {"all, bf16, grouped, odd lengths", TPC_BF16, 8, 2, 67, 131, 128, 128, 0, 0},
    {"causal, offset", TPC_BF16, 8, 2, 67, 131, 64, 64, 1, 64},
    {"causal, another offset", TPC_F16, 4, 4, 64, 130, 80, 80, 1, 5},
    {"heads of 8", TPC_F16, 4, 4, 64, 64, 8, 8, 1, 0},
    {"heads of 96", TPC_BF16, 4, 4, 65, 65, 96, 96, 1, 0},
    {"heads of 256", TPC_BF16, 8, 4, 100, 100, 256, 256, 1, 0},
    {"values of 32", TPC_F16, 4, 4, 64, 100, 64, 32, 1, 0},
    {"bias of its type", TPC_F16, 4, 4, 64, 64, 64, 64, 0, 0, TPC_F16},
    {"bias of f32, odd keys", TPC_BF16, 4, 2, 64, 101, 64, 64, 1, 37, TPC_F32},
    {"an empty cache", TPC_BF16, 8, 2, 1024, 1024, 128, 128, 1, 0, -1, 4096},
    {"a cache, odd lengths", TPC_F16, 8, 2, 67, 144, 64, 64, 1, 77, -1, 200},
};

tpc_attention_args argsOf(const Case &c) {
  static const float bias = 0;
  tpc_attention_args a = {};
  a.dtype = c.dtype;
  a.batch = 2;
  a.heads_q = c.heads;
  a.heads_kv = c.kvHeads;
  a.seq_q = c.queries;
  a.seq_k = c.keys;
  a.head_size = c.size;
  a.value_size = c.valueSize;
  a.q_row_stride = c.heads * c.size;
  a.k_row_stride = c.kvHeads * c.size;
  a.v_row_stride = c.kvHeads * c.valueSize;
  a.out_row_stride = c.heads * c.valueSize;
  a.causal = c.causal;
  a.causal_offset = c.capacity ? 0 : c.offset;
  if (c.capacity) {
    static const int64_t lengths = 0;
    a.lengths = &lengths;
    a.seq_k = c.capacity;
    a.k_row_stride = c.size, a.v_row_stride = c.valueSize;
    a.k_head_stride = c.capacity * c.size, a.v_head_stride = c.capacity * c.valueSize;
    a.k_batch_stride = c.kvHeads * a.k_head_stride, a.v_batch_stride = c.kvHeads * a.v_head_stride;
  }
  if (c.biasType >= 0) {
    a.bias = &bias;
    a.bias_dtype = c.biasType;
    a.bias_batch_stride = c.queries * c.keys;
  }
  return a;
}

} // namespace

int main(int argc, char **argv) {
  bool few = argc > 1 && std::strcmp(argv[1], "--few") == 0;
  std::string problem;
  const Library *library = Library::load(problem);
  if (!library) {
    std::printf("%s\n", problem.c_str());
    return 2;
  }
  std::printf("%s\n", library->describe().c_str());
  auto plan = [&](const DeviceText &device, const Case &c) -> std::string {
    try {
      AttentionShape shape = AttentionShape::of(argsOf(c), c.capacity ? c.offset : 0);
      AttentionPlan made(*library, nullptr, shape, device.json());
      return "accepted";
    } catch (const std::exception &error) {
      return std::string("refused: ") + error.what();
    }
  };
  for (const DeviceText &device : devices) {
    int count = 0;
    for (const Case &c : cases)
      if (!few || count++ < 1)
        std::printf("%s: %s: %s\n", device.name, c.name, plan(device, c).c_str());
  }
  // cuDNN must reject a case that getLibraryLimitation excludes.
  Case odd = {"heads of 10", TPC_F16, 4, 4, 64, 64, 10, 10, 1, 0};
  std::printf("%s: %s: %s\n", devices[0].name, odd.name, plan(devices[0], odd).c_str());
  return 0;
}
