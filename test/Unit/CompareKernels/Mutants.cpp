//===- Mutants.cpp - Mutants of a kernel's text ---------------------------===//

#include "Mutants.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"

#include <functional>
#include <optional>

using namespace compare;
using llvm::SmallVector;
using llvm::StringRef;

namespace {
/// Applies the fault. Returns false if it does not apply to the statement.
using Change = std::function<bool(Statement &)>;
struct Kind {
  const char *name;
  Change change;
};
} // namespace

static bool replaceIn(std::string &text, StringRef from, StringRef to) {
  size_t at = StringRef(text).find(from);
  if (at == StringRef::npos)
    return false;
  text.replace(at, from.size(), to.str());
  return true;
}

static std::optional<int64_t> getNumber(StringRef operand) {
  int64_t value;
  if (operand.getAsInteger(10, value))
    return std::nullopt;
  return value;
}

static bool addTo(std::string &operand, int64_t amount) {
  std::optional<int64_t> value = getNumber(operand);
  if (value)
    operand = std::to_string(*value + amount);
  return value.has_value();
}

/// Increases a number by one. If its 16 low bits are zero (such as a constant that is multiplied
/// and shifted right by 32 bits), increases it by its lowest one bit instead.
static bool lengthen(std::string &operand) {
  std::optional<int64_t> value = getNumber(operand);
  if (!value)
    return false;
  int64_t lowest = *value & -*value;
  return addTo(operand, lowest >= 1 << 16 ? lowest : 1);
}

static bool isFloatNumber(StringRef operand) { return operand.starts_with("0f"); }

static bool scale(std::string &operand, float factor) {
  uint32_t bits;
  if (!isFloatNumber(operand) || StringRef(operand).drop_front(2).getAsInteger(16, bits))
    return false;
  bits = llvm::bit_cast<uint32_t>(llvm::bit_cast<float>(bits) * factor);
  operand = "0f" + llvm::utohexstr(bits, /*LowerCase=*/false, 8);
  return true;
}

/// Restricts a shuffle to sub-warps of as many lanes as its distance.
static bool shorten(Statement &s) {
  std::optional<int64_t> distance = getNumber(s.operands[2]);
  if (!distance)
    return false;
  s.operands[3] = std::to_string((32 - *distance) << 8 | 31);
  return true;
}

/// Removes the statement: without an opcode, there is none.
static bool drop(Statement &s) {
  s.opcode.clear();
  return true;
}

static bool isMemory(const Statement &s) {
  return s.is("ld.global") || s.is("st.global") || s.is("ld.shared") || s.is("st.shared");
}

static std::string &getAddress(Statement &s) { return s.operands[s.is("st") ? 0 : 1]; }

static const std::vector<Kind> &getKinds() {
  static const std::vector<Kind> kinds = {
      {"a barrier left out", [](Statement &s) { return s.is("bar.") && drop(s); }},
      {"a warp's barrier for the block's",
       [](Statement &s) {
         if (!s.is("bar.sync"))
           return false;
         s.opcode = "bar.warp.sync";
         s.operands = {"-1"};
         return true;
       }},
      {"a shuffle over another distance",
       [](Statement &s) {
         return s.is("shfl") && addTo(s.operands[2], s.operands[2] == "1" ? 1 : -1);
       }},
      {"a shuffle whose mask leaves out lanes",
       [](Statement &s) { return s.is("shfl") && (s.last() = "65535", true); }},
      {"a shuffle of parts of a warp", [](Statement &s) { return s.is("shfl") && shorten(s); }},
      // Not shfl.down: the lowest lanes, which broadcast the result, would get the same.
      {"a shuffle of another kind",
       [](Statement &s) {
         if (!s.is("shfl") || !replaceIn(s.opcode, ".bfly", ".up"))
           return false;
         s.operands[3] = "0";
         return true;
       }},
      {"a shuffle left out",
       [](Statement &s) {
         if (!s.is("shfl"))
           return false;
         s = {s.guard, "mov.b32", {s.operands[0], s.operands[1]}};
         return true;
       }},
      {"a bound off by one",
       [](Statement &s) {
         return s.is("setp") && !StringRef(s.opcode).ends_with(".f32") &&
                (replaceIn(s.opcode, ".lt.", ".le.") || replaceIn(s.opcode, ".le.", ".lt.") ||
                 replaceIn(s.opcode, ".gt.", ".ge.") || replaceIn(s.opcode, ".ge.", ".gt."));
       }},
      {"a condition turned round",
       [](Statement &s) {
         return s.is("setp") &&
                (replaceIn(s.opcode, ".lt.", ".ge.") || replaceIn(s.opcode, ".le.", ".gt.") ||
                 replaceIn(s.opcode, ".gt.", ".le.") || replaceIn(s.opcode, ".ge.", ".lt.") ||
                 replaceIn(s.opcode, ".eq.", ".ne.") || replaceIn(s.opcode, ".ne.", ".eq."));
       }},
      {"a branch never taken",
       [](Statement &s) { return s.is("bra") && !s.guard.empty() && drop(s); }},
      {"a branch always taken",
       [](Statement &s) { return s.is("bra") && !s.guard.empty() && (s.guard.clear(), true); }},
      {"a wrong stride",
       [](Statement &s) {
         return (s.is("mul.lo") || s.is("mul.wide") || s.is("shl") || s.is("mad.lo")) &&
                (s.is("shl") ? addTo(s.operands[2], 1) : lengthen(s.operands[2]));
       }},
      {"a wrong offset",
       [](Statement &s) {
         if (!isMemory(s))
           return false;
         std::string &at = getAddress(s);
         bool isWide = StringRef(s.opcode).contains(".v");
         at.insert(at.size() - 1, isWide ? "+16" : s.is("ld.global.nc.b64") ? "+8" : "+4");
         return true;
       }},
      {"a number off by one",
       [](Statement &s) {
         return (s.is("add.s32") || s.is("sub.s32")) && s.last().size() < 6 && addTo(s.last(), 1);
       }},
      // The loop's initial value; its last bits are the thread's.
      {"a number twice as large",
       [](Statement &s) {
         if (!s.is("or.b32"))
           return false;
         std::optional<int64_t> value = getNumber(s.last());
         return value && addTo(s.last(), *value);
       }},
      {"a mask with one bit less",
       [](Statement &s) {
         // The first operand: the low bits of an address are redundant with the alignment of its
         // type.
         std::optional<int64_t> value = s.is("and.b") ? getNumber(s.last()) : std::nullopt;
         return value && *value > 0 && addTo(s.last(), -int64_t(llvm::bit_floor(uint64_t(*value))));
       }},
      {"a shift by one more",
       [](Statement &s) { return (s.is("shr") || s.is("shf")) && addTo(s.last(), 1); }},
      {"a wrong identity",
       [](Statement &s) {
         if (!s.is("mov.b32") || !StringRef(s.last()).starts_with("0f"))
           return false;
         s.last() = s.last() == "0f3F800000" ? "0f40000000" : "0f3F800000";
         return true;
       }},
      {"a wrong constant",
       [](Statement &s) {
         for (std::string &operand : s.operands)
           if (!s.is("mov") && !s.is("setp") && isFloatNumber(operand)) {
             operand = operand == "0f3F800000" ? "0f3F000000" : "0f3F800000";
             return true;
           }
         return false;
       }},
      {"a bound of numbers twice as large",
       [](Statement &s) { return s.is("setp") && scale(s.last(), 2); }},
      {"a bound of numbers sixteen times less",
       [](Statement &s) { return s.is("setp") && scale(s.last(), 1.0f / 16); }},
      // Not for zero, whose sign has no effect.
      {"a difference for a sum",
       [](Statement &s) {
         return StringRef(s.opcode).contains(".f") && s.last() != "0f00000000" &&
                (replaceIn(s.opcode, "add.", "sub.") || replaceIn(s.opcode, "sub.", "add."));
       }},
      {"a sum for a product", [](Statement &s) { return replaceIn(s.opcode, "mul.rn", "add.rn"); }},
      {"a wrong summand of a product",
       [](Statement &s) { return s.is("fma") && (s.operands[3] = s.operands[1], true); }},
      {"the least for the largest",
       [](Statement &s) {
         return replaceIn(s.opcode, "max.", "min.") || replaceIn(s.opcode, "min.", "max.");
       }},
      {"a choice turned round",
       [](Statement &s) {
         return s.is("selp") && (std::swap(s.operands[1], s.operands[2]), true);
       }},
      {"a sign left out",
       [](Statement &s) {
         if (!s.is("neg") && !s.is("abs"))
           return false;
         s.opcode = "mov.b" + StringRef(s.opcode).take_back(2).str();
         return true;
       }},
      {"a store left out", [](Statement &s) { return s.is("st.") && drop(s); }},
      // For stores only: loads may belong to a reduction, whose order is unspecified.
      {"elements exchanged",
       [](Statement &s) {
         if (!s.is("st.global"))
           return false;
         for (std::string &operand : s.operands)
           if (StringRef(operand).starts_with("{")) {
             SmallVector<StringRef> items;
             std::string inner = StringRef(operand).drop_front().drop_back().str();
             StringRef(inner).split(items, ',');
             std::swap(items.front(), items.back());
             std::string swapped = "{";
             for (auto [i, item] : llvm::enumerate(items))
               swapped += (i ? ", " : "") + item.trim().str();
             operand = swapped + "}";
             return true;
           }
         return false;
       }},
      {"another operand",
       [](Statement &s) {
         if (!s.is("ld.param"))
           return false;
         auto [name, number] = StringRef(s.last()).drop_back().rsplit('_');
         unsigned n;
         if (number.getAsInteger(10, n) || n < 3)
           return false;
         s.last() = (name + "_" + llvm::Twine(n - 1) + "]").str();
         return true;
       }},
      {"lanes for threads",
       [](Statement &s) { return s.is("mov.u32") && replaceIn(s.last(), "%tid.x", "%laneid"); }},
      {"all blocks do the same",
       [](Statement &s) { return s.is("mov.u32") && replaceIn(s.last(), "%ctaid.x", "0"); }},
      {"a step of one block",
       [](Statement &s) { return s.is("mov.u32") && replaceIn(s.last(), "%nctaid.x", "1"); }},
      {"the memory of another reduction",
       [](Statement &s) {
         bool found = false;
         for (std::string &operand : s.operands)
           if (size_t at = operand.find("_shared"); at != std::string::npos) {
             size_t end = at + 7;
             while (end < operand.size() && isdigit(operand[end]))
               ++end;
             if (operand.substr(at, end - at) != "_shared0") {
               operand.replace(at, end - at, "_shared0");
               found = true;
             }
           }
         return found;
       }},
      {"another rounding",
       [](Statement &s) { return s.is("cvt") && replaceIn(s.opcode, ".rn.", ".rz."); }},
      {"a result read past the caches",
       [](Statement &s) {
         return s.is("ld.global.") && !s.is("ld.global.nc") &&
                replaceIn(s.opcode, "ld.global.", "ld.global.nc.");
       }},
      {"a report that is not exclusive",
       [](Statement &s) {
         if (!s.is("atom.global.exch"))
           return false;
         s = {s.guard, "mov.b32", {s.operands[0], "0"}};
         return true;
       }},
  };
  return kinds;
}

std::vector<Mutant> compare::makeMutants(const KernelText &kernel) {
  std::vector<Mutant> mutants;
  for (size_t at = 0; at < kernel.size(); ++at) {
    if (!kernel[at])
      continue;
    for (const Kind &kind : getKinds()) {
      Statement changed = *kernel[at];
      if (kind.change(changed) && changed.str() != kernel[at]->str())
        mutants.push_back({kind.name, at, std::move(changed)});
    }
  }
  return mutants;
}
