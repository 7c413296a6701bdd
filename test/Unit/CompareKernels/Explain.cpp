//===- Explain.cpp - Symbolic value of a kernel statement -----------------===//
//
// A register with one defining statement is replaced by its definition, until only parameters,
// elements of `env`, thread indices and constants are left. A register that several statements
// write, as in a loop or a branch, is `one of (… or …)`.
//
//===----------------------------------------------------------------------===//

#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace compare;
using llvm::StringRef;

/// Limits on expanding definitions: maximum depth, maximum number of characters, and maximum number
/// of definitions of one register.
static constexpr unsigned kDepth = 8, kLength = 250, kWays = 4;

/// Returns the name of the instruction without types and modifiers.
static std::string getVerb(const Statement &s) {
  auto [verb, rest] = StringRef(s.opcode).split('.');
  if (verb == "setp") {
    auto [compares, type] = rest.split('.');
    return (compares + (type.starts_with("f") ? "f" : "")).str();
  }
  return (verb + (StringRef(s.opcode).contains(".rn.f") ? "f" : "")).str();
}

static std::string nameSpecial(StringRef operand) {
  if (operand == "%tid.x")
    return "thread";
  if (operand == "%ctaid.x")
    return "block";
  if (operand == "%nctaid.x")
    return "blocks";
  return operand.drop_front().str();
}

/// Splits `[name+8]` into the name and the offset.
static std::pair<StringRef, StringRef> splitAddress(StringRef operand) {
  operand.consume_front("[");
  operand.consume_back("]");
  return operand.split('+');
}

std::string KernelText::explainResult(const Statement &s, unsigned depth,
                                      std::vector<std::string> &open) const {
  auto at = [&](size_t i) { return explain(s.operands[i], depth, open); };
  if (s.is("mov") || s.is("cvt"))
    return at(1);
  if (s.is("ld.param"))
    return "parameter " + StringRef(s.last()).drop_back().rsplit('_').second.str();
  if (s.is("ld.")) {
    auto [base, offset] = splitAddress(s.last());
    std::string from = explain(base, depth, open);
    if (from == "parameter 0")
      return "env[" + std::to_string(atoi(offset.str().c_str()) / 8) + "]";
    return (s.is("ld.shared") ? "shared[" : "memory[") + from + "]";
  }
  if (s.is("selp"))
    return "choose(" + at(3) + ", " + at(1) + ", " + at(2) + ")";
  if (s.is("shfl"))
    return "shuffle(" + at(1) + ", " + s.operands[2] + ")";
  std::string text = getVerb(s) + "(";
  for (size_t i = 1; i < s.operands.size(); ++i)
    text += (i > 1 ? ", " : "") + at(i);
  return text + ")";
}

std::string KernelText::explain(StringRef operand, unsigned depth,
                                std::vector<std::string> &open) const {
  if (!operand.starts_with("%"))
    return operand.str();
  auto found = definitions.find(operand.str());
  if (found == definitions.end())
    return nameSpecial(operand);
  if (llvm::is_contained(open, operand))
    return "itself";
  if (!depth)
    return "…";
  open.push_back(operand.str());
  std::set<std::string> ways;
  std::vector<std::string> inOrder;
  for (size_t line : found->second) {
    std::string way = explainResult(*statements[line], depth - 1, open);
    if (way != "itself" && ways.insert(way).second)
      inOrder.push_back(way);
  }
  open.pop_back();
  if (inOrder.size() == 1)
    return inOrder.front();
  if (inOrder.size() > kWays) {
    inOrder.resize(kWays);
    inOrder.push_back("…");
  }
  return "one of (" + llvm::join(inOrder, " or ") + ")";
}

bool KernelText::returnsAt(StringRef label) const {
  for (auto [at, line] : llvm::enumerate(lines))
    if (StringRef(line).trim() == (label + ":").str())
      for (size_t next = at; next < lines.size(); ++next)
        if (statements[next])
          return statements[next]->is("ret");
  return false;
}

std::string KernelText::explain(size_t line) const {
  std::string text;
  for (unsigned depth = kDepth; depth && (text.empty() || text.size() > kLength); --depth)
    text = explain(line, depth);
  return text;
}

std::string KernelText::explain(size_t line, unsigned depth) const {
  const Statement &s = *statements[line];
  std::vector<std::string> open;
  if (s.is("bra")) {
    std::string text = returnsAt(s.operands[0]) ? "return" : "branch";
    return s.guard.empty() ? text
                           : text + " if " + explain(StringRef(s.guard).drop_front(), depth, open);
  }
  if (s.is("st.")) {
    auto [base, offset] = splitAddress(s.operands[0]);
    return "store at " + explain(base, depth, open) + (offset.empty() ? "" : "+" + offset.str()) +
           ": " + explain(s.last(), depth, open);
  }
  std::vector<std::string> results = s.getResults();
  if (results.empty())
    return s.str();
  std::string text = explainResult(s, depth, open);
  std::set<std::string> users;
  for (const std::string &name : results)
    for (size_t user : uses.count(name) ? uses.at(name) : std::vector<size_t>()) {
      const Statement &u = *statements[user];
      users.insert(u.is("bra") && returnsAt(u.operands[0]) ? "return" : getVerb(u));
    }
  return text + " for " + llvm::join(users, ", ");
}
