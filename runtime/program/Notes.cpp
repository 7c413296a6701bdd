//===- Notes.cpp - what users are told beside results ---------------------===//

#include "program/Notes.h"
#include "tpc/printable.h"
#include <cstdio>

namespace tpc::rt {

static thread_local std::vector<std::string> *collected = nullptr;

void note(const std::string &text) {
  if (collected)
    collected->push_back(printable(text));
  else
    std::fprintf(stderr, "note: %s\n", printable(text).c_str());
}

void collectNotes(std::vector<std::string> *into) { collected = into; }

} // namespace tpc::rt
