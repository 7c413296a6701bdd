//===- TargetTraits.cpp - What differs from target to target --------------===//

#include "tpc/Conversion/Target/TargetTraits.h"

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

const TargetTraits &TargetTraits::get(Operation *) {
  Registry &registry = getRegistry();
  std::lock_guard lock(registry.mutex);
  assert(!registry.targets.empty() && "no target is registered");
  return *registry.targets.front();
}
