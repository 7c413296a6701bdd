//===- Control.cpp - Branches, exits, barriers, fences --------------------===//

#include "Decoder.h"
#include "Machine.h"

using namespace ptx;

static void decodeBranch(Decoder &decoder) {
  Inst &inst = decoder.inst;
  inst.cls = Class::Control;
  if (decoder.take("idx")) {
    decoder.expectCount(2);
    inst.flow = Flow::Indexed;
    inst.src[0] = decoder.source(0, Type::U32);
    auto targets = decoder.kernel.body.branchTargets.find(decoder.operand(1).name);
    if (targets == decoder.kernel.body.branchTargets.end())
      decoder.fail("unknown table of targets");
    auto &lists = decoder.kernel.kernel.lists;
    inst.list = uint32_t(lists.size());
    inst.target = uint32_t(targets->second.size());
    for (std::string_view label : targets->second)
      lists.push_back(decoder.labelTarget(label));
    return;
  }
  decoder.expectCount(1);
  decoder.take("uni");
  inst.flow = Flow::Branch;
  if (decoder.operand(0).kind != Operand::Symbol)
    decoder.fail("a label expected");
  inst.target = decoder.labelTarget(decoder.operand(0).name);
}

static void decodeExit(Decoder &decoder) {
  decoder.expectCount(0);
  decoder.take("uni");
  decoder.inst.cls = Class::Control;
  decoder.inst.flow = Flow::Exit;
}

static void decodeTrap(Decoder &decoder) {
  decoder.expectCount(0);
  decoder.inst.cls = Class::Control;
  decoder.inst.flow = Flow::Trap;
}

static void runNothing(Warp &, const Inst &, Mask) {}
static void runFence(Warp &warp, const Inst &, Mask mask) { warp.machine.fence(warp, mask); }

// Weak memory is not modeled: blocks run one after the other, and clocks detect races. Fences of
// device scope order blocks.
static void decodeFence(Decoder &decoder) {
  decoder.expectCount(0);
  decoder.takeOneOf({"sc", "acq_rel", "acquire", "release"});
  int scope = decoder.takeOneOf({"cta", "cluster", "gl", "gpu", "sys"});
  if (scope < 0)
    decoder.fail("the instruction's scope is missing");
  decoder.inst.cls = Class::Barrier;
  decoder.inst.run = scope < 2 ? runNothing : runFence;
}

static void runDependencyWait(Warp &warp, const Inst &, Mask mask) { warp.waited |= mask; }

// launch_dependents has no effect on the launch itself. What may happen before the wait of the next
// launch is in Result::early.
static void decodeDependency(Decoder &decoder) {
  decoder.expectCount(0);
  int action = decoder.takeOneOf({"launch_dependents", "wait"});
  if (action < 0)
    decoder.fail("the action is missing");
  decoder.inst.cls = Class::Barrier;
  decoder.inst.run = action == 0 ? runNothing : runDependencyWait;
}

void ptx::addControl(OpcodeTable &table) {
  table["bra"] = decodeBranch;
  table["brx"] = decodeBranch;
  table["ret"] = decodeExit;
  table["exit"] = decodeExit;
  table["trap"] = decodeTrap;
  table["membar"] = decodeFence;
  table["fence"] = decodeFence;
  table["griddepcontrol"] = decodeDependency;
}
