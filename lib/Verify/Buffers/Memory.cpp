//===- Memory.cpp - Which value lies where --------------------------------===//

#include "Memory.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

bool Memory::areDisjoint(const Place &a, const Place &b) {
  if (a.region != b.region || a.size.isConstant(0) || b.size.isConstant(0))
    return true;
  if (a.begin == b.begin)
    return false;
  for (auto [x, y] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (auto next = getNextBorder(*x); next && bounds.isPlain(y->begin - *next))
      return true;
  return bounds.isNeverNegative(b.begin - a.begin - a.size) ||
         bounds.isNeverNegative(a.begin - b.begin - b.size);
}

void Memory::setBorders(Value region, ArrayRef<SymExpr> all) {
  auto &list = borders[region];
  for (const SymExpr &border : all)
    if (!llvm::is_contained(list, border))
      list.push_back(border);
}

std::optional<SymExpr> Memory::getNextBorder(const Place &place) {
  auto it = borders.find(place.region);
  if (it == borders.end())
    return std::nullopt;
  // The nearest of those behind it.
  std::optional<SymExpr> next;
  for (const SymExpr &border : it->second)
    if (border != place.begin && bounds.isPlain(border - place.begin) &&
        (!next || bounds.isPlain(*next - border)))
      next = border;
  if (next && bounds.isNeverNegative(*next - place.begin - place.size))
    return next;
  return std::nullopt;
}

bool Memory::isInside(const Place &place, const SymExpr &size) {
  if (!bounds.isNeverNegative(place.begin))
    return false;
  if (auto next = getNextBorder(place); next && bounds.isPlain(size - *next))
    return true;
  return bounds.isNeverNegative(size - place.begin - place.size);
}

void Memory::write(const Place &place, Content content, Operation *writer) {
  llvm::erase_if(held, [&](const Held &h) { return !areDisjoint(h.place, place); });
  held.push_back({place, content, writer});
}

// `from` may be a part of what a value takes, which is known by where it begins: whoever reads it
// asks for a part of that value, from the same byte on, and parts do not leave what they are of.
void Memory::copy(const Place &from, const Place &to, bool given, Operation *writer) {
  SmallVector<Held> copies;
  if (given)
    copies.push_back({to, {from.region}, writer, from.begin});
  for (const Held &h : held) {
    if (h.place.region != from.region)
      continue;
    SymExpr offset = from.begin - h.place.begin;
    if (!h.from)
      copies.push_back({to, h.content, writer, offset});
    else if (offset.isConstant(0) && h.place.size == from.size)
      copies.push_back({to, h.content, writer, h.from});
  }
  llvm::erase_if(held, [&](const Held &h) { return !areDisjoint(h.place, to); });
  llvm::append_range(held, copies);
}

const Memory::Held *Memory::find(const Place &place, const SymExpr &offset,
                                 function_ref<bool(Content)> isSame) const {
  for (const Held &h : held) {
    if (h.place.region != place.region)
      continue;
    bool isThere =
        h.from ? h.place.begin == place.begin && h.place.size == place.size && *h.from == offset
               : h.place.begin + offset == place.begin;
    if (isThere && isSame(h.content))
      return &h;
  }
  return nullptr;
}

bool Memory::isUntouched(const Place &place) {
  return llvm::all_of(held, [&](const Held &h) { return areDisjoint(h.place, place); });
}

const Memory::Held *Memory::findAny(const Place &place) const {
  for (const Held &h : llvm::reverse(held))
    if (h.place.region == place.region && h.place.begin == place.begin)
      return &h;
  return nullptr;
}

void Memory::forget(Value region) {
  llvm::erase_if(held, [&](const Held &h) { return h.place.region == region; });
}

void Memory::forget(function_ref<bool(Value)> isDead) {
  llvm::erase_if(held, [&](const Held &h) { return isDead(h.content.tensor); });
}
