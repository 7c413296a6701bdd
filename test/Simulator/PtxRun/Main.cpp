//===- Main.cpp - tpc-ptx-run ---------------------------------------------===//

#include "Device.h"
#include "Npy.h"
#include "tpc/standard_output.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

using namespace ptxrun;

static void list(const ptx::Module &module) {
  std::printf(".version %s, .target %s\n", module.version().c_str(), module.target().c_str());
  for (const ptx::KernelInfo &kernel : module.kernels()) {
    std::printf("%s(", kernel.name.c_str());
    for (size_t i = 0; i < kernel.parameters.size(); ++i)
      std::printf("%s%s: %u bytes", i ? ", " : "", kernel.parameters[i].name.c_str(),
                  kernel.parameters[i].bytes);
    std::printf("): %u instructions, %u bytes of shared memory%s", kernel.instructions,
                kernel.sharedBytes, kernel.dynamicShared ? " and dynamic" : "");
    if (kernel.block[0])
      std::printf(", blocks of %ux%ux%u", kernel.block[0], kernel.block[1], kernel.block[2]);
    else if (kernel.maxThreads)
      std::printf(", blocks of at most %u", kernel.maxThreads);
    std::printf("\n");
  }
}

/// One run, in its own memory.
struct Run {
  Run(const ptx::Module &module, const Options &options, uint64_t seed) : memory(seed) {
    std::vector<ptx::Argument> arguments;
    for (const Parameter &parameter : options.parameters) {
      addresses.push_back(0);
      if (!parameter.isBuffer) {
        arguments.push_back({parameter.bytes});
        continue;
      }
      addresses.back() = memory.allocate(parameter.size, parameter.name, parameter.alignment);
      if (parameter.filled)
        memory.copyIn(addresses.back(), parameter.bytes.data(), parameter.size);
      memory.setReadOnly(addresses.back(), parameter.readOnly);
      arguments.push_back(ptx::Argument::pointer(addresses.back() + parameter.offset));
    }
    ptx::LaunchConfig config = options.config;
    config.seed = seed;
    result = ptx::launch(module, options.kernel, arguments, memory, config);
  }

  std::vector<uint8_t> contents(const Options &options, size_t i) const {
    std::vector<uint8_t> bytes(options.parameters[i].size);
    memory.copyOut(bytes.data(), addresses[i], bytes.size());
    return bytes;
  }

  ptx::Memory memory;
  std::vector<uint64_t> addresses;
  ptx::Result result;
};

static void writeOutputs(const Run &run, const Options &options) {
  for (size_t i = 0; i < options.parameters.size(); ++i) {
    const Parameter &parameter = options.parameters[i];
    if (parameter.output.empty())
      continue;
    writeArray(parameter.output,
               {numpyType(parameter.type), parameter.shape, run.contents(options, i)});
    if (uint64_t missing = run.memory.countUnwritten(run.addresses[i], parameter.size))
      std::printf("%s: %llu of %llu bytes were never written\n", parameter.name.c_str(),
                  static_cast<unsigned long long>(missing),
                  static_cast<unsigned long long>(parameter.size));
  }
}

static double floatAt(const std::string &type, const uint8_t *from) {
  auto read = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  if (type == "f64")
    return read(double());
  if (type == "f16")
    return double(float(read(_Float16())));
  if (type == "bf16")
    return std::bit_cast<float>(uint32_t(read(uint16_t())) << 16);
  return read(float());
}

/// Compares a buffer of the interpreter with that of a device. Returns whether they are equal.
static bool compare(const Run &run, const Options &options, size_t i,
                    const std::vector<uint8_t> &device) {
  const Parameter &parameter = options.parameters[i];
  std::vector<uint8_t> ours = run.contents(options, i);
  bool isFloat = parameter.type.find('f') != std::string::npos;
  unsigned bytes = elementBytes(numpyType(parameter.type));
  double largest = 0, worst = 0;
  size_t worstAt = 0, different = 0;
  auto each = [&](auto f) {
    for (size_t at = 0; at + bytes <= ours.size(); at += bytes)
      if (run.memory.countUnwritten(run.addresses[i] + at, bytes) == 0)
        f(at);
  };
  if (isFloat)
    each([&](size_t at) {
      double value = std::fabs(floatAt(parameter.type, &ours[at]));
      largest = std::isfinite(value) ? std::max(largest, value) : largest;
    });
  each([&](size_t at) {
    if (std::memcmp(&ours[at], &device[at], bytes) == 0)
      return;
    double off = INFINITY;
    if (isFloat) {
      double a = floatAt(parameter.type, &ours[at]), b = floatAt(parameter.type, &device[at]);
      off = std::isnan(a) && std::isnan(b) ? 0 : std::fabs(a - b);
    }
    if (off <= options.tolerance * largest)
      return;
    ++different;
    if (!(off < worst))
      worst = off, worstAt = at / bytes;
  });
  if (different)
    std::printf("device: %s: %zu elements differ; the largest difference is %g, at element %zu "
                "(largest element: %g)\n",
                parameter.name.c_str(), different, worst, worstAt, largest);
  return !different;
}

static int run(const std::vector<std::string> &arguments) {
  Options options = parseOptions(arguments);
  if (options.help) {
    std::fputs(help, stdout);
    return 0;
  }
  std::string text = readFile(options.file), error;
  std::optional<ptx::Module> module = ptx::parse(text, error);
  if (!module)
    throw UserError(options.file + ": " + error);
  if (options.list) {
    list(*module);
    return 0;
  }
  bool known = false;
  for (const ptx::KernelInfo &kernel : module->kernels()) {
    if (kernel.name != options.kernel)
      continue;
    known = true;
    if (options.config.block.x == 0)
      options.config.block = kernel.block[0]
                                 ? ptx::Dim3{kernel.block[0], kernel.block[1], kernel.block[2]}
                                 : ptx::Dim3();
  }
  if (!known)
    throw UserError(options.file + " has no kernel '" + options.kernel +
                    "': --list prints its kernels");

  bool clean = true;
  std::unique_ptr<Run> last;
  for (uint64_t i = 0; i < options.seeds; ++i) {
    uint64_t seed = options.config.seed + i;
    last = std::make_unique<Run>(*module, options, seed);
    if (!last->result.clean())
      std::printf("seed %llu:\n%s", static_cast<unsigned long long>(seed),
                  last->result.str().c_str());
    clean &= last->result.clean();
  }
  if (options.counters)
    std::fputs(last->result.counters.str().c_str(), stdout);
  writeOutputs(*last, options);
  if (clean)
    std::printf("%s: no findings\n", options.kernel.c_str());
  if (!options.device)
    return clean ? 0 : 1;
  if (!clean)
    throw UserError("--device: not run, because the interpreter has findings");
  std::vector<std::vector<uint8_t>> device = runOnDevice(text, options);
  bool same = true;
  for (size_t i = 0; i < device.size(); ++i)
    if (options.parameters[i].isBuffer)
      same &= compare(*last, options, i, device[i]);
  if (same)
    std::printf("device: the same\n");
  return same ? 0 : 1;
}

int main(int argc, char **argv) {
  try {
    int status = run({argv + 1, argv + argc});
    int finished = tpc::finishStandardOutput("tpc-ptx-run", status);
    return finished == status ? status : 2;
  } catch (const UserError &wrong) {
    std::fflush(stdout);
    std::fprintf(stderr, "tpc-ptx-run: %s\n", wrong.what());
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "tpc-ptx-run: not enough memory for all buffers\n");
  }
  return 2;
}
