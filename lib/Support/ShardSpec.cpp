//===- ShardSpec.cpp - Parser of --megatron-shard -------------------------===//

#include "tpc/Support/ShardSpec.h"

#include <algorithm>

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
  bool addExpertRanks(std::array<int64_t, numAxes> &dense);
  bool checkExpertGroups(const ShardSpec &spec);
  /// Sets the message and returns false, for `return fail(…)`.
  bool fail(std::string_view what);

  std::string_view text;
  ShardSpec::For purpose;
  size_t column = 0; // column of the item, from 0
  std::string_view item;
  std::string message;

  std::array<int64_t, numAxes> sizes = {1, 1, 1, 1, 1};
  std::array<bool, numAxes> seenAxis = {};
  std::vector<Axis> order;
  bool seenOrder = false, seenMicroBatches = false, seenVpp = false, seenEtp = false,
       groupsReplicas = false, seenSequence = false, seenReshard = false, seenNode = false,
       seenManual = false;
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
  AxisSet seen;
  for (size_t end = 0; end != std::string_view::npos; names.remove_prefix(end + 1)) {
    end = names.find('-');
    std::string_view name = names.substr(0, end);
    std::optional<Axis> axis = parseAxis(name);
    if (!axis)
      return fail(quote(name) + " is not an axis; write axes joined by '-', the one with the "
                                "smallest stride first, such as order=tp-dp-pp");
    if (seen.contains(*axis))
      return fail("axis '" + std::string(name) + "' occurs twice in the order");
    seen.insert(*axis);
    order.push_back(*axis);
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
  if (!parseNumber(rows, "tp", Grid::maxWorldSize, tensorX) ||
      !parseNumber(columns, "tp" + std::string(rows) + "x", Grid::maxWorldSize, tensorY))
    return false;
  if (tensorX > Grid::maxWorldSize / tensorY)
    return fail("the grid has more than " + std::to_string(Grid::maxWorldSize) + " ranks");
  sizes[unsigned(Axis::TP)] = tensorX * tensorY;
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
           parseNumber(item.substr(node.size()), node, Grid::maxWorldSize, gpusPerNode);

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
    return setOnce(seenEtp, "'etp'") && parseNumber(rest, name, Grid::maxWorldSize, expertTensor);
  }
  if (std::optional<Axis> axis = parseAxis(name)) {
    if (!setOnce(seenAxis[unsigned(*axis)], "axis '" + std::string(name) + "'"))
      return false;
    if (size_t x = rest.find('x'); x != std::string_view::npos && x > 0 && x + 1 < rest.size()) {
      if (*axis == Axis::TP)
        return parseTensor2D(rest.substr(0, x), rest.substr(x + 1));
      return fail("only tp has two dimensions, such as tp2x4");
    }
    int64_t &size = sizes[unsigned(*axis)];
    if (!parseNumber(rest, name, Grid::maxWorldSize, size))
      return false;
    if (purpose == ShardSpec::For::Groups || size == 1)
      return true;
    return *axis != Axis::CP || fail(onlyGroups("shards of the context (cp)"));
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

/// Adds an axis ep to the dense grid for the ranks of experts beyond those of tp. Without dp, ranks
/// along this axis have the same tokens, and replicate all layers without experts. With dp, the
/// axis is the minor part of dp; if it is all of dp, the axis is dp.
bool Parser::addExpertRanks(std::array<int64_t, numAxes> &dense) {
  int64_t ep = sizes[unsigned(Axis::EP)], tp = sizes[unsigned(Axis::TP)];
  int64_t etp = seenEtp ? expertTensor : tp;
  if (ep == 1 && etp == tp)
    return true;
  auto refuse = [&](std::string why) {
    message = quote(text) + ": " + why + "; tpc partitions experts over ep with etp equal to tp " +
              "(tp2,ep4: each expert is split over tp), or with etp1 and ep a multiple of tp "
              "(tp2,ep2,etp1: experts are split over the ranks of tp)";
    return false;
  };
  if (tensorX > 0)
    return refuse("experts and two-dimensional tp are not supported together");
  if (etp != tp && etp != 1)
    return refuse("etp" + std::to_string(etp) + " with tp" + std::to_string(tp) +
                  " is not supported");
  if (etp != tp && ep % tp != 0)
    return refuse("ep" + std::to_string(ep) + " with etp1 is not a multiple of tp" +
                  std::to_string(tp));
  int64_t added = etp == tp ? ep : ep / tp, dp = sizes[unsigned(Axis::DP)];
  if (added > 1 && dp > 1 && dp % added != 0)
    return refuse(
        "the replicas of dp" + std::to_string(dp) + " cannot form groups of " +
        std::to_string(added) + " that have all experts, such as with " +
        (etp == tp ? "ep" + std::to_string(dp) : "ep" + std::to_string(dp * tp) + ",etp1") +
        "; without dp, the ranks of ep have the same tokens");
  if (added > 1 && dp > 1 && microBatches > 1)
    return refuse("ep over the replicas of dp" + std::to_string(dp) + " with mb" +
                  std::to_string(microBatches) + " is not supported; remove mb or dp");
  if (added < dp) {
    dense[unsigned(Axis::DP)] = dp / added;
    groupsReplicas = added > 1;
  }
  if (added != dp || dp == 1)
    dense[unsigned(Axis::EP)] = added;
  return true;
}

/// Derives the experts' grid over the same ranks.
bool Parser::setExperts(ShardSpec &spec) {
  int64_t ep = sizes[unsigned(Axis::EP)], pp = sizes[unsigned(Axis::PP)];
  int64_t etp = seenEtp ? expertTensor : sizes[unsigned(Axis::TP)];
  int64_t world = spec.grid.worldSize();
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
  std::array<int64_t, numAxes> expertSizes = {etp, 1, ep, world / (etp * ep * pp), pp};
  std::optional<Grid> grid = Grid::get(expertSizes, spec.grid.order(), reason);
  if (!grid) {
    message = quote(text) + ": " + reason;
    return false;
  }
  spec.experts = *grid;
  if (pp == 1 || !seenOrder || order.back() == Axis::PP)
    return true;
  // Groups of equal size are equal if their strides are equal.
  int64_t stride = spec.grid.stride(Axis::PP), expertStride = grid->stride(Axis::PP);
  int64_t dp = sizes[unsigned(Axis::DP)], edp = grid->size(Axis::DP);
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

/// Checks that the ranks of ep are those that the dense grid splits experts over.
bool Parser::checkExpertGroups(const ShardSpec &spec) {
  AxisSet dense;
  if (spec.grid.size(Axis::EP) > 1)
    dense.insert(Axis::EP);
  if (spec.experts.size(Axis::TP) < spec.grid.size(Axis::TP))
    dense.insert(Axis::TP);
  if (spec.splitsExpertsOverReplicas())
    dense.insert(Axis::DP);
  if (dense.empty())
    return true;
  auto expected = spec.experts.groups({Axis::EP}), found = spec.grid.groups(dense);
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  if (expected == found)
    return true;
  message = quote(text) + ": in this order, the ranks of ep differ from those that hold the same "
                          "tokens; use the default order, tp-cp-ep-dp-pp";
  return false;
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

  if (chunksPerRank > 1 && sizes[unsigned(Axis::PP)] == 1) {
    std::string vpp = "vpp" + std::to_string(chunksPerRank);
    error = quote(text) + ": " + vpp + " puts " + std::to_string(chunksPerRank) +
            " chunks of the model on each rank of a pipeline, but pp has one rank; write pp2," +
            vpp + ", or remove " + vpp;
    return std::nullopt;
  }

  std::string reason;
  std::array<int64_t, numAxes> dense = sizes;
  dense[unsigned(Axis::EP)] = 1;
  if (purpose == ShardSpec::For::Partition && !addExpertRanks(dense)) {
    error = message;
    return std::nullopt;
  }
  std::optional<Grid> grid =
      Grid::get(dense, seenOrder ? std::span<const Axis>(order) : defaultAxisOrder, reason);
  if (!grid) {
    error = quote(text) + ": " + reason;
    if (seenOrder)
      error += "; an order names every axis that has more than one rank, such as "
               "order=tp-cp-ep-dp-pp";
    return std::nullopt;
  }

  ShardSpec spec;
  spec.grid = *grid;
  if (!setExperts(spec) || (purpose == ShardSpec::For::Partition && !checkExpertGroups(spec))) {
    error = message;
    return std::nullopt;
  }
  spec.groupsReplicas = groupsReplicas;
  spec.tensorX = tensorX;
  spec.tensorY = tensorY;
  spec.gpusPerNode = gpusPerNode;
  spec.sequenceParallel = seenSequence && grid->size(Axis::TP) > 1;
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
  if (purpose == ShardSpec::For::Partition && grid->worldSize() > maxThreads)
    spec.notes.push_back(std::to_string(grid->worldSize()) +
                         " ranks need one process each, because a process can usually have about " +
                         std::to_string(maxThreads) + " threads");
  return spec;
}

std::optional<ShardSpec> ShardSpec::parse(std::string_view text, std::string &error, For purpose) {
  return Parser(text, purpose).run(error);
}

std::vector<ShardSpec::NamedAxis> ShardSpec::axes() const {
  std::vector<NamedAxis> result;
  int64_t stride = 1;
  auto add = [&](std::string name, int64_t size) {
    result.push_back({std::move(name), size, stride});
    stride *= size;
  };
  for (Axis axis : grid.order()) {
    if (axis == Axis::TP && isTensor2D()) {
      add("tpx", tensorX);
      add("tpy", tensorY);
    } else {
      add(std::string(axisName(axis)), grid.size(axis));
    }
  }
  return result;
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
  for (Axis axis : {Axis::TP, Axis::PP, Axis::DP, Axis::CP})
    if (int64_t size = axis == Axis::DP ? getReplicas() : grid.size(axis);
        size > 1 && !(axis == Axis::TP && isTensor2D()))
      add(std::string(axisName(axis)) + std::to_string(size));
  if (experts.size(Axis::EP) > 1)
    add("ep" + std::to_string(experts.size(Axis::EP)));
  if (experts.size(Axis::TP) != grid.size(Axis::TP))
    add("etp" + std::to_string(experts.size(Axis::TP)));
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
  if (grid.order() != defaultAxisOrder)
    add("order=" + grid.orderText());
  if (manual)
    add("manual");
  if (allowReshard)
    add("allow-reshard");
  return text;
}
