//===- ShardSpec.cpp - Parser of --megatron-shard -------------------------===//

#include "tpc/Support/ShardSpec.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tpc;

namespace {

/// Parser with the values of the items parsed so far.
class Parser {
public:
  Parser(std::string_view text, ShardSpec::For purpose) : text(text), purpose(purpose) {}
  std::optional<ShardSpec> run(std::string &error);

private:
  bool parseItem();
  bool parseNumber(std::string_view digits, std::string_view name, int64_t limit, int64_t &value);
  bool parseOrder(std::string_view names);
  bool parseTensor2D(std::string_view rows, std::string_view columns);
  bool setOnce(bool &seen, std::string_view what);
  bool setExperts(ShardSpec &spec);
  bool addExpertRanks(AxisSizes &dense);
  std::string suggestExperts() const;
  /// Sets the message and returns false, for `return fail(…)`.
  bool fail(std::string_view what);

  std::string_view text;
  ShardSpec::For purpose;
  size_t column = 0; // column of the item, from 0
  std::string_view item;
  std::string message;

  AxisSizes sizes = {{"tp", 1}, {"cp", 1}, {"ep", 1}, {"dp", 1}, {"pp", 1}};
  std::map<std::string, bool, std::less<>> seenAxis;
  std::vector<std::string_view> order; // parts of `text`
  bool seenOrder = false, seenMicroBatches = false, seenVpp = false, seenEtp = false,
       seenSequence = false, seenReshard = false, seenNode = false, seenManual = false;
  int64_t microBatches = 1, chunksPerRank = 1, expertTensor = 1, tensorX = 0, tensorY = 0,
          gpusPerNode = 0;
};

} // namespace

static constexpr std::string_view example = "for example tp8,pp4 or tp2,pp2,dp2,sp,mb4";

static bool isLower(char c) { return c >= 'a' && c <= 'z'; }
static bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
static bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Quotes a text for a message: non-printable bytes are written as \xNN, long items are truncated.
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
      value = limit; // prevents overflow; later characters are still checked
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
  for (size_t end = 0; end != std::string_view::npos; names.remove_prefix(end + 1)) {
    end = names.find('-');
    std::string_view name = names.substr(0, end);
    if (!isAxis(name))
      return fail(quote(name) + " is not an axis; write axes joined by '-', the one with the "
                                "smallest stride first, such as order=tp-dp-pp");
    if (std::ranges::find(order, name) != order.end())
      return fail("axis '" + std::string(name) + "' occurs twice in the order");
    order.push_back(name);
    if (end == std::string_view::npos)
      break;
  }
  return true;
}

/// Error message for an axis that only --print-groups supports.
static std::string onlyGroups(std::string_view what) {
  return "no tactic splits a program over " + std::string(what) +
         "; only --print-groups accepts it. Split with tp, pp, dp and sp, " + std::string(example);
}

/// Parses tp2x4: `rows` "2", `columns` "4".
bool Parser::parseTensor2D(std::string_view rows, std::string_view columns) {
  if (!parseNumber(rows, "tp", maxWorldSize, tensorX) ||
      !parseNumber(columns, "tp" + std::string(rows) + "x", maxWorldSize, tensorY))
    return false;
  if (tensorX > maxWorldSize / tensorY)
    return fail("the grid has more than " + std::to_string(maxWorldSize) + " ranks");
  sizes["tp"] = tensorX * tensorY;
  if (tensorX * tensorY == 1)
    tensorX = tensorY = 0;
  return true;
}

bool Parser::parseItem() {
  if (item.empty())
    return fail("an item is missing; write items separated by commas, " + std::string(example));
  if (item == "sp")
    return setOnce(seenSequence, "'sp'");
  if (item == "manual")
    return setOnce(seenManual, "'manual'");
  if (item == "allow-reshard")
    return setOnce(seenReshard, "'allow-reshard'");
  if (item.starts_with("order="))
    return parseOrder(item.substr(6));
  constexpr std::string_view node = "gpus-per-node=";
  if (item.starts_with(node))
    return setOnce(seenNode, "the number of GPUs of a node") &&
           parseNumber(item.substr(node.size()), node, maxWorldSize, gpusPerNode);

  size_t letters = 0;
  while (letters < item.size() && isLower(item[letters]))
    ++letters;
  std::string_view name = item.substr(0, letters), rest = item.substr(letters);

  if (name == "mb")
    return setOnce(seenMicroBatches, "'mb'") &&
           parseNumber(rest, name, ShardSpec::maxMicroBatches, microBatches);
  if (name == "vpp")
    return setOnce(seenVpp, "'vpp'") &&
           parseNumber(rest, name, ShardSpec::maxChunksPerRank, chunksPerRank);
  if (name == "etp") {
    return setOnce(seenEtp, "'etp'") && parseNumber(rest, name, maxWorldSize, expertTensor);
  }
  if (isAxis(name)) {
    if (!setOnce(seenAxis[std::string(name)], "axis '" + std::string(name) + "'"))
      return false;
    if (size_t x = rest.find('x'); x != std::string_view::npos && x > 0 && x + 1 < rest.size()) {
      if (name == "tp")
        return parseTensor2D(rest.substr(0, x), rest.substr(x + 1));
      return fail("only tp has two dimensions, such as tp2x4");
    }
    int64_t &size = sizes.find(name)->second;
    if (!parseNumber(rest, name, maxWorldSize, size))
      return false;
    if (purpose == ShardSpec::For::Groups || size == 1)
      return true;
    return name != "cp" || fail(onlyGroups("shards of the context (cp)"));
  }

  if (name == "sp")
    return fail("sequence parallelism takes no number: it uses the ranks of tp; write sp");
  if (name == "order")
    return fail("write the axes after '=', such as order=tp-dp-pp");
  if (name == "gpus")
    return fail("write the number after '=', such as gpus-per-node=8");
  for (char c : item)
    if (isUpper(c))
      return fail("unknown item; items are written in small letters, " + std::string(example));
  return fail(
      "unknown item; expected tpN, ppN, vppN, dpN, epN, etpN, sp, mbN, order=…, gpus-per-node=N, "
      "manual or allow-reshard, " +
      std::string(example));
}

static std::vector<int64_t> getDivisors(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= n; ++i)
    if (n % i == 0)
      divisors.push_back(i);
  return divisors;
}

/// Returns the valid sizes of ep and etp that are nearest to the given ones, by ratio: tp must
/// divide etp·ep, and the quotient must divide dp unless dp is 1 (then ep adds ranks). Example:
/// "tp4,dp2,ep4,etp2".
std::string Parser::suggestExperts() const {
  int64_t tp = sizes.at("tp"), dp = sizes.at("dp");
  double ep = double(sizes.at("ep")), etp = double(seenEtp ? expertTensor : tp);
  double minDistance = std::numeric_limits<double>::infinity();
  int64_t bestEp = 1, bestEtp = tp;
  std::vector<int64_t> others = getDivisors(dp);
  for (int64_t tensor : getDivisors(tp)) {
    int64_t shared = tp / tensor; // ranks of tp that are ranks of ep
    if (dp == 1)                  // ep adds ranks
      others = {std::max<int64_t>(int64_t(ep) / shared, 1), int64_t(ep) / shared + 1};
    for (int64_t other : others) {
      int64_t experts = shared * other;
      double distance =
          std::abs(std::log(double(experts) / ep)) + std::abs(std::log(double(tensor) / etp));
      if (experts > 1 && distance < minDistance) {
        minDistance = distance;
        bestEp = experts;
        bestEtp = tensor;
      }
    }
  }
  std::string text;
  for (auto [name, size] : {std::pair("tp", tp), std::pair("dp", dp), std::pair("ep", bestEp)})
    if (size > 1)
      text += (text.empty() ? "" : ",") + std::string(name) + std::to_string(size);
  return bestEtp == tp ? text : text + ",etp" + std::to_string(bestEtp);
}

/// Checks ep and etp. Without dp, adds to the dense grid an axis ep for the ranks of experts beyond
/// those of tp; ranks along it have the same tokens and replicate all layers without experts.
bool Parser::addExpertRanks(AxisSizes &dense) {
  int64_t ep = sizes["ep"], tp = sizes["tp"];
  int64_t etp = seenEtp ? expertTensor : tp, dp = sizes["dp"];
  if (ep == 1 && etp == tp)
    return true;
  auto refuse = [&](const std::string &why, bool suggest = true) {
    message = quote(text) + ": " + why;
    if (std::string nearest = suggestExperts(); suggest && !nearest.empty())
      message += "; the nearest that fits is " + nearest;
    return false;
  };
  auto number = [](std::string_view name, int64_t size) {
    return std::string(name) + std::to_string(size);
  };
  if (tensorX > 0)
    return refuse("experts and two-dimensional tp are not supported together", false);
  if (tp % etp)
    return refuse(number("etp", etp) + " does not divide " + number("tp", tp) +
                  ", and the ranks that split an expert are ranks of tp");
  if (ep % (tp / etp))
    return refuse(number("ep", ep) + " is not a multiple of tp/etp = " + std::to_string(tp / etp) +
                  ", so that ranks of tp would have the same experts");
  int64_t added = ep / (tp / etp);
  if (dp % added && dp > 1)
    return refuse("the replicas of " + number("dp", dp) + " cannot form groups of " +
                  std::to_string(added) +
                  " that have all experts; without dp, ep adds ranks of its own");
  if (added > 1 && dp > 1 && microBatches > 1)
    return refuse("ep over the replicas of " + number("dp", dp) + " with " +
                      number("mb", microBatches) + " is not supported; remove mb or dp",
                  false);
  if (dp == 1)
    dense["ep"] = added;
  return true;
}

/// Derives the experts' grid over the same ranks.
bool Parser::setExperts(ShardSpec &spec) {
  int64_t ep = sizes["ep"], pp = sizes["pp"];
  int64_t etp = seenEtp ? expertTensor : sizes["tp"];
  int64_t world = spec.grid.numRanks();
  // All sizes are at most 2^20, so products do not overflow.
  if (world % (etp * ep * pp)) {
    message = quote(text) + ": experts need ranks for etp " + std::to_string(etp) + " · ep " +
              std::to_string(ep) + " · pp " + std::to_string(pp) + " = " +
              std::to_string(etp * ep * pp) + ", but the " + std::to_string(world) +
              " ranks of tp · cp · dp · pp are not a multiple of that; use another ep" +
              (seenEtp ? "" : ", or set the number of ranks that split an expert, such as etp1");
    return false;
  }
  std::string reason;
  AxisSizes expertSizes = {{"tp", etp}, {"ep", ep}, {"dp", world / (etp * ep * pp)}, {"pp", pp}};
  std::vector<std::string_view> names;
  for (const Grid::Axis &axis : spec.grid.axes())
    names.push_back(axis.name);
  std::optional<Grid> grid = makeGrid(expertSizes, names, reason);
  if (!grid) {
    message = quote(text) + ": " + reason;
    return false;
  }
  spec.experts = *grid;
  if (pp == 1 || !seenOrder || order.back() == "pp")
    return true;
  // Groups of equal size are equal if their strides are equal.
  int64_t stride = spec.grid.stride("pp"), expertStride = grid->stride("pp");
  int64_t dp = sizes["dp"], edp = grid->size("dp");
  if (stride != expertStride)
    spec.notes.push_back(
        "in this order the pipelines of experts (ranks 0, " + std::to_string(expertStride) +
        ", …) differ from those of the other layers (ranks 0, " + std::to_string(stride) +
        ", …), so that no model can run on it; an order that ends with pp has one "
        "set of pipelines");
  else if (dp != edp)
    spec.notes.push_back("experts have " + std::to_string(edp) +
                         " replicas (edp = tp · cp · dp / (etp · ep)), the other layers " +
                         std::to_string(dp) +
                         " (dp): Megatron-Core takes such a grid only in an order that ends "
                         "with pp");
  return true;
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

  if (chunksPerRank > 1 && sizes["pp"] == 1) {
    std::string vpp = "vpp" + std::to_string(chunksPerRank);
    error = quote(text) + ": " + vpp + " puts " + std::to_string(chunksPerRank) +
            " chunks of the model on each rank of a pipeline, but pp has one rank; write pp2," +
            vpp + ", or remove " + vpp;
    return std::nullopt;
  }

  std::string reason;
  AxisSizes dense = sizes;
  dense["ep"] = 1;
  if (purpose == ShardSpec::For::Partition && !addExpertRanks(dense)) {
    error = message;
    return std::nullopt;
  }
  std::optional<Grid> grid = makeGrid(
      dense, seenOrder ? std::span<const std::string_view>(order) : defaultAxisOrder, reason);
  if (!grid) {
    error = quote(text) + ": " + reason;
    if (seenOrder)
      error += "; an order names every axis that has more than one rank, such as "
               "order=tp-cp-ep-dp-pp";
    return std::nullopt;
  }

  ShardSpec spec;
  spec.grid = *grid;
  if (!setExperts(spec)) {
    error = message;
    return std::nullopt;
  }
  spec.tensorX = tensorX;
  spec.tensorY = tensorY;
  if (purpose == ShardSpec::For::Partition && !makeMesh(spec.grid, spec.experts)) {
    error = quote(text) + ": in this order, the ranks of ep differ from those that have the same "
                          "tokens; use the default order, tp-cp-ep-dp-pp";
    return std::nullopt;
  }
  spec.gpusPerNode = gpusPerNode;
  spec.sequenceParallel = seenSequence && grid->size("tp") > 1;
  spec.microBatches = microBatches;
  spec.chunksPerRank = chunksPerRank;
  spec.allowReshard = seenReshard;
  spec.manual = seenManual;
  if (seenSequence && !spec.sequenceParallel)
    spec.notes.push_back("'sp' has no effect: sequence parallelism uses the ranks of tp, and tp "
                         "has one rank");
  if (seenSequence && spec.isTensor2D()) {
    spec.sequenceParallel = false;
    spec.notes.push_back("'sp' has no effect: with tp" + std::to_string(tensorX) + "x" +
                         std::to_string(tensorY) +
                         ", the residual is split over its width instead of its tokens");
  }
  // A process can typically have 65,530 mappings, and the stack of each thread needs two.
  constexpr int64_t maxThreads = 32000;
  if (purpose == ShardSpec::For::Partition && grid->numRanks() > maxThreads)
    spec.notes.push_back(std::to_string(grid->numRanks()) +
                         " ranks need one process each, because a process can usually have about " +
                         std::to_string(maxThreads) + " threads");
  return spec;
}

ShardSpec::ShardSpec() {
  std::string error;
  grid = experts = *makeGrid({}, defaultAxisOrder, error);
}

std::optional<ShardSpec> ShardSpec::parse(std::string_view text, std::string &error, For purpose) {
  return Parser(text, purpose).run(error);
}

std::vector<ShardSpec::NamedAxis> ShardSpec::axes() const {
  std::optional<std::vector<MeshAtom>> atoms = makeMesh(grid, experts, tensorX, tensorY);
  // For groups alone, experts may have any grid.
  return atoms ? *atoms : *makeMesh(grid, grid, tensorX, tensorY);
}

std::vector<ShardSpec::NamedAxis> ShardSpec::getView(std::string_view view) const {
  std::vector<NamedAxis> atoms = axes();
  std::erase_if(atoms, [&](const NamedAxis &atom) { return !atom.isIn(view); });
  std::reverse(atoms.begin(), atoms.end());
  return atoms;
}

std::string ShardSpec::str() const {
  std::string text;
  auto add = [&](std::string item) {
    if (!text.empty())
      text += ',';
    text += item;
  };
  if (isTensor2D())
    add("tp" + std::to_string(tensorX) + "x" + std::to_string(tensorY));
  for (std::string axis : {"tp", "pp", "dp", "cp"})
    if (grid.size(axis) > 1 && !(axis == "tp" && isTensor2D()))
      add(axis + std::to_string(grid.size(axis)));
  if (experts.size("ep") > 1)
    add("ep" + std::to_string(experts.size("ep")));
  if (experts.size("tp") != grid.size("tp"))
    add("etp" + std::to_string(experts.size("tp")));
  if (text.empty())
    text = "tp1";
  if (sequenceParallel)
    add("sp");
  if (chunksPerRank > 1)
    add("vpp" + std::to_string(chunksPerRank));
  if (microBatches > 1)
    add("mb" + std::to_string(microBatches));
  if (gpusPerNode)
    add("gpus-per-node=" + std::to_string(gpusPerNode));
  if (std::string order = getOrderText(grid); order != getOrderText(ShardSpec().grid))
    add("order=" + order);
  if (manual)
    add("manual");
  if (allowReshard)
    add("allow-reshard");
  return text;
}
