//===- Schedule.cpp - Warp scheduler --------------------------------------===//
//
// Diverged lanes of a warp form groups. Groups merge at instructions with a member mask, and in
// general at reconvergence points. Sometimes a group proceeds alone there, which PTX allows.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "Text.h"

#include <algorithm>

using namespace ptx;

bool Machine::runs(const Warp &warp) const {
  return std::any_of(warp.groups.begin(), warp.groups.end(), [](const Group &group) {
    return group.state == Group::Runs || group.state == Group::Parked;
  });
}

static std::string lanesText(Mask lanes) { return hex(lanes, 8); }

void Machine::turn(Warp &warp) {
  auto &groups = warp.groups;
  if (groups.size() > 1) {
    // Lanes that wait for reconvergence proceed when no other lane can arrive.
    if (std::none_of(groups.begin(), groups.end(),
                     [](const Group &group) { return group.state == Group::Runs; }))
      for (Group &group : groups)
        if (group.state == Group::Parked)
          group.state = Group::Runs;
    for (size_t i = 0; i < groups.size(); ++i)
      for (size_t j = groups.size(); --j > i;)
        if (groups[i].pc == groups[j].pc && groups[i].state == groups[j].state &&
            groups[i].state == Group::Runs) {
          groups[i].lanes |= groups[j].lanes;
          groups.erase(groups.begin() + int64_t(j));
        }
  } else if (groups[0].state == Group::Parked) {
    groups[0].state = Group::Runs;
  }
  size_t count = size_t(std::count_if(
      groups.begin(), groups.end(), [](const Group &group) { return group.state == Group::Runs; }));
  size_t pick = count > 1 ? random() % count : 0, chosen = 0;
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i].state == Group::Runs && pick-- == 0)
      chosen = i;
  Group group = groups[chosen];
  groups.erase(groups.begin() + int64_t(chosen));
  uint64_t draw = random();
  runGroup(warp, group, unsigned(draw & 7 ? 1 + (draw >> 3) % 64 : 512));
}

void Machine::runGroup(Warp &warp, Group group, unsigned budget) {
  const Inst *code = kernel.code.data();
  Counters &counters = result.counters;
  for (bool first = true; budget; --budget, first = false) {
    const Inst &inst = code[group.pc];
    if (inst.join && !first && !warp.groups.empty() && random() & 7 &&
        std::any_of(warp.groups.begin(), warp.groups.end(), [&](const Group &other) {
          return other.state == Group::Runs ||
                 (other.state == Group::Parked && other.pc != group.pc);
        })) {
      group.state = Group::Parked;
      break;
    }
    warp.pc = group.pc;
    Mask mask = group.lanes;
    if (inst.guard) {
      if (~warp.defined(inst.guard) & mask)
        reportUndefined(warp, inst, mask);
      Mask predicate = warp.predicate(inst.guard);
      mask &= inst.guardNegated ? ~predicate : predicate;
    }
    ++executed;
    ++counters.instructions[size_t(inst.cls)];
    counters.laneInstructions += unsigned(std::popcount(mask));
    switch (inst.flow) {
    case Flow::Plain:
      if (mask) {
        if (mask & ~(warp.defined(inst.src[0]) & warp.defined(inst.src[1]) &
                     warp.defined(inst.src[2]) & warp.defined(inst.src[3])))
          reportUndefined(warp, inst, mask);
        inst.run(warp, inst, mask);
        warp.defined(inst.dst) |= mask;
      }
      ++group.pc;
      continue;
    case Flow::Custom:
      if (mask)
        inst.run(warp, inst, mask);
      ++group.pc;
      continue;
    case Flow::Branch: {
      Mask rest = group.lanes & ~mask;
      if (!rest) {
        group.pc = inst.target;
        continue;
      }
      ++group.pc;
      if (!mask)
        continue;
      ++counters.divergentBranches;
      Group taken{Group::Runs, inst.target, mask};
      group.lanes = rest;
      if (random() & 1)
        std::swap(taken, group);
      warp.groups.push_back(taken);
      continue;
    }
    case Flow::Indexed:
      if (mask != group.lanes)
        stop(Check::Launch, warp, 0, "brx.idx with a predicate is not supported");
      if (branchIndexed(warp, inst, group))
        continue;
      break;
    case Flow::Exit:
      if (Mask missing = config.dependent ? mask & ~warp.waited : 0)
        report(Check::Synchronization, warp, unsigned(std::countr_zero(missing)),
               "ends without griddepcontrol.wait, although the launch does not wait for the "
               "previous kernel");
      warp.alive &= ~mask;
      group.lanes &= ~mask;
      if (!group.lanes)
        return;
      ++group.pc;
      continue;
    case Flow::Trap:
      if (mask)
        stop(Check::Trap, warp, unsigned(std::countr_zero(mask)), "trap");
      ++group.pc;
      continue;
    case Flow::Warp:
    case Flow::Barrier: {
      if (inst.aligned && mask && mask != group.lanes)
        stop(Check::Synchronization, warp, unsigned(std::countr_zero(mask)),
             text("only lanes {} of {} execute an instruction with .aligned", lanesText(mask),
                  lanesText(group.lanes)));
      if (Mask rest = group.lanes & ~mask) {
        Group others{Group::Runs, group.pc + 1, rest};
        group.lanes = mask;
        if (!mask) {
          group = others;
          continue;
        }
        warp.groups.push_back(others);
      }
      if (inst.flow == Flow::Warp ? arriveLanes(warp, inst, group)
                                  : arriveBarrier(warp, inst, group))
        continue;
      return; // the group is owned by the warp
    }
    }
    break;
  }
  warp.groups.push_back(group);
}

/// Divides the lanes into a group for each target. One group continues.
bool Machine::branchIndexed(Warp &warp, const Inst &inst, Group &group) {
  if (group.lanes & ~warp.defined(inst.src[0]))
    reportUndefined(warp, inst, group.lanes);
  const uint32_t *index = warp.data<uint32_t>(inst.src[0]);
  Mask left = group.lanes;
  bool first = true;
  while (left) {
    auto lane = unsigned(std::countr_zero(left));
    if (index[lane] >= inst.target)
      stop(Check::Memory, warp, lane, text("jumps to target {} of {}", index[lane], inst.target));
    uint32_t target = kernel.lists[inst.list + index[lane]];
    Mask same = 0;
    forLanes(left, [&](unsigned other) {
      if (index[other] < inst.target && kernel.lists[inst.list + index[other]] == target)
        same |= Mask(1) << other;
    });
    left &= ~same;
    if (first)
      group.pc = target, group.lanes = same;
    else
      warp.groups.push_back({Group::Runs, target, same});
    first = false;
  }
  result.counters.divergentBranches += warp.groups.size() > 0;
  return true;
}

/// Merges groups that wait at the same instruction and, unless it has a guard, groups that have
/// just reached it.
void Machine::takeWaiting(Warp &warp, const Inst &inst, Group &group) {
  std::erase_if(warp.groups, [&](const Group &other) {
    bool same = other.pc == group.pc && (other.state == Group::WaitsForLanes ||
                                         (!inst.guard && other.state != Group::WaitsForWarps));
    if (same)
      group.lanes |= other.lanes;
    return same;
  });
}

/// Executes an instruction that names its member lanes, for the lanes whose members have all
/// arrived.
bool Machine::arriveLanes(Warp &warp, const Inst &inst, Group &group) {
  takeWaiting(warp, inst, group);
  if (group.lanes & ~warp.defined(inst.src[3]))
    reportUndefined(warp, inst, group.lanes);
  const uint32_t *members = warp.data<uint32_t>(inst.src[3]);
  Mask left = group.lanes, went = 0;
  while (left) {
    auto lane = unsigned(std::countr_zero(left));
    Mask named = members[lane], same = 0;
    forLanes(left, [&](unsigned other) { same |= Mask(members[other] == named) << other; });
    left &= ~same;
    if (Mask strangers = same & ~named)
      stop(Check::Synchronization, warp, unsigned(std::countr_zero(strangers)),
           text("its mask {} does not name the lane itself", lanesText(named)));
    if (Mask absent = named & ~warp.alive)
      stop(Check::Synchronization, warp, lane,
           text("its mask {} names lanes that {}: {}", lanesText(named),
                absent & ~warp.exists ? "the block does not have" : "have ended",
                lanesText(absent)));
    if (same != named)
      continue;
    if (same & ~(warp.defined(inst.src[0]) & warp.defined(inst.src[1]) & warp.defined(inst.src[2])))
      reportUndefined(warp, inst, same);
    inst.run(warp, inst, same);
    warp.defined(inst.dst) |= same;
    went |= same;
  }
  if (Mask waits = group.lanes & ~went)
    warp.groups.push_back({Group::WaitsForLanes, group.pc, waits});
  if (!went)
    return false;
  group.lanes = went;
  ++group.pc;
  return true;
}

bool Machine::arriveBarrier(Warp &warp, const Inst &inst, Group &group) {
  takeWaiting(warp, inst, group);
  auto lane = unsigned(std::countr_zero(group.lanes));
  if (group.lanes != warp.alive) {
    group.state = Group::WaitsForLanes;
    warp.groups.push_back(group);
    return false;
  }
  if (group.lanes & ~(warp.defined(inst.src[0]) & warp.defined(inst.src[1])))
    reportUndefined(warp, inst, group.lanes);
  uint32_t id = warp.data<uint32_t>(inst.src[0])[lane],
           threads = inst.flags ? warp.data<uint32_t>(inst.src[1])[lane] : 0;
  forLanes(group.lanes, [&](unsigned other) {
    if (warp.data<uint32_t>(inst.src[0])[other] != id ||
        (inst.flags && warp.data<uint32_t>(inst.src[1])[other] != threads))
      stop(Check::Synchronization, warp, other,
           text("lanes {} and {} of the warp name different barriers", lane, other));
  });
  if (id > 15)
    stop(Check::Synchronization, warp, lane, text("barrier {} does not exist: there are 16", id));
  if (inst.flags && (threads == 0 || threads % warpSize || threads > warps.size() * warpSize))
    stop(Check::Synchronization, warp, lane,
         text("a barrier has {} threads, which are not whole warps of the block", threads));
  if (warp.alive != warp.exists)
    stop(Check::Synchronization, warp, lane,
         text("waits at a barrier, and lanes {} of its warp have ended",
              lanesText(warp.exists & ~warp.alive)));
  Barrier &barrier = barriers[id];
  if (barrier.warps.empty())
    barrier = {{}, group.pc, threads};
  else if (barrier.pc != group.pc || barrier.threads != threads)
    stop(Check::Synchronization, warp, lane,
         text("waits at barrier {}, at which others of the block wait at line {} ({})", id,
              kernel.code[barrier.pc].line, kernel.texts[kernel.code[barrier.pc].text]));
  barrier.warps.push_back(warp.index);
  group.state = Group::WaitsForWarps;
  warp.groups.push_back(group);
  if (barrier.warps.size() == (threads ? threads / warpSize : warps.size())) {
    release(barrier);
    barriers.erase(id);
  }
  return false;
}

/// Reports a deadlock, with the threads that wait for each other.
void Machine::stopStuck() {
  for (auto &warp : warps)
    for (const Group &group : warp->groups) {
      warp->pc = group.pc;
      const Inst &inst = kernel.code[group.pc];
      auto lane = unsigned(std::countr_zero(group.lanes));
      if (group.state == Group::WaitsForLanes && inst.flow == Flow::Warp) {
        Mask named = warp->data<uint32_t>(inst.src[3])[lane], absent = named & ~warp->alive;
        report(Check::Synchronization, *warp, lane,
               absent ? text("its mask {} names lanes that have ended: {}", lanesText(named),
                             lanesText(absent))
                      : text("deadlock: its mask {} names lanes that wait elsewhere: {}",
                             lanesText(named), lanesText(named & ~group.lanes)));
      } else if (group.state == Group::WaitsForLanes) {
        report(Check::Synchronization, *warp, lane,
               group.lanes == warp->alive
                   ? text("divergent barrier: lanes {} of the warp have ended",
                          lanesText(warp->exists & ~warp->alive))
                   : text("divergent barrier: lanes {} of the warp wait here, {} elsewhere",
                          lanesText(group.lanes), lanesText(warp->alive & ~group.lanes)));
      } else {
        size_t ended = size_t(
            std::count_if(warps.begin(), warps.end(), [](auto &other) { return !other->alive; }));
        report(Check::Synchronization, *warp, lane,
               ended ? text("deadlock: waits at a barrier, and {} of {} warps have ended", ended,
                            warps.size())
                     : "deadlock: waits at a barrier that some threads never reach");
      }
    }
  throw Stop();
}
