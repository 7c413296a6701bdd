//===- PrintGroups.cpp - Which ranks communicate ---------------------------===//

#include "PrintGroups.h"

#include "llvm/Support/JSON.h"

using namespace tpc;

static void printText(const ShardSpec &spec, llvm::ArrayRef<std::string> tokens,
                      llvm::ArrayRef<AxisSet> sets, llvm::raw_ostream &os) {
  int64_t world = spec.grid.worldSize();
  os << spec.str() << ": " << world << (world == 1 ? " rank" : " ranks")
     << "; the axis with the smallest stride comes first in " << spec.grid.orderText() << "\n";
  for (auto [token, set] : llvm::zip_equal(tokens, sets)) {
    int64_t size = spec.grid.groupSize(set);
    os << "\n"
       << token << ": " << world / size << (world == size ? " group" : " groups") << " of " << size
       << "\n";
    for (const std::vector<int64_t> &group : spec.grid.groups(set)) {
      os << " ";
      for (int64_t rank : group)
        os << " " << rank;
      os << "\n";
    }
  }
}

bool tpc::printGroups(const ShardSpec &spec, llvm::ArrayRef<std::string> tokens, bool json,
                      llvm::raw_ostream &os, std::string &error) {
  llvm::SmallVector<AxisSet> sets;
  for (const std::string &token : tokens) {
    std::optional<AxisSet> set = AxisSet::parse(token, error);
    if (!set)
      return false;
    sets.push_back(*set);
  }
  if (!json) {
    printText(spec, tokens, sets, os);
    return true;
  }
  llvm::json::OStream out(os);
  out.objectBegin();
  llvm::SmallVector<llvm::StringRef> seen; // a key must not be there twice
  for (auto [token, set] : llvm::zip_equal(tokens, sets)) {
    if (llvm::is_contained(seen, token))
      continue;
    seen.push_back(token);
    out.attributeArray(token, [&, set = set] {
      for (const std::vector<int64_t> &group : spec.grid.groups(set))
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
