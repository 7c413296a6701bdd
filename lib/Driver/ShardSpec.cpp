//===- ShardSpec.cpp - "tp8,pp4" -------------------------------------------===//

#include "tpc/Driver/ShardSpec.h"

using namespace tpc;

namespace {

/// What the items have said so far.
class Parser {
public:
  Parser(std::string_view text, ShardSpec::For purpose) : text(text), purpose(purpose) {}
  std::optional<ShardSpec> run(std::string &error);

private:
  bool parseItem();
  bool parseNumber(std::string_view digits, std::string_view name, int64_t limit, int64_t &value);
  bool parseOrder(std::string_view names);
  bool setOnce(bool &seen, std::string_view what);
  /// Always false, for `return fail(…)`.
  bool fail(std::string_view what);

  std::string_view text;
  ShardSpec::For purpose;
  size_t column = 0; // of the item, from 0
  std::string_view item;
  std::string message;

  std::array<int64_t, numAxes> sizes = {1, 1, 1, 1, 1};
  std::array<bool, numAxes> seenAxis = {};
  std::vector<Axis> order;
  bool seenOrder = false, seenMicroBatches = false, seenVpp = false, seenEtp = false,
       seenSequence = false, seenReshard = false;
  int64_t microBatches = 1;
};

} // namespace

static constexpr std::string_view example = "for example tp8,pp4 or tp2,pp2,dp2,sp,mb4";

static bool isLower(char c) { return c >= 'a' && c <= 'z'; }
static bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
static bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Quoted for a message: bytes that a terminal may not show are written as \xNN, long items are
/// cut.
static std::string quote(std::string_view item) {
  constexpr size_t limit = 40;
  constexpr char hex[] = "0123456789abcdef";
  std::string result = "'";
  for (char c : item.substr(0, limit)) {
    if (c >= ' ' && c < 0x7f) {
      result += c;
      continue;
    }
    result += "\\x";
    result += hex[uint8_t(c) >> 4];
    result += hex[uint8_t(c) & 15];
  }
  return result + (item.size() > limit ? "…'" : "'");
}

bool Parser::fail(std::string_view what) {
  message = "column " + std::to_string(column + 1) + ": " + quote(item) + ": " + std::string(what);
  return false;
}

bool Parser::setOnce(bool &seen, std::string_view what) {
  if (seen)
    return fail(std::string(what) + " is given twice");
  seen = true;
  return true;
}

bool Parser::parseNumber(std::string_view digits, std::string_view name, int64_t limit,
                         int64_t &value) {
  std::string spelling =
      "write " + std::string(name) + " and a number, such as " + std::string(name) + "2";
  if (digits.empty())
    return fail("the number is missing; " + spelling);
  value = 0;
  bool tooLarge = false;
  for (char c : digits) {
    if (!isDigit(c))
      return fail(quote(digits) + " is not a number; " + spelling);
    value = value * 10 + (c - '0');
    tooLarge |= value > limit;
    if (tooLarge)
      value = limit; // keeps the next step from overflowing; later characters are still looked at
  }
  if (tooLarge)
    return fail("the number is too large: at most " + std::to_string(limit));
  if (value == 0)
    return fail("the number must be at least 1; " + spelling);
  return true;
}

bool Parser::parseOrder(std::string_view names) {
  if (!setOnce(seenOrder, "the order"))
    return false;
  AxisSet seen;
  for (size_t end = 0; end != std::string_view::npos; names.remove_prefix(end + 1)) {
    end = names.find('-');
    std::string_view name = names.substr(0, end);
    std::optional<Axis> axis = parseAxis(name);
    if (!axis)
      return fail(quote(name) + " is not an axis; write axes joined by '-', the one with the "
                                "smallest stride first, such as order=tp-dp-pp");
    if (seen.contains(*axis))
      return fail("axis '" + std::string(name) + "' is twice in the order");
    seen.insert(*axis);
    order.push_back(*axis);
    if (end == std::string_view::npos)
      break;
  }
  return true;
}

static std::string later(std::string_view what) {
  return std::string(what) +
         " belongs to a later stage of the project; this version splits with tp, "
         "pp, dp and sp, " +
         std::string(example);
}

bool Parser::parseItem() {
  if (item.empty())
    return fail("an item is missing; write items separated by commas, " + std::string(example));
  if (item == "sp")
    return setOnce(seenSequence, "'sp'");
  if (item == "allow-reshard")
    return setOnce(seenReshard, "'allow-reshard'");
  if (item.starts_with("order="))
    return parseOrder(item.substr(6));

  size_t letters = 0;
  while (letters < item.size() && isLower(item[letters]))
    ++letters;
  std::string_view name = item.substr(0, letters), rest = item.substr(letters);

  if (name == "mb")
    return setOnce(seenMicroBatches, "'mb'") &&
           parseNumber(rest, name, ShardSpec::maxMicroBatches, microBatches);
  if (name == "vpp" || name == "etp") {
    int64_t value = 1;
    if (!setOnce(name == "vpp" ? seenVpp : seenEtp, "'" + std::string(name) + "'") ||
        !parseNumber(rest, name, Grid::maxWorldSize, value))
      return false;
    return value == 1 ||
           fail(later(name == "vpp" ? "interleaving the pipeline (vpp)"
                                    : "a tensor-parallel size of its own for experts (etp)"));
  }
  if (std::optional<Axis> axis = parseAxis(name)) {
    // tp2x4: a tensor-parallel grid of two dimensions.
    if (size_t x = rest.find('x'); x != std::string_view::npos && x > 0 && x + 1 < rest.size()) {
      int64_t rows = 1, columns = 1;
      if (!parseNumber(rest.substr(0, x), name, Grid::maxWorldSize, rows) ||
          !parseNumber(rest.substr(x + 1), name, Grid::maxWorldSize, columns))
        return false;
      return fail(later("splitting over a grid of two dimensions (" + std::string(item) + ")"));
    }
    int64_t &size = sizes[unsigned(*axis)];
    if (!setOnce(seenAxis[unsigned(*axis)], "axis '" + std::string(name) + "'") ||
        !parseNumber(rest, name, Grid::maxWorldSize, size))
      return false;
    if (purpose == ShardSpec::For::Groups)
      return true;
    if (size > 1 && *axis == Axis::CP)
      return fail(later("context parallelism (cp)"));
    if (size > 1 && *axis == Axis::EP)
      return fail(later("expert parallelism (ep)"));
    return true;
  }

  if (name == "sp")
    return fail("sequence parallelism takes no number: it uses the ranks of tp; write sp");
  if (name == "order")
    return fail("write the axes behind '=', such as order=tp-dp-pp");
  for (char c : item)
    if (isUpper(c))
      return fail("unknown item; items are written in small letters, " + std::string(example));
  return fail("unknown item; expected tpN, ppN, dpN, sp, mbN, order=… or allow-reshard, " +
              std::string(example));
}

std::optional<ShardSpec> Parser::run(std::string &error) {
  if (text.empty()) {
    error = "it is empty; write how many ranks each axis has, " + std::string(example) +
            " (tp1: one rank)";
    return std::nullopt;
  }
  for (size_t begin = 0;;) {
    size_t end = text.find(',', begin);
    column = begin;
    item = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    while (!item.empty() && item.front() == ' ') {
      item.remove_prefix(1);
      ++column;
    }
    while (!item.empty() && item.back() == ' ')
      item.remove_suffix(1);
    if (!parseItem()) {
      error = message;
      return std::nullopt;
    }
    if (end == std::string_view::npos)
      break;
    begin = end + 1;
  }

  std::string reason;
  std::optional<Grid> grid =
      Grid::get(sizes, seenOrder ? std::span<const Axis>(order) : defaultAxisOrder, reason);
  if (!grid) {
    error = quote(text) + ": " + reason;
    if (seenOrder)
      error += "; an order names every axis that has more than one rank, such as "
               "order=tp-cp-ep-dp-pp";
    return std::nullopt;
  }

  ShardSpec spec;
  spec.grid = *grid;
  spec.sequenceParallel = seenSequence && grid->size(Axis::TP) > 1;
  spec.microBatches = microBatches;
  spec.allowReshard = seenReshard;
  if (seenSequence && !spec.sequenceParallel)
    spec.notes.push_back("'sp' has no effect: sequence parallelism uses the ranks of tp, of which "
                         "there is one");
  return spec;
}

std::optional<ShardSpec> ShardSpec::parse(std::string_view text, std::string &error, For purpose) {
  return Parser(text, purpose).run(error);
}

std::string ShardSpec::str() const {
  std::string text;
  auto add = [&](std::string item) {
    if (!text.empty())
      text += ',';
    text += item;
  };
  for (Axis axis : {Axis::TP, Axis::PP, Axis::DP, Axis::CP, Axis::EP})
    if (grid.size(axis) > 1)
      add(std::string(axisName(axis)) + std::to_string(grid.size(axis)));
  if (text.empty())
    text = "tp1";
  if (sequenceParallel)
    add("sp");
  if (microBatches > 1)
    add("mb" + std::to_string(microBatches));
  if (grid.order() != defaultAxisOrder)
    add("order=" + grid.orderText());
  if (allowReshard)
    add("allow-reshard");
  return text;
}
