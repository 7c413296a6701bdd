//===- BreakLines.cpp - Line breaks of printed programs -------------------===//

#include "PrintProgram.h"

#include "llvm/Support/raw_ostream.h"

#include <climits>

using namespace tpc;
using llvm::StringRef;

/// Returns the space at which a line is broken; npos: none.
static size_t findBreak(StringRef line, size_t begin, unsigned width) {
  // Candidates: the best space in the second half of the line, the last good space in the first
  // half, any space.
  size_t best = StringRef::npos, early = StringRef::npos, any = StringRef::npos;
  int depth = 0, minBadness = INT_MAX;
  bool quoted = false;
  for (size_t i = begin; i < line.size(); ++i) {
    if (i > width && any != StringRef::npos)
      break;
    char c = line[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      quoted = c != '"';
      continue;
    }
    StringRef rest = line.drop_front(i);
    if (c == '"')
      quoted = true;
    else if (rest.starts_with("//"))
      break; // a continuation line would not be part of the comment
    else if (rest.starts_with("->"))
      ++i;
    else if (StringRef("([{<").contains(c))
      ++depth;
    else if (StringRef(")]}>").contains(c))
      --depth;
    else if (c == ' ' && i > begin) {
      any = i;
      // No break between a name and its value.
      if (line[i - 1] == '=' || rest.starts_with(" = "))
        continue;
      bool good = line[i - 1] == ',' || rest.starts_with(" : ") || rest.starts_with(" -> ");
      int badness = 2 * depth + !good;
      if (i > width / 2 && badness <= minBadness) {
        best = i;
        minBadness = badness;
      } else if (i <= width / 2 && good) {
        early = i;
      }
    }
  }
  return best != StringRef::npos ? best : early != StringRef::npos ? early : any;
}

void tpc::breakLines(StringRef text, unsigned width, llvm::raw_ostream &os) {
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    bool ended = line.size() < text.size();
    text = rest;
    size_t indent = std::min(line.find_first_not_of(' '), line.size());
    // `begin`: the remaining text. `spaces`: indentation of the next line.
    size_t spaces = 0, begin = indent;
    while (spaces + line.size() > width) {
      size_t at = findBreak(line, begin, width - spaces);
      if (at == StringRef::npos || at + 1 == line.size())
        break;
      os.indent(spaces) << line.take_front(at) << "\n";
      line = line.drop_front(at + 1);
      spaces = indent + 4;
      begin = 0;
    }
    os.indent(spaces) << line;
    if (ended)
      os << "\n";
  }
}
