//===- Memory.cpp - Symbolic contents of memory ---------------------------===//

#include "Memory.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

bool Memory::areDisjoint(const MemoryRange &a, const MemoryRange &b) {
  if (a.region != b.region)
    return true;
  return areDisjoint(a, getNextBorder(a), b, getNextBorder(b));
}

bool Memory::areDisjoint(const MemoryRange &a, const std::optional<SymExpr> &nextA,
                         const MemoryRange &b, const std::optional<SymExpr> &nextB) {
  if (a.region != b.region || a.size.isConstant(0) || b.size.isConstant(0))
    return true;
  // Columns of the same buffer.
  if (a.rows && b.rows && a.begin == b.begin && a.size == b.size &&
      a.rows->stride == b.rows->stride)
    return bounds.isNeverNegative(b.rows->first - a.rows->first - a.rows->width) ||
           bounds.isNeverNegative(a.rows->first - b.rows->first - b.rows->width);
  if (a.begin == b.begin)
    return false;
  if ((nextA && bounds.hasNoNegativeTerm(b.begin - *nextA)) ||
      (nextB && bounds.hasNoNegativeTerm(a.begin - *nextB)))
    return true;
  return bounds.isNeverNegative(b.begin - a.begin - a.size) ||
         bounds.isNeverNegative(a.begin - b.begin - b.size);
}

void Memory::setBorders(Value region, ArrayRef<SymExpr> all) {
  auto &list = borders[region];
  for (const SymExpr &border : all)
    if (!llvm::is_contained(list, border))
      list.push_back(border);
  nextBorders.erase(region);
}

std::optional<SymExpr> Memory::getNextBorder(const MemoryRange &range) {
  auto it = borders.find(range.region);
  if (it == borders.end())
    return std::nullopt;
  // Finds the nearest border after the beginning of the range.
  auto [known, isNew] = nextBorders[range.region].try_emplace(range.begin.str());
  std::optional<SymExpr> &next = known->second;
  if (isNew)
    for (const SymExpr &border : it->second)
      if (border != range.begin && bounds.hasNoNegativeTerm(border - range.begin) &&
          (!next || bounds.hasNoNegativeTerm(*next - border)))
        next = border;
  if (next && bounds.isNeverNegative(*next - range.begin - range.size))
    return next;
  return std::nullopt;
}

bool Memory::isInside(const MemoryRange &range, const SymExpr &size) {
  if (!bounds.isNeverNegative(range.begin))
    return false;
  if (auto next = getNextBorder(range); next && bounds.hasNoNegativeTerm(size - *next))
    return true;
  return bounds.isNeverNegative(size - range.begin - range.size);
}

void Memory::invalidate(const MemoryRange &range, const std::optional<SymExpr> &next) {
  llvm::erase_if(entries, [&](const Entry &entry) {
    return !areDisjoint(entry.range, entry.nextBorder, range, next);
  });
}

void Memory::write(const MemoryRange &range, Content content, Operation *writer) {
  std::optional<SymExpr> next = getNextBorder(range);
  invalidate(range, next);
  entries.push_back({range, content, writer, {}, next});
}

// The entry of a copy has the value of the source's entry, and the offset in it at which the copied
// bytes begin.
void Memory::copy(const MemoryRange &from, const MemoryRange &to, bool given, Operation *writer) {
  SmallVector<Entry> copies;
  if (given)
    copies.push_back({to, {from.region}, writer, from.begin});
  for (const Entry &entry : entries) {
    if (entry.range.region != from.region || entry.range.rows)
      continue;
    SymExpr offset = from.begin - entry.range.begin;
    if (!entry.from)
      copies.push_back({to, entry.content, writer, offset});
    else if (offset.isConstant(0) && entry.range.size == from.size)
      copies.push_back({to, entry.content, writer, entry.from});
  }
  std::optional<SymExpr> next = getNextBorder(to);
  invalidate(to, next);
  for (Entry &entry : copies)
    entry.nextBorder = next;
  llvm::append_range(entries, copies);
}

const Memory::Entry *Memory::find(const MemoryRange &range, const SymExpr &offset,
                                  function_ref<bool(Content)> isSame) const {
  for (const Entry &entry : entries) {
    if (entry.range.region != range.region || entry.range.rows != range.rows)
      continue;
    bool isThere = entry.from ? entry.range.begin == range.begin &&
                                    entry.range.size == range.size && *entry.from == offset
                              : entry.range.begin + offset == range.begin &&
                                    (!range.rows || entry.range.size == range.size);
    if (isThere && isSame(entry.content))
      return &entry;
  }
  return nullptr;
}

bool Memory::isUntouched(const MemoryRange &range) {
  std::optional<SymExpr> next = getNextBorder(range);
  return llvm::all_of(entries, [&](const Entry &entry) {
    return areDisjoint(entry.range, entry.nextBorder, range, next);
  });
}

const Memory::Entry *Memory::findAny(const MemoryRange &range) const {
  for (const Entry &entry : llvm::reverse(entries))
    if (entry.range.region == range.region && entry.range.begin == range.begin)
      return &entry;
  return nullptr;
}

void Memory::forget(Value region) {
  llvm::erase_if(entries, [&](const Entry &entry) { return entry.range.region == region; });
}

void Memory::forgetRegions(function_ref<bool(Value)> isDead) {
  llvm::erase_if(entries, [&](const Entry &entry) { return isDead(entry.range.region); });
}

void Memory::forget(function_ref<bool(Value)> isDead) {
  llvm::erase_if(entries, [&](const Entry &entry) { return isDead(entry.content.tensor); });
}
