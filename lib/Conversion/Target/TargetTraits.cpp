//===- TargetTraits.cpp - Table of target properties ----------------------===//

#include "tpc/Conversion/Target/TargetTraits.h"

#include "llvm/ADT/StringExtras.h"

#include <mutex>

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct Registry {
  std::mutex mutex;
  SmallVector<const TargetTraits *> targets;
};
} // namespace

static Registry &getRegistry() {
  static Registry registry;
  return registry;
}

void mlir::tpc::registerTarget(const TargetTraits &target) {
  Registry &registry = getRegistry();
  std::lock_guard lock(registry.mutex);
  if (!llvm::is_contained(registry.targets, &target))
    registry.targets.push_back(&target);
}

const TargetTraits *TargetTraits::lookup(StringRef name) {
  Registry &registry = getRegistry();
  std::lock_guard lock(registry.mutex);
  auto found = llvm::find_if(registry.targets,
                             [&](const TargetTraits *target) { return target->name == name; });
  return found == registry.targets.end() ? nullptr : *found;
}

SmallVector<const TargetTraits *> TargetTraits::getAll() {
  Registry &registry = getRegistry();
  std::lock_guard lock(registry.mutex);
  return registry.targets;
}

static StringAttr getName(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto name = op->getAttrOfType<StringAttr>(kTargetAttr))
      return name;
  return {};
}

const TargetTraits &TargetTraits::get(Operation *op) {
  SmallVector<const TargetTraits *> all = getAll();
  assert(!all.empty() && "no target is registered");
  StringAttr name = getName(op);
  const TargetTraits *target = name ? lookup(name) : nullptr;
  return target ? *target : *all.front();
}

LogicalResult TargetTraits::verify(Operation *program) {
  StringAttr name = getName(program);
  if (!name || lookup(name))
    return success();
  return program->emitError() << "'" << kTargetAttr << "' is \"" << name.getValue()
                              << "\", which is not a target; targets are "
                              << llvm::join(
                                     llvm::map_range(getAll(), [](auto *t) { return t->name; }),
                                     ", ");
}
