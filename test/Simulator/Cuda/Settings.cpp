//===- Settings.cpp - TPC_SIM_… variables, findings, trace ----------------===//

#include "Settings.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>

using namespace sim;

namespace {

[[noreturn]] void refuse(const char *variable, std::string_view value) {
  std::fprintf(stderr, "simulator: %s=%.*s has an invalid value\n", variable, int(value.size()),
               value.data());
  std::_Exit(2);
}

uint64_t number(const char *variable, std::string_view text, std::string_view *rest = nullptr) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view left(end, size_t(text.data() + text.size() - end));
  if (error != std::errc() || (!rest && !left.empty()))
    refuse(variable, text);
  if (rest)
    *rest = left;
  return value;
}

uint64_t bytes(const char *variable, std::string_view text) {
  std::string_view unit;
  uint64_t value = number(variable, text, &unit);
  for (auto [name, shift] : {std::pair("", 0), {"KiB", 10}, {"MiB", 20}, {"GiB", 30}})
    if (unit == name)
      return value << shift;
  refuse(variable, text);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

constexpr std::string_view injectable[] = {"oom",     "pinned",  "launch", "fail",     "ecc",
                                           "address", "kill",    "freeze", "hang",     "nccl",
                                           "async",   "connect", "abort",  "register", "heuristic"};

Settings readSettings() {
  Settings made;
  auto read = [](const char *name, auto f) {
    if (const char *value = std::getenv(name); value && *value)
      f(name, std::string_view(value));
  };
  auto text = [](std::string &to) {
    return [&](const char *, std::string_view value) { to = value; };
  };
  read("TPC_SIM_SEED", [&](auto name, auto value) { made.seed = number(name, value); });
  read("TPC_SIM_DEVICES", [&](auto name, auto value) { made.devices = int(number(name, value)); });
  read("TPC_SIM_MEMORY", [&](auto name, auto value) { made.memory = bytes(name, value); });
  read("TPC_SIM_TAKEN", [&](auto name, auto value) { made.taken = bytes(name, value); });
  read("TPC_SIM_CAPABILITY", [&](auto name, auto value) {
    made.capabilities.clear();
    for (std::string_view one : split(value, ',')) {
      std::string_view minor;
      uint64_t major = number(name, one, &minor);
      if (minor.size() < 2 || minor[0] != '.')
        refuse(name, value);
      made.capabilities.push_back(int(major * 10 + number(name, minor.substr(1))));
    }
    if (made.capabilities.empty())
      refuse(name, value);
  });
  read("TPC_SIM_DRIVER",
       [&](auto name, auto value) { made.driverVersion = int(number(name, value)); });
  read("TPC_SIM_NAME", text(made.name));
  read("TPC_SIM_UUID", text(made.uuid));
  read("TPC_SIM_SESSION", text(made.session));
  read("TPC_SIM_FINDINGS", text(made.findings));
  read("TPC_SIM_TRACE", text(made.trace));
  read("TPC_SIM_USAGE", text(made.usage));
  read("TPC_SIM_INJECT", [&](auto name, auto value) {
    for (std::string_view one : split(value, ',')) {
      size_t at = one.find('@');
      if (at == std::string_view::npos)
        refuse(name, value);
      Injection injection{std::string(one.substr(0, at))};
      std::string_view device;
      injection.when = number(name, one.substr(at + 1), &device);
      if (!device.empty() && device[0] == ':')
        injection.device = int(number(name, device.substr(1)));
      else if (!device.empty())
        refuse(name, value);
      if (std::find(std::begin(injectable), std::end(injectable), injection.what) ==
          std::end(injectable))
        refuse(name, value);
      made.injections.push_back(injection);
    }
  });
  return made;
}

std::string hexUuid(const std::string &raw) {
  std::string result = "GPU-";
  for (size_t i = 0; i < raw.size(); ++i) {
    char digits[3];
    std::snprintf(digits, 3, "%02x", unsigned(uint8_t(raw[i])));
    result += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(digits);
  }
  return result;
}

// Returns the devices in CUDA_VISIBLE_DEVICES, parsed as by the driver. Entries are ordinals or
// prefixes of identifiers. Entries from the first invalid one on are ignored.
std::vector<int> visibleOf(const Settings &settings) {
  std::vector<int> result;
  const char *value = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!value) {
    for (int i = 0; i < settings.devices; ++i)
      result.push_back(i);
    return result;
  }
  for (std::string_view one : split(value, ',')) {
    int found = -1, parsed = -1;
    auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), parsed);
    if (error == std::errc() && end == one.data() + one.size()) {
      if (parsed >= 0 && parsed < settings.devices)
        found = parsed;
    } else {
      for (int i = 0; i < settings.devices && one.starts_with("GPU-"); ++i)
        if (hexUuid(uuidOf(i)).starts_with(one))
          found = i;
    }
    if (found < 0)
      break;
    if (std::find(result.begin(), result.end(), found) != result.end())
      return {}; // with a repeated entry, no device is visible
    result.push_back(found);
  }
  return result;
}

void appendLine(const std::string &path, const std::string &text) {
  int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    return;
  std::string line = text + "\n";
  [[maybe_unused]] ssize_t written = write(file, line.data(), line.size());
  close(file);
}

} // namespace

static Settings &mutableSettings() {
  static auto *all = new Settings(readSettings());
  return *all;
}

const Settings &sim::settings() {
  static std::once_flag once;
  // Visible devices come last, because identifiers depend on the other settings.
  std::call_once(once, [] { mutableSettings().visible = visibleOf(mutableSettings()); });
  return mutableSettings();
}

int sim::capabilityOf(int device) {
  const std::vector<int> &all = settings().capabilities;
  return all[size_t(device) % all.size()];
}

std::string sim::nameOf(int device) {
  return settings().name.empty() ? "Simulated GPU sm_" + std::to_string(capabilityOf(device))
                                 : settings().name;
}

std::string sim::uuidOf(int device) {
  const Settings &all = mutableSettings();
  std::string result(16, char(0x5a));
  for (size_t i = 0; i < result.size() && i < all.uuid.size(); ++i)
    result[i] = all.uuid[i];
  result[15] = char(device);
  return result;
}

void sim::report(const std::string &text) {
  static auto *mutex = new std::mutex;
  static auto *reported = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  if (!reported->insert(text).second)
    return;
  std::fprintf(stderr, "simulator: %s\n", text.c_str());
  if (!settings().findings.empty())
    appendLine(settings().findings, text);
}

bool sim::tracing() { return !settings().trace.empty(); }

void sim::trace(const std::string &text) {
  if (tracing())
    appendLine(settings().trace,
               std::to_string(getpid()) + " " + std::to_string(syscall(SYS_gettid)) + " " + text);
}

void sim::usage(int device, uint64_t bytes) {
  if (!settings().usage.empty())
    appendLine(settings().usage, std::to_string(device) + " " + std::to_string(bytes));
}
