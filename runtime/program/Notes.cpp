//===- Notes.cpp - Notes for the user -------------------------------------===//

#include "program/Notes.h"
#include "core/Diagnostic.h"
#include "tpc/printable.h"

namespace tpc::rt {

static thread_local std::vector<std::string> *collected = nullptr;

void note(const std::string &text) {
  if (collected)
    collected->push_back(printable(text));
  else
    printDiagnostic("note", text);
}

void collectNotes(std::vector<std::string> *into) { collected = into; }

} // namespace tpc::rt
