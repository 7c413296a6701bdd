//===- Queue.cpp - GPU context and stream ---------------------------------===//

#include "cuda/library/Queue.h"
#include "tpc/dependent_launch.h"

namespace tpc::rt::cuda {

Queue::Queue(const Driver &driver, const Gpu &gpu) : driver(driver), gpu(gpu) {
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, gpu.number), "to be set up");
  enter();
  driver.check(driver.cuStreamCreate(&stream, nonBlocking), "to be set up");
}

Queue::~Queue() {
  driver.cuCtxSetCurrent(context);
  driver.cuStreamSynchronize(stream);
  driver.cuStreamDestroy_v2(stream);
  driver.cuDevicePrimaryCtxRelease_v2(gpu.number);
}

void Queue::enter() {
  inFlight.use();
  driver.check(driver.cuCtxSetCurrent(context), "to be used");
}

bool Queue::isRecordingAfterKernel() const {
  int status = 0, type = 0;
  const GraphNode *last = nullptr;
  const EdgeData *edges = nullptr;
  size_t count = 0;
  driver.check(
      driver.cuStreamGetCaptureInfo_v3(stream, &status, nullptr, nullptr, &last, &edges, &count),
      "to describe the recording of a step");
  if (status != captureActive || count != 1)
    return false;
  driver.check(driver.cuGraphNodeGetType(last[0], &type), "to describe the recording of a step");
  return type == kernelNode;
}

Result Queue::launch(Function function, int64_t blocks, unsigned threads, int64_t sharedBytes,
                     void **parameters, bool waits) const {
  bool isDependent =
      waits && gpu.architecture >= dependent_launch::kArchitecture && isRecordingAfterKernel();
  LaunchAttribute serialization = {programmaticSerialization, 0, {}};
  serialization.value.allowed = 1;
  LaunchSettings settings{.blocksX = static_cast<unsigned>(blocks),
                          .blocksY = 1,
                          .blocksZ = 1,
                          .threadsX = threads,
                          .threadsY = 1,
                          .threadsZ = 1,
                          .sharedBytes = static_cast<unsigned>(sharedBytes),
                          .stream = stream,
                          .attributes = &serialization,
                          .count = isDependent ? 1u : 0};
  return driver.cuLaunchKernelEx(&settings, function, parameters, nullptr);
}

void Queue::synchronize() {
  InFlightOperations::synchronize(driver, stream);
  ++synchronizations;
}

} // namespace tpc::rt::cuda
