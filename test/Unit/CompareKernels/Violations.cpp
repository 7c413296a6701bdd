//===- Violations.cpp - Seeded violations of dependent launches -----------===//

#include "Violations.h"

#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace compare;
using llvm::StringRef;

/// At most this many accesses are moved before the wait.
static constexpr size_t kMaxAccesses = 16;

std::vector<std::string> compare::makeViolations(StringRef ptx, StringRef name,
                                                 bool readsConstants) {
  KernelText kernel(ptx, name);
  std::vector<size_t> waits, accesses, constants;
  std::vector<std::string> pointers; // names of parameters
  for (size_t line = 0; line < kernel.size(); ++line) {
    const std::optional<Statement> &statement = kernel[line];
    if (!statement)
      continue;
    bool isPointer = statement->is("ld.param.b64") || statement->is("ld.param.u64");
    if (statement->is("griddepcontrol.wait"))
      waits.push_back(line);
    else if (isPointer)
      pointers.push_back(StringRef(statement->last()).trim("[]").str());
    else if (!waits.empty() &&
             (statement->is("ld.global") || statement->is("st.global") || statement->is("atom.") ||
              statement->is("red.")) &&
             !StringRef(statement->opcode).contains(".shared"))
      accesses.push_back(line);
    if (readsConstants && isPointer && StringRef(pointers.back()).ends_with("param_0"))
      constants.push_back(line);
  }
  std::vector<std::string> lines;
  const std::string kernelText = kernel.str();
  for (StringRef line : llvm::split(kernelText, '\n'))
    lines.push_back(line.str());
  std::vector<std::string> texts;
  auto add = [&](llvm::function_ref<void(std::vector<std::string> &)> change) {
    std::vector<std::string> changed = lines;
    change(changed);
    texts.push_back(llvm::join(changed, "\n"));
  };
  auto removeWaits = [&](std::vector<std::string> &changed) {
    for (size_t line : waits)
      changed[line].clear();
  };
  add(removeWaits);
  for (size_t line : waits) {
    add([&](auto &changed) { changed[line].clear(); });
    // Some threads do not wait.
    add([&](auto &changed) {
      changed[line] =
          "{ .reg .pred %some; .reg .b32 %own; mov.u32 %own, %tid.x; setp.lt.u32 %some, "
          "%own, 32; @%some griddepcontrol.wait; }";
    });
    // A result is written before the wait.
    add([&](auto &changed) {
      changed[line] = "{ .reg .b64 %to; ld.param.b64 %to, [" + pointers.back() +
                      "]; st.global.b16 [%to], 0; } griddepcontrol.wait;";
    });
    // A thread ends before the wait.
    add([&](auto &changed) {
      changed[line] =
          "{ .reg .pred %some; .reg .b32 %own; mov.u32 %own, %ctaid.x; setp.gt.u32 %some, "
          "%own, 0; @%some ret; } griddepcontrol.wait;";
    });
  }
  for (size_t line : constants)
    add([&](auto &changed) {
      std::string &own = changed[line];
      own.replace(own.find("param_0]"), 8, "param_1]");
    });
  size_t stride = std::max<size_t>(1, accesses.size() / kMaxAccesses);
  for (size_t i = 0; i < accesses.size(); i += stride) {
    size_t line = accesses[i];
    // The wait is after an access to memory that is not constant.
    add([&](auto &changed) {
      removeWaits(changed);
      changed[line] += " griddepcontrol.wait;";
    });
    if (kernel[line]->is("ld.global") && !kernel[line]->is("ld.global.nc"))
      add([&](auto &changed) {
        std::string &own = changed[line];
        own.replace(own.find("ld.global"), 9, "ld.global.nc");
      });
  }
  return texts;
}
