//===- Coverage.cpp - Facts of a program that runs exercise ---------------===//

#include "Coverage.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

static StringRef getText(Fact fact) {
  switch (fact) {
  case Fact::WindowShows:
    return "the last key inside of its window is seen";
  case Fact::WindowHides:
    return "the first key outside of its window is hidden";
  case Fact::CausalShows:
    return "a query sees its own token";
  case Fact::CausalHides:
    return "the next token is hidden";
  case Fact::KeyMaskShows:
    return "its key mask shows a key";
  case Fact::KeyMaskHides:
    return "its key mask hides a key";
  case Fact::MaskShows:
    return "its mask shows a key";
  case Fact::MaskHides:
    return "its mask hides a key";
  case Fact::Capped:
    return "numbers come near its cap";
  case Fact::NotFlat:
    return "scores of a query differ";
  case Fact::True:
    return "it is true of an element";
  case Fact::False:
    return "it is false of an element";
  case Fact::FirstOperand:
    return "an element is that of its first operand";
  case Fact::SecondOperand:
    return "an element is that of its second operand";
  case Fact::FirstRow:
    return "the first row of its table is looked up";
  case Fact::LastRow:
    return "the last row of its table is looked up";
  }
  llvm_unreachable("all facts are listed");
}

static std::string describe(Operation *op) {
  return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
}

SmallVector<std::pair<Operation *, Fact>> Coverage::missing(Facts which) const {
  SmallVector<std::pair<Operation *, Fact>> found;
  for (auto &[op, entry] : entries)
    for (unsigned i = 0; i < numFacts; ++i)
      if (Fact fact = Fact(i); entry.all.without(entry.seen).contains(fact) && which.contains(fact))
        found.push_back({op, fact});
  return found;
}

std::string Coverage::explainMissing() const {
  auto all = missing(required());
  if (all.empty())
    return "";
  return describe(all[0].first) + ": it is not exercised that " + getText(all[0].second).str();
}

std::string Coverage::listUnexercised() const {
  auto all = missing(counted());
  if (all.empty())
    return "";
  std::string text =
      "not exercised: " + describe(all[0].first) + ": " + getText(all[0].second).str();
  return all.size() == 1 ? text : text + "; and " + std::to_string(all.size() - 1) + " more";
}

void Coverage::print(llvm::raw_ostream &os) const {
  for (auto &[op, entry] : entries)
    for (unsigned i = 0; i < numFacts; ++i)
      if (entry.all.contains(Fact(i)))
        os << (entry.seen.contains(Fact(i)) ? "exercised: " : "not exercised: ") << describe(op)
           << ": " << getText(Fact(i)) << "\n";
}
