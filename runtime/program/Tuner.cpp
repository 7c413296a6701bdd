//===- Tuner.cpp - Tuning by measurement ----------------------------------===//

#include "program/Tuner.h"
#include "core/Device.h"
#include "program/Notes.h"
#include <cstdio>
#include <map>
#include <sstream>
#include <stdexcept>

namespace tpc::rt {
namespace {

/// Returns the concatenated texts of all processes.
std::string textOfAll(World &world, const std::string &mine) {
  Session *session = world.session();
  if (!session)
    return mine;
  std::string all;
  for (const std::string &text : session->textsOfAll(mine))
    all += text;
  return all;
}

/// Returns key and value of each line.
std::vector<std::pair<std::string, std::string>> pairsOf(const std::string &text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);)
    if (size_t tab = line.find('\t'); tab != std::string::npos)
      pairs.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  return pairs;
}

/// Sets the session's current work during the object's lifetime.
class SessionDoes {
public:
  SessionDoes(Session *session, const char *what)
      : session(session), before(session ? session->doing.exchange(what) : nullptr) {}
  SessionDoes(const SessionDoes &) = delete;
  SessionDoes &operator=(const SessionDoes &) = delete;
  ~SessionDoes() {
    if (session)
      session->doing = before;
  }

private:
  Session *const session;
  const char *const before;
};

/// Tuning result of one rank.
struct Tuning {
  std::string tuningKey, text; ///< empty until measured
  bool isMeasured = false;
};

/// Applies cached results, and measures others in the memory reserved for frames.
void tune(tpc_context &ctx, std::vector<Tuning> &tunings) {
  for (Tuning &one : tunings) {
    if (!one.text.empty() && ctx.device->applyTuning(one.tuningKey, one.text))
      continue;
    void *memory = ctx.arena.push(ctx.device->tuningBytes(one.tuningKey));
    if (!memory)
      throw std::bad_alloc();
    one.text = ctx.device->tune(one.tuningKey, memory);
    one.isMeasured = true;
    ctx.arena.pop(memory);
  }
}

} // namespace

void Tuner::tunePending(
    World &world, const std::vector<std::vector<std::string>> &pendingTunings,
    const std::function<void(const std::function<void(tpc_context &)> &)> &run) {
  if (!measures)
    return;
  const SessionDoes doing(world.session(), "while algorithms are measured");
  const int firstRank = world.local(0).rank;
  std::string mine;
  for (int i = 0; i < world.numLocal(); ++i)
    for (const std::string &tuningKey : pendingTunings[static_cast<size_t>(i)])
      if (!tuned.contains(tuningKey))
        mine += tuningKey + "\t" + std::to_string(firstRank + i) + "\n";
  std::map<std::string, std::vector<int>> pending;
  for (const auto &[tuningKey, rank] : pairsOf(textOfAll(world, mine)))
    pending[tuningKey].push_back(std::stoi(rank));
  if (pending.empty())
    return;

  // Tunings are assigned to ranks in turn, so that they measure in parallel.
  std::vector<std::vector<Tuning>> tunings(static_cast<size_t>(world.numLocal()));
  size_t turn = 0;
  for (auto at = pending.begin(); at != pending.end();) {
    if (tuned.size() >= maxTunings) {
      at = pending.erase(at);
      continue;
    }
    const auto &[tuningKey, ranks] = *at;
    tuned.insert(tuningKey);
    int local = ranks[turn++ % ranks.size()] - firstRank;
    if (local >= 0 && local < world.numLocal()) {
      const std::string *cached = cache.find(tuningKey);
      tunings[static_cast<size_t>(local)].push_back(
          {tuningKey, cached ? *cached : deviceKind().installedTuning(tuningKey).value_or("")});
    }
    ++at;
  }
  if (pending.empty())
    return;
  run([&](tpc_context &ctx) { tune(ctx, tunings[static_cast<size_t>(ctx.rank - firstRank)]); });

  std::vector<std::pair<std::string, std::string>> measured;
  mine.clear();
  for (const std::vector<Tuning> &ofRank : tunings)
    for (const Tuning &one : ofRank) {
      mine += one.tuningKey + "\t" + one.text + "\n";
      if (one.isMeasured)
        measured.emplace_back(one.tuningKey, one.text);
    }
  cache.add(measured);
  // An empty key marks the note; keys of tunings are not empty.
  if (std::string note = cache.takeNote(); !note.empty())
    mine += "\t" + note + "\n";
  std::set<std::string> notes;
  std::map<std::string, std::string> agreed;
  for (const auto &[tuningKey, text] : pairsOf(textOfAll(world, mine)))
    if (tuningKey.empty())
      notes.insert(text);
    else
      agreed[tuningKey] = text;
  if (firstRank == 0)
    for (const std::string &text : notes)
      note(text);
  run([&](tpc_context &ctx) {
    for (const std::string &tuningKey : pendingTunings[static_cast<size_t>(ctx.rank - firstRank)])
      if (pending.contains(tuningKey) && !ctx.device->applyTuning(tuningKey, agreed.at(tuningKey)))
        throw std::runtime_error("this rank cannot use a matmul algorithm that another rank "
                                 "measured (--deterministic measures none): " +
                                 tuningKey);
  });
}

} // namespace tpc::rt
