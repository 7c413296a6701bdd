//===- Queue.cpp - GPU context and stream ---------------------------------===//

#include "cuda/library/Queue.h"

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

void Queue::synchronize() {
  InFlightOperations::synchronize(driver, stream);
  ++synchronizations;
}

} // namespace tpc::rt::cuda
