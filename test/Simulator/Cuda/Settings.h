//===- Settings.h - TPC_SIM_… variables, findings, trace ------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_SETTINGS_H
#define TPC_TEST_SIMULATOR_CUDA_SETTINGS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

/// A fault that is injected at call number `when`, on one device or on any (-1).
struct Injection {
  std::string what;
  uint64_t when = 0;
  int device = -1;
};

struct Settings {
  uint64_t seed = 0;                 // TPC_SIM_SEED
  int devices = 8;                   // TPC_SIM_DEVICES
  uint64_t memory = 8ull << 30;      // TPC_SIM_MEMORY, such as 80GiB: bytes of each device
  uint64_t taken = 0;                // TPC_SIM_TAKEN: bytes of it that other programs always use
  std::vector<int> capabilities{90}; // TPC_SIM_CAPABILITY, such as 9.0,8.0 for alternate devices
  std::string name;                  // TPC_SIM_NAME
  int driverVersion = 13000;         // TPC_SIM_DRIVER
  std::string uuid;                  // TPC_SIM_UUID: first digits of each device's identifier
  std::string session;               // TPC_SIM_SESSION: folder of processes that share devices
  std::string findings, trace;       // TPC_SIM_FINDINGS, TPC_SIM_TRACE: files to append to
  std::string usage;                 // TPC_SIM_USAGE: file for each new maximum of memory in use
  std::vector<Injection> injections; // TPC_SIM_INJECT, such as oom@3,ecc@40:1
  std::vector<int> visible;          // CUDA_VISIBLE_DEVICES, as ordinals
};

const Settings &settings();

/// Returns the compute capability of a device, such as 90.
int capabilityOf(int device);
/// Returns the name of a device.
std::string nameOf(int device);
/// Returns the identifier of a device, 16 bytes.
std::string uuidOf(int device);

/// Reports a finding on stderr and in the file of findings. Each text is reported once.
void report(const std::string &text);
void trace(const std::string &text);
bool tracing();
/// Records a new maximum of the bytes in use of a device in the file TPC_SIM_USAGE.
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
