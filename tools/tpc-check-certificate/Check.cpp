//===- Check.cpp - Checks why a program cannot deadlock --------------------===//
//
//     tpc-check-certificate FILE [EXECUTABLE | staged.mlir]
//
// A certificate says, for each stage of a pipeline, which communication its ranks take part in, and
// for what crosses stages a number. It is right if
//
//   * every collective moves what its sizes say, and these are the same for all members of a group;
//   * no collective stands in a loop that some members of its group may run more often than others;
//   * the k-th message from stage i to j is the k-th that j expects from i, of the same type, in a
//     loop over the same micro-batches;
//   * (place, turn * period + time) ascends in each stage; both sides of a message have the same.
//
// Then take the communication with the least number that has not happened: none of its sides has
// anything to do before it. The second file must be the program that the certificate is about.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

using json = nlohmann::json;

namespace {

constexpr int64_t maxRanks = int64_t(1) << 20;
constexpr size_t maxCrossings = 100000;
using Axes = std::vector<std::string>;
using AxisSet = std::set<std::string>;
using Sizes = std::map<std::string, int64_t>; // of axes; of the axis in time, mb, as well

[[noreturn]] void refuse(const std::string &why) { throw std::runtime_error(why); }

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
                                     : (refuse("no text: " + item.dump()), ""));
  return texts;
}

/// A transfer, or a collective over pp: what has other stages on its other sides.
struct Crossing {
  const json *op;
  int64_t time = 0;
};
struct Phase {
  std::string loop; // the text of its batch; empty: once
  std::vector<Crossing> crossings;
  int64_t place = 0, period = 1;
};

class Checker {
public:
  explicit Checker(const json &certificate) : certificate(certificate) {}
  void run();
  const json &schedule() const { return get(certificate, "schedule"); }

private:
  void readGrid();
  void checkItems(const json &items, const AxisSet &loopAxes, bool inStage, bool inLoop);
  void checkCollective(const json &op, const AxisSet &loopAxes);
  AxisSet loopAxes(const json &batch) const;
  AxisSet unevenAxes(const json &dim) const;
  void collect(const json &item, std::vector<Crossing> &out);
  void readPhases();
  void checkMessages();
  void checkGroups();
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
  AxisSet open;                                   // functions on the way down
  std::set<std::pair<std::string, AxisSet>> done; // functions, in loops of some axes
  std::set<Axes> groups;
  std::vector<int64_t> outputs;
  std::vector<std::vector<Phase>> stages;
  std::map<std::string, std::vector<Crossing>> crossingsOf; // functions
};

void Checker::readGrid() {
  const json &grid = get(schedule(), "grid");
  order = getTexts(grid, "order");
  int64_t ranks = 1;
  for (const std::string &axis : order) {
    int64_t size = getNumber(get(grid, "sizes"), axis.c_str());
    if (axis == "mb" || size < 1 || !sizes.emplace(axis, size).second || size > maxRanks / ranks)
      refuse("axis '" + axis + "' cannot be");
    ranks *= size;
  }
  if (get(grid, "sizes").size() != order.size())
    refuse("the grid has sizes of axes that are not in its order");
  sizes.emplace("pp", 1);
  sizes["mb"] = getNumber(grid, "micro_batches");
  if (sizes["mb"] < 1)
    refuse("there are no micro-batches");
}

/// A number that divides a size whatever its symbols are: of "768", and of "2*batch". Of a sum
/// nothing is known.
int64_t divisorOf(const std::string &size) {
  size_t digits = std::min(size.find_first_not_of("0123456789"), size.size());
  if (digits == 0 || digits > 17 || size.find_first_of("+-(,") != std::string::npos)
    return 1;
  return digits == size.size() || size[digits] == '*' ? std::stoll(size) : 1;
}

/// Axes on which a rank's part of a dimension depends: from the first on that does not split
/// evenly.
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
      refuse("a factor is none: " + factor.dump());
    int64_t size = divisorOf(factor["size"].get<std::string>());
    bool even = split(size, getTexts(factor, "axes"));
    if (__builtin_mul_overflow(product, even ? size : 1, &product))
      product = 1;
  }
  bool even = uneven.empty();
  Axes outer = getTexts(dim, "axes");
  split(product, outer);
  // What is left of an uneven product is uneven.
  for (const std::string &axis : outer)
    if (!even && axis != "mb" && sizes.at(axis) > 1)
      uneven.insert(axis);
  if (dim.size() != 2)
    refuse("a dimension is none: " + dim.dump());
  return uneven;
}

/// Axes on which the number of turns depends. With samples for everybody, all have equally many.
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
    refuse("a group needs axes, each once: " + text);
  int64_t members = 1;
  for (const std::string &axis : over) {
    if (std::find(order.begin(), order.end(), axis) == order.end())
      refuse("'" + axis + "' is no axis of ranks: " + text);
    members *= sizes.at(axis);
    if (loop.contains(axis))
      refuse("ranks that differ on '" + axis + "' may not come equally often: " + text);
  }
  groups.insert(over);

  AxisSet keys = {"op", "over", "type", "dims"};
  const json &dims = get(op, "dims");
  auto needDim = [&](const char *key) {
    if (int64_t dim = getNumber(op, key); dim < 0 || dim >= static_cast<int64_t>(dims.size()))
      refuse("there is no such dimension: " + text);
    keys.insert(key);
  };
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "collective_permute") {
    needDim("dim");
    if (kind == "collective_permute")
      keys.merge(AxisSet{"before", "after", "from", "every"});
  } else if (kind == "all_to_all") {
    needDim("from_dim");
    needDim("to_dim");
  } else if (kind == "exchange") {
    for (const char *key : {"before", "after"}) {
      if (get(op, key).size() != dims.size())
        refuse("it makes another number of dimensions: " + text);
      keys.insert(key);
    }
  } else if (kind == "broadcast") {
    if (int64_t root = getNumber(op, "root"); root < 0 || root >= members)
      refuse("the root is no member: " + text);
    keys.insert("root");
  } else if (kind != "all_reduce") {
    refuse("nobody knows how to '" + kind + "'");
  }
  if (kind == "all_reduce" || kind == "reduce_scatter") {
    std::string reduction = get(op, "reduction");
    if (reduction != "sum" && reduction != "max" && reduction != "min")
      refuse("nobody knows how to reduce by '" + reduction + "'");
    keys.insert("reduction");
  }
  for (const auto &[key, value] : op.items())
    if (!keys.contains(key))
      refuse("'" + key + "' does not belong into " + text);
  if (!get(op, "type").is_string() || !dims.is_array())
    refuse("a type is missing: " + text);
  for (const json &dim : dims)
    for (const std::string &axis : unevenAxes(dim))
      if (group.contains(axis))
        refuse("members of the group do not have the same size: " + text);
}

void Checker::checkItems(const json &items, const AxisSet &loop, bool inStage, bool inLoop) {
  if (!items.is_array())
    refuse("a list of communication is none");
  for (const json &item : items) {
    if (item.contains("call")) {
      std::string name = get(item, "call");
      if (getNumber(item, "times") < 1 || item.size() != 2)
        refuse("a call of '" + name + "' is not one");
      if (open.contains(name) || open.size() > 100)
        refuse("'" + name + "' calls itself, or too deep");
      if (!done.insert({name, loop}).second)
        continue;
      open.insert(name);
      checkItems(get(get(schedule(), "functions"), name.c_str()), loop, false, inLoop);
      open.erase(name);
    } else if (item.contains("loop")) {
      if (!inStage || inLoop || item.size() != 2)
        refuse("a loop stands where none may be");
      const json &batch = get(item, "loop");
      checkItems(get(item, "body"), batch.is_null() ? AxisSet() : loopAxes(batch), true, true);
    } else if (item.contains("then")) {
      refuse("whether ranks take the same branch cannot be told from a certificate");
    } else if (get(item, "op") == "output") {
      outputs.push_back(getNumber(item, "index"));
    } else if (get(item, "op") == "send" || get(item, "op") == "recv") {
      bool sends = get(item, "op") == "send";
      if (!inStage || item.size() != 4 || !get(item, "type").is_string())
        refuse("a transfer is none: " + item.dump());
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
    refuse("there is not one list for each stage");
  for (size_t s = 0; s < list.size(); ++s) {
    std::vector<Phase> &phases = stages.emplace_back();
    checkItems(list[s], {}, true, false);
    bool straight = false;
    for (const json &item : list[s]) {
      bool isLoop = item.contains("loop");
      if (isLoop || !straight)
        phases.push_back({isLoop ? "of " + item["loop"].dump() : "", {}});
      straight = !isLoop;
      if (isLoop)
        for (const json &inner : item["body"])
          collect(inner, phases.back().crossings);
      else
        collect(item, phases.back().crossings);
    }
    std::erase_if(phases, [](const Phase &phase) { return phase.crossings.empty(); });
    if (progress[s].size() != phases.size())
      refuse("stage " + std::to_string(s) + " has another number of phases than its proof");
    for (size_t p = 0; p < phases.size(); ++p) {
      Phase &phase = phases[p];
      phase.place = getNumber(progress[s][p], "place");
      phase.period = getNumber(progress[s][p], "period");
      const json &times = get(progress[s][p], "times");
      if (times.size() != phase.crossings.size() || (p > 0 && phases[p - 1].place >= phase.place))
        refuse("stage " + std::to_string(s) + ": the proof does not fit, or goes backwards");
      for (size_t i = 0; i < times.size(); ++i) {
        if (!times[i].is_number_integer())
          refuse("a time is no number");
        phase.crossings[i].time = times[i].get<int64_t>();
        if (i > 0 && phase.crossings[i - 1].time >= phase.crossings[i].time)
          refuse("stage " + std::to_string(s) + ": time goes backwards");
      }
      int64_t first = phase.crossings.front().time, last = phase.crossings.back().time;
      if (first < 0 || last > int64_t(maxCrossings) * sizes.at("pp") ||
          last - first >= phase.period || phase.period > int64_t(1) << 40)
        refuse("stage " + std::to_string(s) + ": turns of a loop overlap in time");
    }
  }
}

void Checker::checkMessages() {
  // Sides of a channel: from stage to stage, or all that are in one group.
  struct Place {
    const Phase *phase;
    const Crossing *crossing;
  };
  std::map<std::pair<int64_t, int64_t>, std::pair<std::vector<Place>, std::vector<Place>>> channels;
  std::map<AxisSet, std::map<int64_t, std::vector<Place>>> spanning;
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
          refuse("stage " + std::to_string(peer) + " is no other stage");
        if (kind == "send")
          channels[{s, peer}].first.push_back({&phase, &crossing});
        else
          channels[{peer, s}].second.push_back({&phase, &crossing});
      }
  auto compare = [](const std::vector<Place> &a, const std::vector<Place> &b,
                    const std::string &who, bool messages) {
    if (a.size() != b.size())
      refuse(who + ": one side has " + std::to_string(a.size()) + ", the other " +
             std::to_string(b.size()));
    for (size_t i = 0; i < a.size(); ++i) {
      const json &x = *a[i].crossing->op, &y = *b[i].crossing->op;
      bool same =
          messages ? get(x, "type") == get(y, "type") && get(x, "dims") == get(y, "dims") : x == y;
      if (!same)
        refuse(who + ": sides differ: " + x.dump() + " and " + y.dump());
      if (a[i].phase->loop != b[i].phase->loop)
        refuse(who + ": sides are not repeated alike");
      if (a[i].phase->place != b[i].phase->place || a[i].phase->period != b[i].phase->period ||
          a[i].crossing->time != b[i].crossing->time)
        refuse(who + ": sides have different numbers");
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
      std::vector<int64_t> more;
      if (std::find(over.begin(), over.end(), axis) != over.end()) {
        for (int64_t c = 0; c < sizes.at(axis); ++c)
          for (int64_t member : members)
            more.push_back(member + c * stride);
        members = more;
      }
      stride *= sizes.at(axis);
    }
    if (get(group, "members") != json(members) ||
        getNumber(group, "groups") != stride / static_cast<int64_t>(members.size()) ||
        !listed.insert(over).second || group.size() != 3)
      refuse("a group is not one of the grid's: " + group.dump().substr(0, 200));
  }
  if (listed != groups)
    refuse("the groups are not those that are used");
}

/// 16 hexadecimal digits: FNV-1a, spread.
std::string hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3u;
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  hash ^= hash >> 33;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

/// Of programs that generate: the last stage posts tokens to all others, and waits for nobody with
/// that. All ranks run the same loop. A turn of it runs a step and posts its tokens, or takes those
/// of a step before; numbers are (turns after the step's, place in the turn).
void Checker::checkTokens() {
  if (certificate.contains("tokens") != schedule().contains("tokens"))
    refuse("tokens that go back are in the schedule or the proof alone");
  if (!schedule().contains("tokens"))
    return;
  const json &tokens = schedule()["tokens"], &proof = certificate["tokens"];
  int64_t last = sizes.at("pp") - 1;
  json earlier = json::array();
  for (int64_t stage = 0; stage < last; ++stage)
    earlier.push_back(stage);
  if (last < 1 || getNumber(tokens, "from") != last || get(tokens, "to") != earlier ||
      tokens.size() != 3)
    refuse("tokens do not go from the last stage to each other one");
  if (int64_t most = getNumber(tokens, "in_flight"); most < 1 || most > last + 1)
    refuse("more steps are under way than there are stages, or none");
  if (get(proof, "step") != json({0, 0}) || get(proof, "post") != json({0, 1}) ||
      get(proof, "take") != json({1, 0}) || proof.size() != 3)
    refuse("tokens are not taken after they are posted");
}

void Checker::run() {
  if (getNumber(certificate, "format") != 1 ||
      certificate.size() != (certificate.contains("tokens") ? 6u : 5u))
    refuse("this is no certificate of format 1");
  readGrid();
  for (const auto &[name, items] : get(schedule(), "functions").items())
    checkItems(items, {}, false, false);
  done.clear();
  outputs.clear();
  readPhases();
  checkMessages();
  checkGroups();
  checkTokens();
  if (std::set<int64_t>(outputs.begin(), outputs.end()).size() != outputs.size())
    refuse("outputs are not delivered once each");
  if (get(certificate, "hash") != hashOf(schedule().dump()))
    refuse("the hash is not that of the schedule");
}

/// Of a file; not of a device or a pipe, which may have no end.
std::string readFile(const std::string &path) {
  constexpr size_t maxBytes = size_t(1) << 30;
  std::error_code error;
  if (std::filesystem::file_type type = std::filesystem::status(path, error).type();
      type != std::filesystem::file_type::regular)
    refuse("cannot read '" + path + "': " +
           (error                                           ? error.message()
            : type == std::filesystem::file_type::not_found ? "there is no such file"
            : type == std::filesystem::file_type::directory ? "it is a folder"
                                                            : "it is a device or a pipe"));
  if (std::filesystem::file_size(path, error) > maxBytes)
    refuse("cannot read '" + path + "': it has more than " + std::to_string(maxBytes) + " bytes");
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || (file.peek() != std::char_traits<char>::eof() && !(text << file.rdbuf())))
    refuse("cannot read '" + path + "'");
  return text.str();
}

/// The manifest of an executable, and the attributes of what --emit=staged prints, have the hash of
/// their schedule.
void compareProgram(const std::string &program, const std::string &hash) {
  for (std::string key : {"\"schedule\":\"", "tpc.schedule = \""})
    if (size_t at = program.find(key); at != std::string::npos) {
      if (program.compare(at + key.size(), hash.size() + 1, hash + "\"") != 0)
        refuse("the program has another schedule: " + program.substr(at + key.size(), 16));
      return;
    }
  refuse("the program has no schedule");
}

} // namespace

int main(int argc, char **argv) {
  auto end = [](int status) {
    if (std::fflush(stdout) == 0 && !std::ferror(stdout))
      return status;
    std::fprintf(stderr, "cannot write to standard output: %s\n", std::strerror(errno));
    return 1;
  };
  if (argc < 2 || argc > 3 || std::string(argv[1]) == "--help") {
    std::puts("usage: tpc-check-certificate FILE [EXECUTABLE | staged.mlir]\n"
              "Checks what tpcc --certificate=FILE wrote, and that it is about this program.");
    return end(argc == 2 ? 0 : 2);
  }
  try {
    json certificate = json::parse(readFile(argv[1]), [](int depth, auto, auto &) {
      return depth < 32 || (refuse("it nests too deep"), false);
    });
    Checker(certificate).run();
    std::string hash = certificate["hash"];
    if (argc == 3)
      compareProgram(readFile(argv[2]), hash);
    std::printf("no deadlock: schedule %s\n", hash.c_str());
    return end(0);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return 1;
  }
}
