//===- Check.cpp - Check of a certificate of deadlock freedom -------------===//
//
// For each stage of a pipeline, a certificate lists the communication of its ranks, and a number
// for each communication across stages. It is valid if
//   * every collective is well-formed, and all members of its group have tensors of the same size;
//   * no collective is in a loop that some members of its group may run more often than others;
//   * the k-th send from stage i to j matches the k-th receive of j from i: the same type, in a
//     loop over the same micro-batches, or in events of the same micro-batch ("at");
//   * the numbers (index, iteration * period + time) ascend in each stage, and are equal on both
//     sides of a message.
//
// Then there is no deadlock: the pending communication with the minimum number can proceed, because
// no other communication precedes it on either side.
//
//===----------------------------------------------------------------------===//

#include "Check.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

using namespace certificate;

namespace {

constexpr int64_t maxRanks = int64_t(1) << 20;
constexpr size_t maxCrossings = 100000;
using Axes = std::vector<std::string>;
using AxisSet = std::set<std::string>;
using Sizes = std::map<std::string, int64_t>; // number of ranks (of micro-batches for mb) per axis

const json &get(const json &object, const char *key) {
  if (!object.is_object() || !object.contains(key))
    refuse("'" + std::string(key) + "' is missing in " + object.dump().substr(0, 200));
  return object.at(key);
}

int64_t getNumber(const json &object, const char *key) {
  const json &value = get(object, key);
  if (!value.is_number_integer())
    refuse("'" + std::string(key) + "' is not a number in " + object.dump().substr(0, 200));
  return value.get<int64_t>();
}

Axes getTexts(const json &object, const char *key) {
  Axes texts;
  for (const json &item : get(object, key))
    texts.push_back(item.is_string() ? item.get<std::string>()
                                     : (refuse("not a string: " + item.dump()), ""));
  return texts;
}

/// A communication across stages: a transfer, or a collective over pp.
struct Crossing {
  const json *op;
  int64_t time = 0;
};
/// A loop of a stage, or the code before, between or after loops, if it communicates with other
/// stages.
struct Phase {
  std::string loop; // batch size of the loop, as text; empty outside of loops
  int64_t at = -1;  // micro-batch of an event; -1: all iterations
  std::vector<Crossing> crossings;
  int64_t index = 0;  // position in the order of phases, on all stages
  int64_t period = 1; // time between the beginnings of two iterations
};

class Checker {
public:
  explicit Checker(const json &certificate) : certificate(certificate) {}
  void run();
  const json &schedule() const { return get(certificate, "schedule"); }

private:
  void readGrid();
  void checkItems(const json &items, const AxisSet &axes, bool inStage, bool inLoop, int64_t at);
  void checkCollective(const json &op, const AxisSet &loopAxes);
  AxisSet loopAxes(const json &batch) const;
  AxisSet unevenAxes(const json &dim) const;
  void collect(const json &item, std::vector<Crossing> &out);
  void readPhases();
  void checkMessages();
  void checkGroups();
  int64_t getEvent(const json &loop) const;
  void checkTokens();
  AxisSet groupOf(const json &op) const {
    Axes over = getTexts(op, "over");
    return {over.begin(), over.end()};
  }
  bool isCrossing(const json &op) const {
    std::string kind = get(op, "op");
    return kind != "output" &&
           (kind == "send" || kind == "recv" || (sizes.at("pp") > 1 && groupOf(op).contains("pp")));
  }

  const json &certificate;
  Axes order;
  Sizes sizes;
  AxisSet open;                                   // functions on the call path
  std::set<std::pair<std::string, AxisSet>> done; // checked functions, by the axes of their loop
  std::set<Axes> groups;
  std::vector<std::pair<int64_t, int64_t>> outputs; // with the micro-batch of the event, or -1
  std::vector<std::vector<Phase>> stages;
  std::map<std::string, std::vector<Crossing>> crossingsOf; // by function
};

void Checker::readGrid() {
  const json &grid = get(schedule(), "grid");
  order = getTexts(grid, "order");
  int64_t ranks = 1;
  for (const std::string &axis : order) {
    int64_t size = getNumber(get(grid, "sizes"), axis.c_str());
    if (axis == "mb" || size < 1 || !sizes.emplace(axis, size).second || size > maxRanks / ranks)
      refuse("axis '" + axis + "' is invalid");
    ranks *= size;
  }
  if (get(grid, "sizes").size() != order.size())
    refuse("the grid has sizes of axes that are not in its order");
  sizes.emplace("pp", 1);
  sizes["mb"] = getNumber(grid, "micro_batches");
  if (sizes["mb"] < 1)
    refuse("there are no micro-batches");
}

/// Returns a number that divides a size for all values of its symbols: 768 for "768", 2 for
/// "2*batch", 1 for a sum.
int64_t divisorOf(const std::string &size) {
  size_t digits = std::min(size.find_first_not_of("0123456789"), size.size());
  if (digits == 0 || digits > 17 || size.find_first_of("+-(,") != std::string::npos)
    return 1;
  return digits == size.size() || size[digits] == '*' ? std::stoll(size) : 1;
}

/// Returns the axes on which the size of a rank's shard of a dimension depends: the first axis with
/// an uneven split, and all later ones.
AxisSet Checker::unevenAxes(const json &dim) const {
  AxisSet uneven, all;
  if (dim.is_string())
    return uneven;
  auto split = [&](int64_t &size, const Axes &axes) {
    bool even = true;
    for (const std::string &axis : axes) {
      if (!sizes.contains(axis) || axis == "pp" || !all.insert(axis).second)
        refuse("'" + axis + "' cannot split " + dim.dump());
      even = even && size % sizes.at(axis) == 0;
      if (even)
        size /= sizes.at(axis);
      else if (axis != "mb" && sizes.at(axis) > 1) // all ranks are at the same micro-batch
        uneven.insert(axis);
    }
    return even;
  };
  int64_t product = 1;
  for (const json &factor : get(dim, "factors")) {
    if (!get(factor, "size").is_string() || factor.size() != 2)
      refuse("not a factor: " + factor.dump());
    int64_t size = divisorOf(factor["size"].get<std::string>());
    bool even = split(size, getTexts(factor, "axes"));
    if (__builtin_mul_overflow(product, even ? size : 1, &product))
      product = 1;
  }
  bool even = uneven.empty();
  Axes outer = getTexts(dim, "axes");
  split(product, outer);
  // Further splits of an uneven product are uneven.
  for (const std::string &axis : outer)
    if (!even && axis != "mb" && sizes.at(axis) > 1)
      uneven.insert(axis);
  if (dim.size() != 2)
    refuse("not a dimension: " + dim.dump());
  return uneven;
}

/// Returns the axes on which the number of iterations depends: none if the size of the batch is
/// known, and every rank has at least one sample in each micro-batch.
AxisSet Checker::loopAxes(const json &batch) const {
  AxisSet uneven = unevenAxes(batch);
  if (uneven.empty() || batch["factors"].size() != 1 || !batch["axes"].empty())
    return uneven;
  const json &factor = batch["factors"][0];
  std::string size = factor["size"];
  if (size.size() > 17 || size.find_first_not_of("0123456789") != std::string::npos)
    return uneven;
  int64_t parts = 1;
  for (const std::string &axis : getTexts(factor, "axes"))
    if (__builtin_mul_overflow(parts, sizes.at(axis), &parts))
      return uneven;
  return std::stoll(size) >= parts ? AxisSet() : uneven;
}

void Checker::checkCollective(const json &op, const AxisSet &loop) {
  std::string kind = get(op, "op"), text = op.dump();
  Axes over = getTexts(op, "over");
  AxisSet group = groupOf(op);
  if (over.empty() || group.size() != over.size())
    refuse("a group must have distinct axes: " + text);
  int64_t members = 1;
  for (const std::string &axis : over) {
    if (std::find(order.begin(), order.end(), axis) == order.end())
      refuse("'" + axis + "' is not an axis of ranks: " + text);
    members *= sizes.at(axis);
    if (loop.contains(axis))
      refuse("ranks that differ on '" + axis +
             "' may have different numbers of iterations: " + text);
  }
  groups.insert(over);
  bool isRouted = kind == "dispatch" || kind == "combine"; // tokens, to the ranks of their experts
  AxisSet keys = {"op", "over", "type", "dims", isRouted ? "experts" : "op", "column"};
  const json &dims = get(op, "dims");
  auto needDim = [&](const char *key) {
    if (int64_t dim = getNumber(op, key); dim < 0 || dim >= static_cast<int64_t>(dims.size()))
      refuse("'" + std::string(key) + "' is not a dimension: " + text);
    keys.insert(key);
  };
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "collective_permute") {
    needDim("dim");
    if (kind == "collective_permute")
      keys.merge(AxisSet{"before", "after", "from", "every"});
  } else if (kind == "all_to_all") {
    needDim("from_dim"), needDim("to_dim");
  } else if (kind == "exchange") {
    for (const char *key : {"before", "after"}) {
      if (get(op, key).size() != dims.size())
        refuse("an exchange must not change the number of dimensions: " + text);
      keys.insert(key);
    }
  } else if (kind == "broadcast") {
    if (int64_t root = getNumber(op, "root"); root < 0 || root >= members)
      refuse("the root is no member: " + text);
    keys.insert("root");
  } else if (kind == "all_reduce_start") {
    if (keys.merge(AxisSet{"chunks", "grain"});
        getNumber(op, "chunks") * getNumber(op, "grain") < 1)
      refuse("a chunk has no rows: " + text);
  } else if (kind != "all_reduce" && (!isRouted || get(op, "experts").is_string())) {
    refuse("unknown collective '" + kind + "'");
  }
  if (kind.starts_with("all_reduce") || kind == "reduce_scatter" || kind == "combine") {
    if (!AxisSet{"sum", "max", "min"}.contains(get(op, "reduction")))
      refuse("unknown reduction '" + std::string(get(op, "reduction")) + "'");
    keys.insert("reduction");
  }
  for (const auto &[key, value] : op.items())
    if (!keys.contains(key) || (key == "column" && kind != "dispatch"))
      refuse("'" + key + "' is not a field of " + text);
  if (!get(op, "type").is_string() || !dims.is_array())
    refuse("a type is missing: " + text);
  for (const json &dim : dims)
    for (const std::string &axis : unevenAxes(dim))
      if (group.contains(axis))
        refuse("members of the group do not have the same size: " + text);
}

/// Returns the micro-batch of a loop that is one event of a schedule; -1 for all iterations.
int64_t Checker::getEvent(const json &loop) const {
  if (!loop.contains("at"))
    return -1;
  int64_t at = getNumber(loop, "at");
  if (at < 0 || at >= sizes.at("mb"))
    refuse("there is no micro-batch " + std::to_string(at));
  return at;
}

void Checker::checkItems(const json &items, const AxisSet &loop, bool inStage, bool inLoop,
                         int64_t at) {
  if (!items.is_array())
    refuse("not a list of communication");
  for (const json &item : items) {
    if (item.contains("call")) {
      std::string name = get(item, "call");
      if (getNumber(item, "times") < 1 || item.size() != 2)
        refuse("invalid call of '" + name + "'");
      if (open.contains(name) || open.size() > 100)
        refuse("'" + name + "' is recursive, or nested too deeply");
      if (!done.insert({name, loop}).second)
        continue;
      open.insert(name);
      checkItems(get(get(schedule(), "functions"), name.c_str()), loop, false, inLoop, -1);
      open.erase(name);
    } else if (item.contains("loop")) {
      if (!inStage || inLoop || item.size() != (item.contains("at") ? 3u : 2u))
        refuse("a loop is not allowed here");
      const json &batch = get(item, "loop");
      checkItems(get(item, "body"), batch.is_null() ? AxisSet() : loopAxes(batch), true, true,
                 getEvent(item));
    } else if (item.contains("then")) {
      refuse("a certificate cannot prove that ranks take the same branch");
    } else if (get(item, "op") == "output") {
      outputs.emplace_back(getNumber(item, "index"), at);
    } else if (get(item, "op") == "send" || get(item, "op") == "recv") {
      bool sends = get(item, "op") == "send";
      if (!inStage || item.size() != 4 || !get(item, "type").is_string())
        refuse("not a transfer: " + item.dump());
      getNumber(item, sends ? "to" : "from");
      for (const json &dim : get(item, "dims"))
        unevenAxes(dim);
    } else {
      checkCollective(item, loop);
    }
  }
}

void Checker::collect(const json &item, std::vector<Crossing> &out) {
  if (!item.contains("call")) {
    if (isCrossing(item))
      out.push_back({&item});
    return;
  }
  std::string name = item["call"];
  if (!crossingsOf.contains(name)) {
    std::vector<Crossing> once;
    for (const json &inner : get(get(schedule(), "functions"), name.c_str()))
      collect(inner, once);
    crossingsOf[name] = once;
  }
  const std::vector<Crossing> &once = crossingsOf[name];
  int64_t times = once.empty() ? 0 : item["times"].get<int64_t>();
  for (int64_t i = 0; i < times; ++i) {
    out.insert(out.end(), once.begin(), once.end());
    if (out.size() > maxCrossings)
      refuse("stages communicate more than " + std::to_string(maxCrossings) + " times");
  }
}

void Checker::readPhases() {
  const json &progress = get(certificate, "progress");
  const json &list = get(schedule(), "stages");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != sizes.at("pp") ||
      progress.size() != list.size())
    refuse("schedule and proof must have one list for each stage");
  for (size_t s = 0; s < list.size(); ++s) {
    std::vector<Phase> &phases = stages.emplace_back();
    checkItems(list[s], {}, true, false, -1);
    bool inStraightCode = false; // whether the last item belongs to no loop
    for (const json &item : list[s]) {
      bool isLoop = item.contains("loop");
      if (isLoop || !inStraightCode)
        phases.push_back(
            {isLoop ? "of " + item["loop"].dump() : "", isLoop ? getEvent(item) : -1, {}});
      inStraightCode = !isLoop;
      if (isLoop)
        for (const json &inner : item["body"])
          collect(inner, phases.back().crossings);
      else
        collect(item, phases.back().crossings);
    }
    std::erase_if(phases, [](const Phase &phase) { return phase.crossings.empty(); });
    if (progress[s].size() != phases.size())
      refuse("stage " + std::to_string(s) + ": the proof has " +
             std::to_string(progress[s].size()) + " phases, but " + std::to_string(phases.size()) +
             " loops, or parts between loops, communicate with other stages");
    for (size_t p = 0; p < phases.size(); ++p) {
      Phase &phase = phases[p];
      phase.index = getNumber(progress[s][p], "place");
      phase.period = getNumber(progress[s][p], "period");
      const json &times = get(progress[s][p], "times");
      if (times.size() != phase.crossings.size() || (p > 0 && phases[p - 1].index >= phase.index))
        refuse("stage " + std::to_string(s) +
               ": the proof must have ascending positions, and a time for each communication");
      for (size_t i = 0; i < times.size(); ++i) {
        if (!times[i].is_number_integer())
          refuse("a time is not a number");
        phase.crossings[i].time = times[i].get<int64_t>();
        if (i > 0 && phase.crossings[i - 1].time >= phase.crossings[i].time)
          refuse("stage " + std::to_string(s) + ": times do not ascend");
      }
      int64_t first = phase.crossings.front().time, last = phase.crossings.back().time;
      if (first < 0 || last > int64_t(maxCrossings) * sizes.at("pp") ||
          last - first >= phase.period || phase.period > int64_t(1) << 40)
        refuse("stage " + std::to_string(s) + ": iterations of a loop overlap in time");
    }
  }
}

void Checker::checkMessages() {
  // Communication of a channel by side: sender and receiver, or all stages of a group.
  struct Side {
    const Phase *phase;
    const Crossing *crossing;
  };
  std::map<std::pair<int64_t, int64_t>, std::pair<std::vector<Side>, std::vector<Side>>> channels;
  std::map<AxisSet, std::map<int64_t, std::vector<Side>>> spanning;
  int64_t count = static_cast<int64_t>(stages.size());
  for (int64_t s = 0; s < count; ++s)
    for (const Phase &phase : stages[s])
      for (const Crossing &crossing : phase.crossings) {
        std::string kind = get(*crossing.op, "op");
        if (kind != "send" && kind != "recv") {
          spanning[groupOf(*crossing.op)][s].push_back({&phase, &crossing});
          continue;
        }
        int64_t peer = getNumber(*crossing.op, kind == "send" ? "to" : "from");
        if (peer < 0 || peer >= count || peer == s)
          refuse("stage " + std::to_string(peer) + " is not another stage");
        if (kind == "send")
          channels[{s, peer}].first.push_back({&phase, &crossing});
        else
          channels[{peer, s}].second.push_back({&phase, &crossing});
      }
  auto compare = [](const std::vector<Side> &a, const std::vector<Side> &b,
                    const std::string &where, bool areMessages) {
    if (a.size() != b.size())
      refuse(where + ": one side has " + std::to_string(a.size()) + ", the other " +
             std::to_string(b.size()));
    for (size_t i = 0; i < a.size(); ++i) {
      const json &x = *a[i].crossing->op, &y = *b[i].crossing->op;
      bool same = areMessages ? get(x, "type") == get(y, "type") && get(x, "dims") == get(y, "dims")
                              : x == y;
      if (!same)
        refuse(where + ": sides differ: " + x.dump() + " and " + y.dump());
      if (a[i].phase->loop != b[i].phase->loop || a[i].phase->at != b[i].phase->at)
        refuse(where + ": sides are in different loops");
      if (a[i].phase->index != b[i].phase->index || a[i].phase->period != b[i].phase->period ||
          a[i].crossing->time != b[i].crossing->time)
        refuse(where + ": sides have different numbers");
    }
  };
  for (const auto &[key, sides] : channels)
    compare(sides.first, sides.second,
            "from stage " + std::to_string(key.first) + " to " + std::to_string(key.second), true);
  for (auto &[group, sides] : spanning)
    for (int64_t s = 1; s < count; ++s)
      compare(sides[0], sides[s], "stages 0 and " + std::to_string(s), false);
}

void Checker::checkGroups() {
  std::set<Axes> listed;
  for (const json &group : get(certificate, "groups")) {
    Axes over = getTexts(group, "over");
    std::vector<int64_t> members = {0};
    int64_t stride = 1;
    for (const std::string &axis : order) {
      std::vector<int64_t> extended;
      if (std::find(over.begin(), over.end(), axis) != over.end()) {
        for (int64_t c = 0; c < sizes.at(axis); ++c)
          for (int64_t member : members)
            extended.push_back(member + c * stride);
        members = extended;
      }
      stride *= sizes.at(axis);
    }
    if (get(group, "members") != json(members) ||
        getNumber(group, "groups") != stride / static_cast<int64_t>(members.size()) ||
        !listed.insert(over).second || group.size() != 3)
      refuse("a group is not one of the grid's: " + group.dump().substr(0, 200));
  }
  if (listed != groups)
    refuse("the listed groups are not those of the collectives");
}

/// For programs that generate: the last stage posts tokens to all others without waiting. All ranks
/// run the same loop. An iteration runs a step and posts its tokens, or receives the tokens of an
/// earlier step. Each communication has a pair of numbers: the iterations between its step and the
/// communication, and its position in the iteration.
void Checker::checkTokens() {
  if (certificate.contains("tokens") != schedule().contains("tokens"))
    refuse("only one of schedule and proof has tokens");
  if (!schedule().contains("tokens"))
    return;
  const json &tokens = schedule()["tokens"], &proof = certificate["tokens"];
  int64_t last = sizes.at("pp") - 1;
  json earlier = json::array();
  for (int64_t stage = 0; stage < last; ++stage)
    earlier.push_back(stage);
  if (last < 1 || getNumber(tokens, "from") != last || get(tokens, "to") != earlier ||
      tokens.size() != 3)
    refuse("tokens are not sent from the last stage to all others");
  if (int64_t inFlight = getNumber(tokens, "in_flight"); inFlight < 1 || inFlight > last + 1)
    refuse("the number of steps in flight exceeds the number of stages, or is 0");
  if (get(proof, "step") != json({0, 0}) || get(proof, "post") != json({0, 1}) ||
      get(proof, "take") != json({1, 0}) || proof.size() != 3)
    refuse("tokens are received before they are posted");
}

void Checker::run() {
  if (getNumber(certificate, "format") != 1 ||
      certificate.size() != (certificate.contains("tokens") ? 6u : 5u))
    refuse("not a certificate of format 1");
  readGrid();
  for (const auto &[name, items] : get(schedule(), "functions").items())
    checkItems(items, {}, false, false, -1);
  done.clear();
  outputs.clear();
  readPhases();
  checkMessages();
  checkGroups();
  checkTokens();
  if (std::set(outputs.begin(), outputs.end()).size() != outputs.size())
    refuse("an output is not delivered exactly once");
  if (get(certificate, "hash") != hashOf(schedule().dump()))
    refuse("the hash is not that of the schedule");
}
} // namespace

void certificate::refuse(const std::string &why) { throw std::runtime_error(why); }

void certificate::checkCertificate(const json &certificate) { Checker(certificate).run(); }
