//===- Machine.cpp - Launches, blocks, findings ---------------------------===//

#include "Machine.h"
#include "Text.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace ptx;

// Maximum over all devices from sm_80 on, which is that of sm_90. (The compiler checks the limit of
// each device.)
constexpr uint32_t maxSharedBytes = 227 * 1024;

Warp::Warp(Machine &machine, const Kernel &kernel, unsigned index)
    : machine(machine), kernel(kernel), index(index), local(size_t(kernel.localBytes) * warpSize),
      localWritten(local.size()), storage(kernel.fileBytes / 8 + 8) {
  auto address = reinterpret_cast<uintptr_t>(storage.data());
  file = reinterpret_cast<uint8_t *>((address + 63) / 64 * 64);
  for (const Constant &constant : kernel.constants) {
    defined(constant.slot) = allLanes;
    if (!constant.bytes)
      predicate(constant.slot) = Mask(constant.value);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      std::memcpy(data<uint8_t>(constant.slot) + lane * constant.bytes, &constant.value,
                  constant.bytes);
  }
}

void Warp::reset(Mask threads) {
  exists = alive = threads;
  waited = 0;
  groups.clear();
  groups.push_back({Group::Runs, 0, threads});
  for (Slot slot : kernel.slots)
    defined(slot) = 0;
  std::fill(localWritten.begin(), localWritten.end(), 0);
  clock.fill(0);
  for (auto &seen : lanesSeen)
    seen.fill(0);
  std::fill(warpsSeen.begin(), warpsSeen.end(), 0);
  for (auto &each : copies)
    each.clear();
  committed.fill(0);
}

Machine::Machine(const Module &module, const Kernel &kernel, Memory &memory,
                 const LaunchConfig &config, std::vector<uint8_t> parameters, Result &result)
    : module(module), kernel(kernel), memory(memory), config(config),
      parameters(std::move(parameters)), result(result),
      state(config.seed * 0x9e3779b97f4a7c15 + 0x853c49e6748fea9b), launchId(memory.nextLaunch()) {}

Dim3 Machine::blockOf(uint64_t linear) const {
  return {uint32_t(linear % config.grid.x), uint32_t(linear / config.grid.x % config.grid.y),
          uint32_t(linear / config.grid.x / config.grid.y)};
}

Dim3 Machine::threadOf(const Warp &warp, unsigned lane) const {
  uint32_t linear = warp.index * warpSize + lane;
  return {linear % config.block.x, linear / config.block.x % config.block.y,
          linear / config.block.x / config.block.y};
}

void Machine::report(Check check, Warp &warp, unsigned lane, const std::string &message) {
  const Inst &inst = kernel.code[warp.pc];
  for (Finding &finding : result.findings)
    if (finding.check == check && finding.line == inst.line &&
        finding.text == kernel.texts[inst.text]) {
      ++finding.count;
      return;
    }
  if (result.findings.size() >= config.maxFindings)
    throw Stop();
  result.findings.push_back({check, kernel.info.name, inst.line, kernel.texts[inst.text],
                             blockOf(block), threadOf(warp, lane), message});
}

void Machine::stop(Check check, Warp &warp, unsigned lane, const std::string &message) {
  report(check, warp, lane, message);
  throw Stop();
}

void Machine::reportUndefined(Warp &warp, const Inst &inst, Mask mask) {
  Mask missing = 0;
  for (Slot slot : inst.src)
    missing |= mask & ~warp.defined(slot);
  if (inst.guard)
    missing |= mask & ~warp.defined(inst.guard);
  if (!missing)
    return;
  report(Check::Initialization, warp, unsigned(std::countr_zero(missing)),
         "reads a register that this thread has not written");
}

void Machine::checkConfig() {
  auto fail = [&](const std::string &what) {
    result.findings.push_back({Check::Launch, kernel.info.name, 0, "", {0, 0, 0}, {0, 0, 0}, what});
    throw Stop();
  };
  // Sizes are checked first, because their product may exceed 64 bits.
  if (std::max(config.block.x, config.block.y) > maxBlockThreads || config.block.z > 64)
    fail(text("a block of {}x{}x{} threads; 1024x1024x64 are possible, and {} in all",
              config.block.x, config.block.y, config.block.z, maxBlockThreads));
  uint64_t threads = config.block.count();
  if (!config.grid.count() || !threads)
    fail("the grid or the block has no threads");
  if (threads > maxBlockThreads)
    fail(text("a block has {} threads; at most {} are possible", threads, maxBlockThreads));
  if (config.grid.y > 65535 || config.grid.z > 65535 || config.grid.x > 0x7fffffff)
    fail("the grid has more blocks than the maximum");
  if (config.grid.count() >= uint64_t(1) << 28)
    fail("the grid has more blocks than the interpreter can distinguish");
  if (kernel.info.maxThreads && threads > kernel.info.maxThreads)
    fail(text("a block has {} threads; .maxntid is {}", threads, kernel.info.maxThreads));
  auto required = kernel.info.block;
  if (required[0] && !(config.block == Dim3{required[0], required[1], required[2]}))
    fail(text("a block has {}x{}x{} threads; .reqntid is {}x{}x{}", config.block.x, config.block.y,
              config.block.z, required[0], required[1], required[2]));
  if (uint64_t bytes = uint64_t(kernel.info.sharedBytes) + config.sharedBytes;
      bytes > maxSharedBytes)
    fail(text("a block has {} bytes of shared memory; at most {} are possible", bytes,
              maxSharedBytes));
  if (parameters.size() < kernel.parameterBytes)
    fail("too few parameters");
}

void Machine::prepareWarp(Warp &warp) {
  uint32_t threads = uint32_t(config.block.count()), first = warp.index * warpSize;
  warp.reset(threads - first >= warpSize ? allLanes : (Mask(1) << (threads - first)) - 1);
  Dim3 id = blockOf(block);
  for (auto [which, slot] : kernel.specials) {
    auto *values = warp.data<uint32_t>(slot);
    warp.defined(slot) = allLanes;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      Dim3 thread = threadOf(warp, lane);
      auto value = [&]() -> uint32_t {
        switch (which) {
        case Special::TidX:
          return thread.x;
        case Special::TidY:
          return thread.y;
        case Special::TidZ:
          return thread.z;
        case Special::NtidX:
          return config.block.x;
        case Special::NtidY:
          return config.block.y;
        case Special::NtidZ:
          return config.block.z;
        case Special::CtaidX:
          return id.x;
        case Special::CtaidY:
          return id.y;
        case Special::CtaidZ:
          return id.z;
        case Special::NctaidX:
          return config.grid.x;
        case Special::NctaidY:
          return config.grid.y;
        case Special::NctaidZ:
          return config.grid.z;
        case Special::LaneId:
          return lane;
        case Special::WarpId:
          return warp.index;
        case Special::NwarpId:
          return uint32_t(warps.size());
        case Special::MaskEq:
          return 1u << lane;
        case Special::MaskLt:
          return (1u << lane) - 1;
        case Special::MaskLe:
          return (2u << lane) - 1;
        case Special::MaskGe:
          return ~((1u << lane) - 1);
        case Special::MaskGt:
          return ~((2u << lane) - 1);
        case Special::DynamicSharedBytes:
          return config.sharedBytes;
        case Special::TotalSharedBytes:
          return kernel.info.sharedBytes + config.sharedBytes;
        case Special::NumSpecial:
          break;
        }
        return 0;
      }();
      values[lane] = value;
    }
  }
}

/// Allocates shared variables, and records the variable of each byte. A variable has its declared
/// alignment; whether it has a larger one depends on the seed. So an access that needs more is
/// misaligned in some launches.
void Machine::placeShared() {
  uint32_t bytes = kernel.sharedBytes + config.sharedBytes;
  shared.resize(bytes);
  sharedWritten.resize(bytes);
  sharedOwner.assign(bytes, 0);
  sharedShadow.resize(bytes);
  uint64_t at = spaceBegin;
  for (size_t i = 0; i < kernel.shared.size(); ++i) {
    const Variable &variable = kernel.shared[i];
    uint64_t alignment = std::max<uint64_t>(variable.alignment, 1);
    at = (at + 2 * alignment - 1) / (2 * alignment) * (2 * alignment);
    at += random() % 2 * alignment;
    sharedAt.push_back(at);
    uint64_t size = variable.external ? config.sharedBytes : variable.bytes;
    std::fill_n(sharedOwner.begin() + int64_t(at), size, uint8_t(std::min<size_t>(i, 254) + 1));
    at += (variable.external ? 0 : variable.bytes) + sharedGap;
  }
}

void Machine::run() {
  checkConfig();
  placeShared();
  uint64_t threads = config.block.count();
  for (unsigned i = 0; i < (threads + warpSize - 1) / warpSize; ++i)
    warps.push_back(std::make_unique<Warp>(*this, kernel, i));
  const auto &variables = memory.variablesOf(module.program);
  for (auto &warp : warps) {
    warp->warpsSeen.resize(warps.size());
    for (const AddressUse &use : kernel.addresses) {
      warp->defined(use.slot) = allLanes;
      uint64_t at = (use.shared ? sharedAt : variables)[use.variable] + uint64_t(use.offset);
      if (use.bytes == 8)
        std::fill_n(warp->data<uint64_t>(use.slot), warpSize, at);
      else
        std::fill_n(warp->data<uint32_t>(use.slot), warpSize, uint32_t(at));
    }
  }

  std::vector<uint32_t> order(config.grid.count());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random() % i]);
  for (uint32_t next : order)
    runBlock(next);
}

void Machine::runBlock(uint64_t next) {
  block = next;
  sharedShadow.enter(++sharedEpoch);
  std::fill(shared.begin(), shared.end(), 0xff);
  std::fill(sharedWritten.begin(), sharedWritten.end(), 0);
  barriers.clear();
  blockOrder.beginBlock(warps.size() * warpSize);
  for (auto &warp : warps)
    prepareWarp(*warp);
  std::vector<Warp *> ready;
  while (true) {
    ready.clear();
    bool ended = true;
    for (auto &warp : warps) {
      ended &= !warp->alive;
      if (runs(*warp))
        ready.push_back(warp.get());
    }
    if (ended)
      return;
    if (ready.empty())
      stopStuck();
    turn(*ready[random() % ready.size()]);
    if (executed > config.maxInstructions)
      stop(Check::Limit, *ready[0], 0,
           text("more than {} instructions of warps: is a loop endless?", config.maxInstructions));
  }
}

Result ptx::launch(const Module &module, std::string_view name, std::span<const Argument> arguments,
                   Memory &memory, const LaunchConfig &config) {
  Result result;
  auto fail = [&](const std::string &what) {
    result.findings.push_back(
        {Check::Launch, std::string(name), 0, "", {0, 0, 0}, {0, 0, 0}, what});
    return result;
  };
  const Kernel *kernel = module.program->find(name);
  if (!kernel)
    return fail("the text has no such entry");
  if (arguments.size() != kernel->parameters.size())
    return fail(
        text("{} arguments for {} parameters", arguments.size(), kernel->parameters.size()));
  std::vector<uint8_t> parameters(kernel->parameterBytes);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Parameter &parameter = kernel->parameters[i];
    if (arguments[i].bytes.size() != parameter.bytes)
      return fail(text("argument {} has {} bytes, and {} has {}", i, arguments[i].bytes.size(),
                       parameter.name, parameter.bytes));
    std::copy(arguments[i].bytes.begin(), arguments[i].bytes.end(),
              parameters.begin() + parameter.offset);
  }
  Machine machine(module, *kernel, memory, config, std::move(parameters), result);
  try {
    machine.run();
    result.completed = true;
  } catch (const Stop &) {
  }
  machine.collect();
  return result;
}
