//===- Certificate.cpp - Certificate of deadlock freedom ------------------===//

#include "tpc/Verify/Certificate.h"
#include "VerifyComms.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;
namespace json = llvm::json;

static json::Array toArray(ArrayRef<int64_t> numbers) {
  json::Array array;
  for (int64_t number : numbers)
    array.push_back(number);
  return array;
}

static void collectGroups(const Schedule::Items &items,
                          std::set<std::vector<std::string>> &groups) {
  for (const Item &item : items) {
    if (item.kind == Item::Kind::Comm && isCollective(item.op)) {
      std::vector<std::string> axes;
      for (auto axis : getGroupAxes(item.op).getAsRange<StringAttr>())
        axes.push_back(axis.getValue().str());
      groups.insert(axes);
    }
    collectGroups(item.body, groups);
    collectGroups(item.other, groups);
  }
}

/// For each set of axes of a collective: the number of groups, and the members of the group of rank
/// 0. The other groups are the same with an offset.
static json::Array describeGroups(const Schedule &schedule) {
  std::set<std::vector<std::string>> groups;
  for (const auto &[function, items] : schedule.getFunctions())
    collectGroups(items, groups);
  for (const auto &[stage, items] : schedule.getStages())
    collectGroups(items, groups);
  MeshAttr grid = schedule.getGrid();
  json::Array list;
  for (const std::vector<std::string> &axes : groups) {
    SmallVector<int64_t> members{0};
    int64_t stride = 1;
    for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
      if (llvm::is_contained(axes, axis.getValue())) {
        SmallVector<int64_t> extended;
        for (int64_t c = 0; c < size; ++c)
          for (int64_t member : members)
            extended.push_back(member + c * stride);
        members = extended;
      }
      stride *= size;
    }
    json::Array names;
    for (const std::string &axis : axes)
      names.push_back(axis);
    list.push_back(json::Object{{"over", std::move(names)},
                                {"groups", stride / int64_t(members.size())},
                                {"members", toArray(members)}});
  }
  return list;
}

json::Object comms::makeCertificateJSON(const Schedule &schedule, const Crossings &crossings) {
  json::Array progress;
  for (const std::vector<Phase> &stage : crossings.stages) {
    json::Array phases;
    for (const Phase &phase : stage) {
      SmallVector<int64_t> times;
      for (const Crossing &crossing : phase.crossings)
        times.push_back(crossing.time);
      phases.push_back(json::Object{
          {"place", phase.position}, {"period", phase.period}, {"times", toArray(times)}});
    }
    progress.push_back(std::move(phases));
  }
  json::Object proof{{"format", 1},
                     {"schedule", schedule.toJSON()},
                     {"hash", schedule.getHash()},
                     {"groups", describeGroups(schedule)},
                     {"progress", std::move(progress)}};
  // All ranks run one loop, whose iterations either run a step and post its tokens, or receive the
  // tokens that an earlier iteration posted.
  if (schedule.getNumStepsInFlight())
    proof["tokens"] = json::Object{
        {"step", json::Array{0, 0}}, {"post", json::Array{0, 1}}, {"take", json::Array{1, 0}}};
  return proof;
}
