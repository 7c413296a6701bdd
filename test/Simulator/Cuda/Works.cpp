//===- Works.cpp - Copies, fills, launches --------------------------------===//

#include "Execute.h"
#include "Ptx/Text.h"

#include <cstring>

using namespace sim;
using ptx::text;

HostMemory sim::kindOf(const void *host, size_t bytes) {
  const auto &pinned = state().pinned;
  auto begin = reinterpret_cast<uintptr_t>(host), end = begin + bytes;
  auto above = pinned.upper_bound(begin);
  if (above != pinned.begin()) {
    auto below = std::prev(above);
    if (begin < below->first + below->second.bytes)
      return end <= below->first + below->second.bytes ? HostMemory::Pinned : HostMemory::Both;
  }
  return above != pinned.end() && above->first < end ? HostMemory::Both : HostMemory::Pageable;
}

namespace {

/// Checks that pinned host memory was not freed.
void checkPinned(const void *host, size_t bytes) {
  std::lock_guard lock(state().mutex);
  if (kindOf(host, bytes) != HostMemory::Pinned)
    throw Fault{ERROR_ILLEGAL_ADDRESS,
                text("the {} bytes of pinned host memory that it copies were freed", bytes)};
}

class Upload final : public Work {
public:
  Upload(DevicePointer to, const void *from, size_t bytes, bool stage)
      : Work(text("copy of {} bytes to the device", bytes)), to(to), from(from), bytes(bytes) {
    if (stage) {
      staged.resize(bytes);
      std::memcpy(staged.data(), from, bytes);
      this->from = nullptr;
    }
  }
  Progress step(Execution &execution) override {
    if (from)
      checkPinned(from, bytes);
    std::memcpy(execution.write(to, bytes, "the destination"), from ? from : staged.data(), bytes);
    return Progress::Done;
  }

private:
  DevicePointer to;
  const void *from;
  size_t bytes;
  std::vector<uint8_t> staged;
};

class Download final : public Work {
public:
  Download(void *to, DevicePointer from, size_t bytes, bool pinned)
      : Work(text("copy of {} bytes to the host", bytes)), to(to), from(from), bytes(bytes),
        pinned(pinned) {}
  Progress step(Execution &execution) override {
    if (pinned)
      checkPinned(to, bytes);
    std::memcpy(to, execution.read(from, bytes, "the source"), bytes);
    return Progress::Done;
  }

private:
  void *to;
  DevicePointer from;
  size_t bytes;
  bool pinned;
};

class Copy final : public Work {
public:
  Copy(DevicePointer to, size_t toPitch, DevicePointer from, size_t fromPitch, size_t width,
       size_t rows)
      : Work(text("copy of {} bytes", width * rows)), to(to), from(from), toPitch(toPitch),
        fromPitch(fromPitch), width(width), rows(rows) {}
  Progress step(Execution &execution) override {
    for (size_t row = 0; row < rows; ++row)
      static_cast<Executing &>(execution).copy(to + row * toPitch, from + row * fromPitch, width);
    return Progress::Done;
  }

private:
  DevicePointer to, from;
  size_t toPitch, fromPitch, width, rows;
};

class Fill final : public Work {
public:
  Fill(DevicePointer to, unsigned value, size_t count, unsigned width)
      : Work(text("memset of {} bytes", count * width)), to(to), value(value), count(count),
        width(width) {}
  Progress step(Execution &execution) override {
    uint8_t *into = execution.write(to, count * width, "the destination");
    if (width == 1)
      std::memset(into, int(value), count);
    else
      for (size_t i = 0; i < count; ++i)
        std::memcpy(into + i * width, &value, width);
    return Progress::Done;
  }

private:
  DevicePointer to;
  unsigned value;
  size_t count;
  unsigned width;
};

class HostCall final : public Work {
public:
  HostCall(HostFunction function, void *data)
      : Work("a function of the host"), function(function), data(data) {}
  Progress step(Execution &) override {
    function(data);
    return Progress::Done;
  }

private:
  HostFunction function;
  void *data;
};

class ClockRead final : public Work {
public:
  explicit ClockRead(std::shared_ptr<double> time) : Work("an event"), time(std::move(time)) {}
  Progress step(Execution &execution) override {
    *time = static_cast<Executing &>(execution).clock();
    return Progress::Done;
  }

private:
  std::shared_ptr<double> time;
};

class Launch final : public Work {
public:
  Launch(const Module &module, const std::string &kernel, std::vector<ptx::Argument> arguments,
         const ptx::LaunchConfig &config)
      : Work("kernel " + kernel), module(module.text), isLoaded(module.isLoaded), kernel(kernel),
        arguments(std::move(arguments)), config(config) {
    isKernel = true;
    isDependent = config.dependent;
  }
  Progress step(Execution &execution) override {
    if (!*isLoaded)
      throw Fault{ERROR_LAUNCH_FAILED, "its module was unloaded"};
    static_cast<Executing &>(execution).launch(module, kernel, arguments, config);
    // The duration is that of a small matmul of cuBLASLt, or a multiple that depends on seed and
    // kernel.
    constexpr double milliseconds = 0.004;
    double pace =
        1 + double(std::hash<std::string>()(kernel + std::to_string(settings().seed)) % 4);
    execution.addDuration(milliseconds * pace);
    return Progress::Done;
  }

private:
  ptx::Module module;
  std::shared_ptr<const std::atomic<bool>> isLoaded;
  std::string kernel;
  std::vector<ptx::Argument> arguments;
  ptx::LaunchConfig config;
};

} // namespace

std::shared_ptr<Work> sim::makeUpload(DevicePointer to, const void *from, size_t bytes,
                                      bool staged) {
  return std::make_shared<Upload>(to, from, bytes, staged);
}
std::shared_ptr<Work> sim::makeDownload(void *to, DevicePointer from, size_t bytes, bool pinned) {
  return std::make_shared<Download>(to, from, bytes, pinned);
}
std::shared_ptr<Work> sim::makeCopy(DevicePointer to, DevicePointer from, size_t bytes) {
  return std::make_shared<Copy>(to, 0, from, 0, bytes, 1);
}
std::shared_ptr<Work> sim::makeCopyRows(DevicePointer to, size_t toPitch, DevicePointer from,
                                        size_t fromPitch, size_t width, size_t rows) {
  return std::make_shared<Copy>(to, toPitch, from, fromPitch, width, rows);
}
std::shared_ptr<Work> sim::makeFill(DevicePointer to, unsigned value, size_t count,
                                    unsigned width) {
  return std::make_shared<Fill>(to, value, count, width);
}
std::shared_ptr<Work> sim::makeHostCall(HostFunction function, void *data) {
  return std::make_shared<HostCall>(function, data);
}
std::shared_ptr<Work> sim::makeClock(std::shared_ptr<double> time) {
  return std::make_shared<ClockRead>(std::move(time));
}
std::shared_ptr<Work> sim::makeLaunch(const Module &module, const std::string &kernel,
                                      std::vector<ptx::Argument> arguments,
                                      ptx::LaunchConfig config) {
  return std::make_shared<Launch>(module, kernel, std::move(arguments), config);
}
