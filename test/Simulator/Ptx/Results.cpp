//===- Results.cpp - Findings and counters as text ------------------------===//

#include "Machine.h"
#include "Text.h"

#include <algorithm>
#include <tuple>

using namespace ptx;

std::string_view ptx::nameOf(Check check) {
  switch (check) {
  case Check::Launch:
    return "launch";
  case Check::Memory:
    return "memory";
  case Check::Initialization:
    return "initialization";
  case Check::Race:
    return "race";
  case Check::Synchronization:
    return "synchronization";
  case Check::Trap:
    return "trap";
  case Check::Limit:
    return "limit";
  }
  return "";
}

std::string_view ptx::nameOf(Class cls) {
  static constexpr std::string_view names[] = {
      "move",    "integer", "float",  "matrix", "approximate", "convert", "compare",  "control",
      "barrier", "shuffle", "atomic", "global", "shared",      "local",   "parameter"};
  static_assert(std::size(names) == size_t(Class::NumClasses));
  return names[size_t(cls)];
}

std::string Finding::str() const {
  std::string result = ptx::text("{}: {}", nameOf(check), kernel);
  if (line)
    result += ptx::text(": line {}: {}: block ({},{},{}) thread ({},{},{})", line, this->text,
                        block.x, block.y, block.z, thread.x, thread.y, thread.z);
  result += ": " + message;
  if (count > 1)
    result += ptx::text(" ({} times)", count);
  return result;
}

std::string Result::str() const {
  std::string result;
  for (const Finding &finding : findings)
    result += finding.str() + "\n";
  if (!completed)
    result += "the launch did not complete\n";
  return result;
}

Traffic &Traffic::operator+=(const Traffic &other) {
  readRequests += other.readRequests;
  writeRequests += other.writeRequests;
  readSectors += other.readSectors;
  writtenSectors += other.writtenSectors;
  readBytes += other.readBytes;
  writtenBytes += other.writtenBytes;
  distinctReadBytes += other.distinctReadBytes;
  distinctWrittenBytes += other.distinctWrittenBytes;
  return *this;
}

uint64_t Counters::total() const {
  uint64_t sum = 0;
  for (uint64_t count : instructions)
    sum += count;
  return sum;
}

Counters &Counters::operator+=(const Counters &other) {
  for (size_t i = 0; i < instructions.size(); ++i)
    instructions[i] += other.instructions[i];
  laneInstructions += other.laneInstructions;
  global += other.global;
  for (const auto &[name, traffic] : other.allocations)
    allocations[name] += traffic;
  sharedRequests += other.sharedRequests;
  sharedCycles += other.sharedCycles;
  sharedConflicts += other.sharedConflicts;
  barriers += other.barriers;
  divergentBranches += other.divergentBranches;
  return *this;
}

static std::string describe(const Traffic &traffic) {
  std::string result;
  if (traffic.readRequests)
    result += text(" reads {} sectors for {} bytes ({} distinct)", traffic.readSectors,
                   traffic.readBytes, traffic.distinctReadBytes);
  if (traffic.writeRequests)
    result += text("{} writes {} sectors for {} bytes ({} distinct)", result.empty() ? "" : ",",
                   traffic.writtenSectors, traffic.writtenBytes, traffic.distinctWrittenBytes);
  return result.empty() ? " nothing" : result;
}

std::string Counters::str() const {
  std::string result =
      text("instructions of warps: {} ({} of threads)\n", total(), laneInstructions);
  for (size_t i = 0; i < instructions.size(); ++i)
    if (instructions[i])
      result += text("  {}: {}\n", nameOf(Class(i)), instructions[i]);
  result += text("global memory:{}\n", describe(global));
  for (const auto &[name, traffic] : allocations)
    result += text("  {}:{}\n", name, describe(traffic));
  result += text("shared memory: {} requests, {} cycles, {} of them by bank conflicts\n",
                 sharedRequests, sharedCycles, sharedConflicts);
  result += text("barriers: {}; divergent branches: {}\n", barriers, divergentBranches);
  return result;
}

void Machine::collect() {
  for (const auto &[allocation, counted] : traffic) {
    result.counters.allocations[allocation->name] += counted;
    result.counters.global += counted;
  }
  std::vector<EarlyAccess> merged;
  std::sort(result.early.begin(), result.early.end(),
            [](const EarlyAccess &a, const EarlyAccess &b) {
              return std::tie(a.written, a.from) < std::tie(b.written, b.from);
            });
  for (const EarlyAccess &one : result.early)
    if (!merged.empty() && merged.back().written == one.written && one.from <= merged.back().to)
      merged.back().to = std::max(merged.back().to, one.to);
    else
      merged.push_back(one);
  result.early = std::move(merged);
}

const Kernel *Program::find(std::string_view name) const {
  for (const auto &kernel : kernels)
    if (kernel->info.name == name)
      return kernel.get();
  return nullptr;
}

std::vector<KernelInfo> Module::kernels() const {
  std::vector<KernelInfo> infos;
  for (const auto &kernel : program->kernels)
    infos.push_back(kernel->info);
  return infos;
}
std::string Module::target() const { return program->target; }
std::string Module::version() const { return program->version; }
