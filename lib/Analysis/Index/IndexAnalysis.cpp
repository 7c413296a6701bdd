//===- IndexAnalysis.cpp - Symbolic elements of mask tensors --------------===//

#include "IndexOp.h"

#include "tpc/Analysis/Index/Splats.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using Kind = IndexExpr::Kind;

// Limits for untrusted files. If one is exceeded, an element is opaque.
static constexpr unsigned kMaxDepth = 256;
static constexpr unsigned kMaxSize = 400;
static constexpr size_t kMaxElements = 20000;

IndexExpr IndexAnalysis::opaque(Value v, ArrayRef<IndexExpr> where) {
  IndexExpr element = IndexExpr::element(v, where);
  if (isa<FloatType>(elementTypeOf(v)) || elementTypeOf(v).isInteger(1))
    return element;
  auto [it, isNew] =
      elementNames.insert({element.str(), "_e" + std::to_string(elementNames.size())});
  if (isNew)
    elements.insert({it->second, element});
  return IndexExpr::integer(SymExpr::symbol(it->second));
}

IndexExpr IndexAnalysis::at(Value v, ArrayRef<IndexExpr> where) {
  if (depth >= kMaxDepth || cache.size() >= kMaxElements || isOutOfSteps())
    return opaque(v, where);
  std::string key = IndexExpr::element(v, where).str();
  auto it = cache.find(key);
  if (it != cache.end())
    return it->second;
  ++depth;
  IndexExpr result = compute(v, where);
  --depth;
  if (!result || result.getSize() > kMaxSize)
    result = opaque(v, where);
  cache.insert({key, result});
  return result;
}

IndexExpr IndexAnalysis::atBroadcast(Value v) {
  SmallVector<SymExpr> sizes = getSizes(v);
  assert(sizes.size() <= indices.size());
  SmallVector<IndexExpr> where;
  for (auto [i, size] : llvm::enumerate(sizes))
    where.push_back(size.isConstant(1) ? IndexExpr::integer(0)
                                       : indices[indices.size() - sizes.size() + i]);
  return at(v, where);
}

IndexExpr IndexAnalysis::mapLeaves(const IndexExpr &e,
                                   llvm::function_ref<IndexExpr(const IndexExpr &)> f) {
  if (e.getKind() != Kind::Select)
    return f(e);
  IndexExpr a = mapLeaves(e.getArgs()[1], f), b = mapLeaves(e.getArgs()[2], f);
  if (!a || !b || a.getSize() + b.getSize() > kMaxSize)
    return {};
  return select(e.getArgs()[0], a, b);
}

IndexExpr IndexAnalysis::compute(Value v, ArrayRef<IndexExpr> where) {
  Operation *op = v.getDefiningOp();
  if (!op || op->getNumResults() != 1)
    return {};
  auto known = dyn_cast<IndexOpInterface>(op);
  return known ? known.getElementAt(*this, where) : IndexExpr();
}
