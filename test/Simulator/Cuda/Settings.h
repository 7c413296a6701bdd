//===- Settings.h - TPC_SIM_… variables, findings, trace ------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_SETTINGS_H
#define TPC_TEST_SIMULATOR_CUDA_SETTINGS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

/// An injected fault: at the n-th call, on one device or on any (-1).
struct Injection {
  std::string what;
  uint64_t when = 0;
  int device = -1;
};

struct Settings {
  uint64_t seed = 0;                 // TPC_SIM_SEED
  int devices = 8;                   // TPC_SIM_DEVICES
  uint64_t memory = 8ull << 30;      // TPC_SIM_MEMORY, such as 80GiB: of each device
  uint64_t taken = 0;                // TPC_SIM_TAKEN: of that, what others hold all the time
  std::vector<int> capabilities{90}; // TPC_SIM_CAPABILITY, such as 9.0,8.0: devices take turns
  std::string name;                  // TPC_SIM_NAME
  int driverVersion = 13000;         // TPC_SIM_DRIVER
  std::string uuid;                  // TPC_SIM_UUID: first digits of each device's
  std::string session;               // TPC_SIM_SESSION: a folder by which processes share devices
  std::string findings, trace;       // TPC_SIM_FINDINGS, TPC_SIM_TRACE: files that get a line each
  std::string usage;                 // TPC_SIM_USAGE: the same, whenever more memory is held
  std::vector<Injection> injections; // TPC_SIM_INJECT, such as oom@3,ecc@40:1
  std::vector<int> visible;          // CUDA_VISIBLE_DEVICES, as ordinals
};

const Settings &settings();

/// Compute capability of a device, such as 90.
int capabilityOf(int device);
/// Returns the name of a device.
std::string nameOf(int device);
/// The identifier of a device: 16 bytes.
std::string uuidOf(int device);

/// Reports a finding once: on stderr, and in the file of findings.
void report(const std::string &text);
void trace(const std::string &text);
bool tracing();
/// Memory size that no device reaches.
void usage(int device, uint64_t bytes);

/// Random number generator for choices that the specification leaves open.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15 + 0x853c49e6748fea9b) {}
  uint64_t operator()() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1d >> 20;
  }

private:
  uint64_t state;
};

} // namespace sim

#endif
