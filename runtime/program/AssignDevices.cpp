//===- AssignDevices.cpp - Assignment of devices to ranks -----------------===//

#include "program/AssignDevices.h"
#include "program/Error.h"
#include "program/Execution.h"
#include "program/Notes.h"
#include <cstdio>
#include <map>
#include <sstream>

namespace tpc::rt {
namespace {

/// Returns the devices of all ranks.
std::vector<DeviceAssignment> assignmentsOf(const DeviceKind &kind, Session *session, int ranks) {
  std::vector<DeviceAssignment> assignments;
  if (!session) {
    for (int rank = 0; rank < ranks; ++rank)
      assignments.push_back(kind.assignmentOf(rank));
    return assignments;
  }
  DeviceAssignment own = kind.assignmentOf(session->rank());
  for (const std::string &text : session->textsOfAll(own.id + "\n" + own.name))
    assignments.push_back({text.substr(0, text.find('\n')), text.substr(text.find('\n') + 1)});
  return assignments;
}

/// Returns the first two ranks that share a device.
std::optional<std::pair<int, int>> firstShared(const std::vector<DeviceAssignment> &assignments) {
  std::map<std::string, int> owner;
  for (size_t rank = 0; rank < assignments.size(); ++rank)
    if (auto [at, isNew] = owner.emplace(assignments[rank].id, rank); !isNew)
      return std::pair(at->second, static_cast<int>(rank));
  return std::nullopt;
}

/// Returns a note if the devices have different names, or an empty string.
std::string differenceOf(const std::vector<DeviceAssignment> &assignments) {
  for (size_t rank = 1; rank < assignments.size(); ++rank)
    if (assignments[rank].name != assignments[0].name)
      return "devices differ: rank 0 has " + assignments[0].name + ", rank " +
             std::to_string(rank) + " has " + assignments[rank].name +
             "; all ranks wait for the slowest";
  return "";
}

} // namespace

const DeviceKind &assignDevices(const tpc_program &program, Session *session,
                                const Launcher &launcher, const Manifest &manifest, bool share) {
  const DeviceKind *kind = nullptr;
  int ranks = manifest.grid.numRanks();
  auto withRank = [&](const std::string &problem) {
    return session && session->size() > 1
               ? "rank " + std::to_string(session->rank()) + ": " + problem
               : problem;
  };
  agreeOn(session, [&] {
    std::string problem;
    kind = devicesOf(program, problem);
    Placement placement;
    placement.share = share;
    placement.threads = !session;
    placement.onHost = session ? session->ranksOnHost() : ranks;
    if (session)
      placement.first = launcher.local >= 0 ? launcher.local : session->rank();
    if (kind)
      problem = kind->assign(placement);
    if (!problem.empty())
      throw UserError(withRank(problem));
  });
  std::vector<DeviceAssignment> assignments = assignmentsOf(*kind, session, ranks);
  std::optional<std::pair<int, int>> shared = firstShared(assignments);
  agreeOn(session, [&] {
    if (shared && !share)
      throw UserError("ranks " + std::to_string(shared->first) + " and " +
                      std::to_string(shared->second) + " have the same GPU, " +
                      assignments[shared->first].name + " " + assignments[shared->first].id +
                      " (LOCAL_RANK or the launcher selects one of the GPUs in "
                      "CUDA_VISIBLE_DEVICES): start fewer ranks per machine, or let ranks share "
                      "GPUs with --share-gpus");
  });
  for (const std::string &text : {kind->setSharing(shared.has_value()), differenceOf(assignments)})
    if (!text.empty() && ranks > 1 && (!session || session->rank() == 0))
      note(text);
  return *kind;
}

} // namespace tpc::rt
