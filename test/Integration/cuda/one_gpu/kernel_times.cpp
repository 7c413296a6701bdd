//===- kernel_times.cpp - Durations of a program's GPU kernels, by CUPTI ---===//
//
// CUDA loads this library into a program if CUDA_INJECTION64_PATH is the library's path. The
// library writes a line for each kernel, those of recorded graphs included, to the file
// TPC_KERNEL_TIMES:
//
//   begin, ns <tab> end, ns <tab> blocks <tab> name
//
// TPC_CUPTI is the path of libcupti.so.13. If it cannot be loaded, the file is not written.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cupti.h>
#include <dlfcn.h>
#include <type_traits>

namespace {

constexpr size_t kBufferBytes = 8 << 20;
FILE *file;
decltype(&cuptiActivityGetNextRecord) getNextRecord;
decltype(&cuptiActivityFlushAll) flushAll;

void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *maxRecords) {
  *buffer = static_cast<uint8_t *>(aligned_alloc(8, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *maxRecords = 0;
}

void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t validSize) {
  CUpti_Activity *record = nullptr;
  while (getNextRecord(buffer, validSize, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      continue;
    auto *kernel = reinterpret_cast<CUpti_ActivityKernel9 *>(record);
    fprintf(file, "%llu\t%llu\t%lld\t%s\n", static_cast<unsigned long long>(kernel->start),
            static_cast<unsigned long long>(kernel->end),
            static_cast<long long>(kernel->gridX) * kernel->gridY * kernel->gridZ, kernel->name);
  }
  free(buffer);
}

void finish() {
  flushAll(1);
  fclose(file);
}

} // namespace

extern "C" int InitializeInjection() {
  const char *library = getenv("TPC_CUPTI"), *path = getenv("TPC_KERNEL_TIMES");
  void *handle = library && path ? dlopen(library, RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (!handle)
    return 1;
  auto load = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityRegisterCallbacks) registerCallbacks;
  if (!load(getNextRecord, "cuptiActivityGetNextRecord") ||
      !load(flushAll, "cuptiActivityFlushAll") || !load(enable, "cuptiActivityEnable") ||
      !load(registerCallbacks, "cuptiActivityRegisterCallbacks"))
    return 1;
  file = fopen(path, "w");
  if (!file || registerCallbacks(request, complete) != CUPTI_SUCCESS ||
      enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
    return 1;
  atexit(finish);
  return 1;
}
