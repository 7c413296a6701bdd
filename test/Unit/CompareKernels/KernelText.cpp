//===- KernelText.cpp - Statements of a kernel's text ---------------------===//

#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"

using namespace compare;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

std::optional<Statement> Statement::parse(StringRef line) {
  line = line.trim();
  if (!line.consume_back(";") || line.starts_with("."))
    return std::nullopt;
  Statement s;
  if (line.starts_with("@")) {
    auto [guard, rest] = line.split(' ');
    s.guard = guard.trim().str();
    line = rest.ltrim();
  }
  size_t end = line.find_first_of(" \t");
  s.opcode = line.take_front(end).str();
  if (end == StringRef::npos)
    return s;
  // Commas in braces and brackets do not separate operands.
  int depth = 0;
  std::string operand;
  for (char c : line.drop_front(end).trim()) {
    depth += c == '{' || c == '[';
    depth -= c == '}' || c == ']';
    if (c == ',' && !depth) {
      s.operands.push_back(StringRef(operand).trim().str());
      operand.clear();
    } else {
      operand += c;
    }
  }
  s.operands.push_back(StringRef(operand).trim().str());
  return s;
}

std::string Statement::str() const {
  if (opcode.empty())
    return "";
  std::string text = guard + (guard.empty() ? "" : " ") + opcode;
  for (auto [i, operand] : llvm::enumerate(operands))
    text += (i ? ", " : " ") + operand;
  return text + ";";
}

/// Returns the registers in operands such as `{%r1, %r2}`, `[%rd3+4]` and `%r5`.
static std::vector<std::string> getRegisters(StringRef operand) {
  std::vector<std::string> found;
  for (size_t at = operand.find('%'); at != StringRef::npos; at = operand.find('%', at + 1)) {
    StringRef name = operand.drop_front(at).take_while(
        [](char c) { return llvm::isAlnum(c) || c == '%' || c == '_' || c == '.'; });
    found.push_back(name.str());
  }
  return found;
}

std::vector<std::string> Statement::getResults() const {
  if (operands.empty() || is("st.") || is("bra") || is("bar") || StringRef(operands[0])[0] == '[')
    return {};
  return getRegisters(operands[0]);
}

//===----------------------------------------------------------------------===//
// The text
//===----------------------------------------------------------------------===//

KernelText::KernelText(StringRef ptx, StringRef kernel) {
  bool skips = false;
  while (!ptx.empty()) {
    StringRef line;
    std::tie(line, ptx) = ptx.split('\n');
    if (StringRef rest = line; rest.consume_front(".visible .entry "))
      skips = rest.take_until([](char c) { return c == '('; }) != kernel;
    if (!skips)
      lines.push_back(line.str());
    if (line.starts_with("}"))
      skips = false;
  }
  for (auto [at, line] : llvm::enumerate(lines)) {
    const auto &s = statements.emplace_back(Statement::parse(line));
    if (!s)
      continue;
    std::vector<std::string> results = s->getResults();
    for (const std::string &name : results)
      definitions[name].push_back(at);
    for (const std::string &operand : llvm::drop_begin(s->operands, results.empty() ? 0 : 1))
      for (const std::string &name : getRegisters(operand))
        uses[name].push_back(at);
    for (const std::string &name : getRegisters(s->guard))
      uses[name].push_back(at);
  }
}

std::string KernelText::with(size_t line, StringRef text) const {
  std::string all;
  for (auto [i, other] : llvm::enumerate(lines))
    all += (i == line ? text.str() : other) + "\n";
  return all;
}

std::optional<std::string> KernelText::withTrapForDifference(size_t line,
                                                             const Statement &other) const {
  const Statement &own = *statements[line];
  if (own.is("bra")) {
    // The other statement never branches or always does. Traps if this one does the opposite.
    bool never = other.opcode.empty();
    return with(line, (never ? "" : "@!" + own.guard.substr(1) + " trap; ") +
                          (never ? own.guard + " trap; " : "") + own.str());
  }
  std::vector<std::string> results = own.getResults();
  if (results.size() != 1 || own.operands[0] != results[0] || other.opcode.empty())
    return std::nullopt;
  StringRef name = results[0];
  StringRef type = name.starts_with("%p")    ? "pred"
                   : name.starts_with("%rd") ? "b64"
                   : name.starts_with("%rs") ? "b16"
                                             : "b32";
  Statement probe = other;
  probe.operands[0] = "%other";
  std::string differ = type == "pred"
                           ? "xor.pred %differs, %other, " + results[0] + ";"
                           : ("setp.ne." + type + " %differs, %other, " + results[0] + ";").str();
  // The other statement comes first, because it may read the register that this line writes.
  std::string text = with(line, probe.str() + " " + own.str() + " " + differ + " @%differs trap;");
  size_t body = StringRef(text).find("{\n");
  text.insert(body + 1, (" .reg ." + type + " %other; .reg .pred %differs;").str());
  return text;
}
