//===- DependencyGate.cpp - Check of programmatic dependent launch --------===//
//
// Finds the statements that a thread may execute before griddepcontrol.wait
// (tpc/dependent_launch.h). They must not end the kernel, write to global memory, or read memory
// that is not constant. An address counts as constant if all registers that it is computed from
// are, in any order of execution.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

struct Statement {
  unsigned line = 0;
  bool isGuarded = false;
  StringRef opcode, operands;
};

class Kernel {
public:
  Kernel(StringRef ptx, StringRef name) { read(ptx, name); }
  /// Returns the first error and its line; empty if there is none.
  std::pair<std::string, unsigned> check(ArrayRef<unsigned> constants);

private:
  void read(StringRef ptx, StringRef name);
  void readStatement(StringRef text, unsigned line);
  void findSources(StringRef operands, llvm::StringSet<> &seen, DenseSet<unsigned> &pointers,
                   bool &isLoaded);
  std::string checkEarly(const Statement &statement, ArrayRef<unsigned> constants);
  std::string checkAddress(StringRef address, ArrayRef<unsigned> constants);

  StringRef begun; // first lines of a statement that continues
  std::vector<Statement> statements;
  llvm::StringMap<size_t> labels;                      // index of the next statement
  llvm::StringMap<SmallVector<size_t>> definitions;    // of registers
  llvm::StringMap<std::optional<unsigned>> parameters; // index; none: not a pointer
};

} // namespace

static bool isName(char c) { return isalnum(static_cast<unsigned char>(c)) || strchr("_$%.", c); }

/// Calls `visit` for each name: a register or a parameter.
static void forNames(StringRef text, function_ref<void(StringRef)> visit) {
  while (!text.empty()) {
    StringRef name = text.take_while(isName);
    if (!name.empty())
      visit(name);
    text = text.drop_front(std::max<size_t>(name.size(), 1));
  }
}

void Kernel::readStatement(StringRef text, unsigned line) {
  text = text.trim(" \t\r{}");
  Statement made;
  made.line = line;
  if (text.consume_front("@")) {
    made.isGuarded = true;
    text = text.drop_until([](char c) { return isspace(static_cast<unsigned char>(c)); }).ltrim();
  }
  made.opcode = text.take_until([](char c) { return isspace(static_cast<unsigned char>(c)); });
  made.operands = text.drop_front(made.opcode.size()).trim();
  if (made.opcode.empty() || made.opcode.starts_with("."))
    return;
  // The first operand is the result: a register, or several in braces or joined by a bar.
  StringRef result = made.operands.starts_with("{")
                         ? made.operands.take_until([](char c) { return c == '}'; })
                         : made.operands.split(',').first;
  forNames(result, [&](StringRef name) {
    if (name.starts_with("%"))
      definitions[name].push_back(statements.size());
  });
  statements.push_back(made);
}

void Kernel::read(StringRef ptx, StringRef name) {
  size_t entry = ptx.find((".entry " + name + "(").str());
  if (entry == StringRef::npos)
    return;
  bool isInBody = false;
  unsigned number = ptx.take_front(entry).count('\n'), count = 0;
  for (StringRef line : llvm::split(ptx.drop_front(entry), '\n')) {
    ++number;
    StringRef text = line.ltrim();
    if (text.starts_with("// griddepcontrol."))
      text = text.drop_front(3);
    else
      text = text.split("//").first;
    if (!isInBody) {
      if (text.contains(".param")) {
        bool isPointer = text.contains(".u64") || text.contains(".b64");
        StringRef parameter = text.trim(" \t\r,)");
        parameter = parameter.substr(parameter.find_last_of(" \t") + 1);
        parameters[parameter] = isPointer ? std::optional<unsigned>(count) : std::nullopt;
        ++count;
      }
      isInBody = text.trim() == "{";
      continue;
    }
    StringRef trimmed = text.trim();
    if (trimmed == "}")
      return;
    if (!begun.empty())
      text = StringRef(begun.data(), size_t(text.end() - begun.data()));
    bool isWhole = trimmed.empty() || trimmed == "{" || trimmed.starts_with(".") ||
                   trimmed.ends_with(":") || trimmed.contains(';');
    begun = isWhole ? StringRef() : text;
    if (!isWhole)
      continue;
    for (StringRef part : llvm::split(text, ';')) {
      part = part.trim();
      if (size_t colon = part.find(':'); colon != StringRef::npos && part.starts_with("$")) {
        labels[part.take_front(colon)] = statements.size();
        part = part.drop_front(colon + 1);
      }
      readStatement(part, number);
    }
  }
}

void Kernel::findSources(StringRef operands, llvm::StringSet<> &seen, DenseSet<unsigned> &pointers,
                         bool &isLoaded) {
  forNames(operands, [&](StringRef name) {
    if (auto parameter = parameters.find(name); parameter != parameters.end()) {
      if (parameter->second)
        pointers.insert(*parameter->second);
      return;
    }
    if (!name.starts_with("%") || !seen.insert(name).second)
      return;
    for (size_t at : definitions.lookup(name)) {
      const Statement &definition = statements[at];
      isLoaded |=
          (definition.opcode.starts_with("ld.") && !definition.opcode.starts_with("ld.param")) ||
          definition.opcode.starts_with("ldmatrix") || definition.opcode.starts_with("atom");
      findSources(definition.operands, seen, pointers, isLoaded);
    }
  });
}

std::string Kernel::checkEarly(const Statement &statement, ArrayRef<unsigned> constants) {
  StringRef opcode = statement.opcode;
  // cp.async reads global memory at its second address.
  if (opcode.starts_with("cp.async.ca.shared") || opcode.starts_with("cp.async.cg.shared"))
    return checkAddress(statement.operands.split(']').second, constants);
  if (opcode.starts_with("cp."))
    return opcode.starts_with("cp.async.commit_group") || opcode.starts_with("cp.async.wait_")
               ? ""
               : "copies memory in an unknown way before griddepcontrol.wait";
  if (opcode == "ret" || opcode == "exit")
    return "can be reached without griddepcontrol.wait";
  if (opcode.starts_with("call") || opcode.starts_with("brx"))
    return "leaves the checked code before griddepcontrol.wait";
  bool isLoad = opcode.starts_with("ld.");
  bool isMemory = isLoad || opcode.starts_with("st.") || opcode.starts_with("atom") ||
                  opcode.starts_with("red.") || opcode.starts_with("cp.") ||
                  opcode.starts_with("prefetch");
  if (!isMemory || opcode.contains(".shared") || opcode.contains(".local") ||
      opcode.starts_with("ld.param"))
    return "";
  if (!isLoad)
    return "may write to global memory before griddepcontrol.wait";
  return checkAddress(statement.operands.drop_until([](char c) { return c == '['; }), constants);
}

/// Returns why global memory at an address must not be read early; empty if it may.
std::string Kernel::checkAddress(StringRef address, ArrayRef<unsigned> constants) {
  llvm::StringSet<> seen;
  DenseSet<unsigned> pointers;
  bool isLoaded = false;
  findSources(address, seen, pointers, isLoaded);
  if (isLoaded)
    return "reads before griddepcontrol.wait from an address that is loaded";
  for (unsigned pointer : pointers)
    if (!llvm::is_contained(constants, pointer))
      return "reads memory of parameter " + std::to_string(pointer) +
             ", which is not constant, before griddepcontrol.wait";
  return pointers.empty() ? "reads memory of no parameter before griddepcontrol.wait" : "";
}

std::pair<std::string, unsigned> Kernel::check(ArrayRef<unsigned> constants) {
  if (statements.empty())
    return {"there is no such kernel", 0};
  // Another kernel may still write while this one reads through the read-only cache.
  for (const Statement &statement : statements)
    if (statement.opcode.starts_with("ld.global.nc") || statement.opcode.starts_with("ldu"))
      return {"reads through the read-only cache", statement.line};
  std::vector<bool> isEarly(statements.size());
  SmallVector<size_t> open{0};
  while (!open.empty()) {
    size_t at = open.pop_back_val();
    if (at >= statements.size())
      return {"the end can be reached without griddepcontrol.wait", statements.back().line};
    if (isEarly[at])
      continue;
    isEarly[at] = true;
    const Statement &statement = statements[at];
    if (std::string why = checkEarly(statement, constants); !why.empty())
      return {why, statement.line};
    bool isBranch = statement.opcode.starts_with("bra");
    if (isBranch) {
      auto label = labels.find(statement.operands.trim());
      if (label == labels.end())
        return {"branches to an unknown label", statement.line};
      open.push_back(label->second);
    }
    bool isWait = statement.opcode == "griddepcontrol.wait";
    if (statement.isGuarded || (!isBranch && !isWait))
      open.push_back(at + 1);
  }
  return {"", 0};
}

llvm::Error cuda::checkDependentLaunch(StringRef ptx, StringRef kernel,
                                       ArrayRef<unsigned> constants) {
  auto [why, line] = Kernel(ptx, kernel).check(constants);
  if (why.empty())
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "kernel '" + kernel + "'" +
                                     (line ? ", line " + llvm::Twine(line) + " of the PTX" : "") +
                                     ": " + why);
}
