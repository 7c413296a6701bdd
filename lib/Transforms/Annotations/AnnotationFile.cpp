//===- AnnotationFile.cpp - Text format of --annotations ------------------===//

#include "AnnotationFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tpc;

static constexpr llvm::StringLiteral kExample = "write 'PATTERN: [-, tp]', one entry per dimension";

static std::string quote(StringRef text) {
  std::string escaped;
  llvm::raw_string_ostream os(escaped);
  llvm::printEscapedString(text.take_front(40), os);
  return "'" + escaped + (text.size() > 40 ? "…'" : "'");
}

/// Greedy glob matching with backtracking to the last '*': O(pattern * name) steps.
bool AnnotationLine::matches(StringRef name) const {
  StringRef p = pattern;
  size_t i = 0, j = 0, star = StringRef::npos, resume = 0;
  while (j < name.size()) {
    bool escaped = i + 1 < p.size() && p[i] == '\\';
    if (i < p.size() && !escaped && p[i] == '*') {
      star = i++;
      resume = j;
    } else if (i < p.size() && (escaped ? p[i + 1] == name[j] : p[i] == '?' || p[i] == name[j])) {
      i += escaped ? 2 : 1;
      ++j;
    } else if (star != StringRef::npos) {
      i = star + 1;
      j = ++resume;
    } else {
      return false;
    }
  }
  while (i < p.size() && p[i] == '*')
    ++i;
  return i == p.size();
}

static bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

namespace {
class LineParser {
public:
  LineParser(StringRef text, unsigned number, AnnotationLine &line) : text(text), line(line) {
    line.line = number;
  }
  std::optional<AnnotationFault> run();

private:
  AnnotationFault fail(size_t at, const std::string &what) {
    return {line.line, unsigned(at) + 1, what};
  }
  void skip() {
    while (at < text.size() && isBlank(text[at]))
      ++at;
  }
  std::optional<AnnotationFault> parseEntry();

  StringRef text;
  AnnotationLine &line;
  size_t at = 0;
};
} // namespace

std::optional<AnnotationFault> LineParser::parseEntry() {
  skip();
  AnnotationLine::Entry entry;
  entry.column = at + 1;
  if (at < text.size() && (text[at] == '-' || text[at] == '?')) {
    entry.open = text[at++] == '?';
    line.entries.push_back(std::move(entry));
    return std::nullopt;
  }
  while (true) {
    skip();
    size_t begin = at;
    while (at < text.size() && (llvm::isAlnum(text[at]) || text[at] == '_'))
      ++at;
    if (begin == at)
      return fail(at, at < text.size()
                          ? quote(text.substr(at, 1)) +
                                " is not an entry; expected '-', '?', or axes such as tp "
                                "or tp+dp"
                          : "the list has no end; " + kExample.str());
    std::string name = text.slice(begin, at).str();
    for (const AnnotationLine::Axis &other : entry.axes)
      if (other.name == name)
        return fail(begin, "axis '" + name + "' occurs twice in this entry");
    for (const AnnotationLine::Entry &other : line.entries)
      for (const AnnotationLine::Axis &axis : other.axes)
        if (axis.name == name)
          return fail(begin, "axis '" + name + "' splits two dimensions (the other at column " +
                                 std::to_string(axis.column) + "); an axis splits one");
    entry.axes.push_back({name, unsigned(begin) + 1});
    skip();
    if (at >= text.size() || text[at] != '+')
      break;
    ++at;
  }
  line.entries.push_back(std::move(entry));
  return std::nullopt;
}

std::optional<AnnotationFault> LineParser::run() {
  skip();
  size_t begin = at;
  // Names may contain colons and brackets, so the search for the list starts at the end.
  size_t open = text.rfind('[');
  if (open == StringRef::npos || open < begin)
    return fail(begin, "no list; " + kExample.str());
  size_t colon = open;
  while (colon > begin && isBlank(text[colon - 1]))
    --colon;
  if (colon == begin || text[colon - 1] != ':')
    return fail(open, "a colon is missing before the list; " + kExample.str());
  size_t end = colon - 1;
  while (end > begin && isBlank(text[end - 1]))
    --end;
  if (end == begin)
    return fail(begin, "the pattern is missing; " + kExample.str());
  line.pattern = text.slice(begin, end).str();
  line.column = begin + 1;
  line.listColumn = open + 1;

  at = open + 1;
  skip();
  if (at < text.size() && text[at] == ']') {
    ++at; // scalar
  } else {
    while (true) {
      if (auto fault = parseEntry())
        return fault;
      skip();
      if (at < text.size() && text[at] == ',') {
        ++at;
        continue;
      }
      if (at < text.size() && text[at] == ']') {
        ++at;
        break;
      }
      return fail(at, at < text.size()
                          ? quote(text.substr(at, 1)) + " where ',' or ']' was expected"
                          : "the list has no end; ']' is missing");
    }
  }
  skip();
  if (at < text.size())
    return fail(at, quote(text.substr(at)) + " after the list");
  return std::nullopt;
}

std::optional<AnnotationFault> mlir::tpc::parseAnnotations(StringRef text,
                                                           std::vector<AnnotationLine> &lines) {
  unsigned number = 0;
  text.consume_front("\xef\xbb\xbf");
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    ++number;
    for (size_t i = 0; i < line.size(); ++i)
      if (line[i] == '#' && (i == 0 || isBlank(line[i - 1]))) {
        line = line.take_front(i);
        break;
      }
    while (!line.empty() && isBlank(line.back()))
      line = line.drop_back();
    if (line.ltrim(" \t\r").empty())
      continue;
    lines.emplace_back();
    if (auto fault = LineParser(line, number, lines.back()).run())
      return fault;
  }
  return std::nullopt;
}
