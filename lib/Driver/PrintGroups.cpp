//===- PrintGroups.cpp - Process groups of ranks --------------------------===//

#include "PrintGroups.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace tpc;

using Groups = std::vector<std::vector<int64_t>>;

/// Returns the groups over the axes that `token` names ("tp-dp"), for ranks laid out over `axes`.
static std::optional<Groups> getGroups(llvm::ArrayRef<ShardSpec::NamedAxis> axes,
                                       llvm::StringRef token, std::string &error) {
  llvm::SmallVector<llvm::StringRef> names;
  for (const ShardSpec::NamedAxis &axis : axes)
    names.push_back(axis.name);
  Grid grid = getGrid(axes);
  uint32_t chosen = 0;
  llvm::SmallVector<llvm::StringRef> wanted;
  token.split(wanted, '-');
  for (llvm::StringRef name : wanted) {
    // A two-dimensional tp stands for tpx and tpy.
    llvm::SmallVector<llvm::StringRef> parts = {name};
    if (name == "tp" && !llvm::is_contained(names, name))
      parts = {"tpx", "tpy"};
    for (llvm::StringRef part : parts) {
      uint32_t axis = grid.maskOf(part);
      if (!axis) {
        error = "'" + name.str() + "' is not an axis: expected " +
                llvm::join(llvm::ArrayRef(names).drop_back(), ", ") + " or " + names.back().str() +
                ", joined by '-' as in tp-dp, or embedding or position-embedding";
        return std::nullopt;
      }
      if (chosen & axis) {
        error = "axis '" + part.str() + "' is given twice";
        return std::nullopt;
      }
      chosen |= axis;
    }
  }
  return grid.groups(chosen);
}

static std::optional<Groups> getGroups(const ShardSpec &spec, llvm::StringRef token,
                                       std::string &error) {
  // Ranks of a pipeline with the token embedding table (the first stage's rows, the last stage's
  // tied head), and the rank with the position table.
  if (token == "embedding" || token == "position-embedding") {
    Groups groups = spec.grid.groups(spec.grid.maskOf("pp"));
    for (std::vector<int64_t> &group : groups) {
      if (token == "embedding" && group.size() > 1)
        group = {group.front(), group.back()};
      else
        group.resize(1);
    }
    return groups;
  }
  llvm::StringRef axes = token;
  bool experts = axes.consume_front("expert:");
  llvm::SmallVector<llvm::StringRef> names;
  axes.split(names, '-');
  auto uses = [&](llvm::StringRef name) { return llvm::is_contained(names, name); };
  if (!experts && uses("ep") && spec.experts.size("ep") > 1) {
    error = "'ep' is an axis of the experts' grid only: write expert:" + axes.str();
    return std::nullopt;
  }
  if (experts && uses("cp") && spec.grid.size("cp") > 1) {
    error = "'cp' is an axis of the dense grid only: for experts it is part of dp";
    return std::nullopt;
  }
  const Grid &grid = experts ? spec.experts : spec.grid;
  bool inTwo = !experts && spec.isTensor2D();
  return getGroups(*makeMesh(grid, grid, inTwo ? spec.tensorX : 0, inTwo ? spec.tensorY : 0), axes,
                   error);
}

static void printText(const ShardSpec &spec, llvm::ArrayRef<std::string> tokens,
                      llvm::ArrayRef<Groups> all, llvm::raw_ostream &os) {
  int64_t world = spec.grid.numRanks();
  os << spec.str() << ": " << world << (world == 1 ? " rank" : " ranks")
     << "; the axis with the smallest stride comes first in " << getOrderText(spec.grid) << "\n";
  for (auto [token, groups] : llvm::zip_equal(tokens, all)) {
    os << "\n"
       << token << ": " << groups.size() << (groups.size() == 1 ? " group" : " groups") << " of "
       << groups.front().size() << "\n";
    for (const std::vector<int64_t> &group : groups) {
      os << " ";
      for (int64_t rank : group)
        os << " " << rank;
      os << "\n";
    }
  }
}

bool tpc::printGroups(const ShardSpec &spec, llvm::ArrayRef<std::string> tokens, bool json,
                      llvm::raw_ostream &os, std::string &error) {
  llvm::SmallVector<Groups> all;
  for (const std::string &token : tokens) {
    std::optional<Groups> groups = getGroups(spec, token, error);
    if (!groups)
      return false;
    all.push_back(std::move(*groups));
  }
  if (!json) {
    printText(spec, tokens, all, os);
    return true;
  }
  llvm::json::OStream out(os);
  out.objectBegin();
  llvm::SmallVector<llvm::StringRef> seen; // JSON keys must be unique
  for (auto [token, groups] : llvm::zip_equal(tokens, all)) {
    if (llvm::is_contained(seen, token))
      continue;
    seen.push_back(token);
    out.attributeArray(token, [&, &groups = groups] {
      for (const std::vector<int64_t> &group : groups)
        out.array([&] {
          for (int64_t rank : group)
            out.value(rank);
        });
    });
  }
  out.objectEnd();
  os << "\n";
  return true;
}
