//===- Pieces.cpp - A step at once, and in two pieces ---------------------===//

#include "Pieces.h"

#include "../Equivalence/ProofOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;
using equivalence::Lemma;
using ::tpc::SymExpr;

#include "PieceOps.cpp.inc"

// No program has symbols with a number sign.
PieceProver::PieceProver(func::FuncOp main, const std::string &pastName,
                         const std::string &tokensName)
    : main(main), past(SymExpr::symbol(pastName)), tokens(SymExpr::symbol(tokensName)), held(past),
      joined(past + tokens), first(SymExpr::symbol("#first")), second(SymExpr::symbol("#second")),
      names{pastName, tokensName}, whole{{tokensName, first + second}},
      firstPiece{{tokensName, first}}, secondPiece{{pastName, past + first}, {tokensName, second}} {
}

PieceProver::PieceProver(func::FuncOp main, const StepSymbols &symbols)
    : PieceProver(main, symbols.past, symbols.tokens) {}

PieceProver::PieceProver(func::FuncOp main, const PlacedStep &step)
    : PieceProver(main, "#past", step.tokens) {
  held = joined = SymExpr::symbol(step.capacity);
  names = {step.tokens, step.capacity};
  firstPiece[step.capacity] = secondPiece[step.capacity] = SymExpr::symbol("#capacity");
  for (BlockArgument argument : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && name.getValue() == step.lengths)
      lengths = argument;
    if (name && name.getValue() == step.counts)
      counts = argument;
  }
}

PieceProver PieceProver::ofRows(func::FuncOp main, const std::string &batch) {
  PieceProver prover(main, "#none", batch);
  prover.hasCaches = false;
  return prover;
}

InFlightDiagnostic PieceProver::fail(Operation *op) const {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
}

bool PieceProver::dependsOnTokens(const SymExpr &e) const {
  std::set<std::string> own;
  e.collectSymbols(own);
  return llvm::any_of(own, [&](const std::string &name) { return names.count(name) != 0; });
}

bool PieceProver::dependsOnTokens(Type type) const {
  return llvm::any_of(getSizes(type), [&](const SymExpr &size) { return dependsOnTokens(size); });
}

std::optional<Part> PieceProver::makeTokens(const SymExpr &size, unsigned dim) const {
  for (Part::Kind kind : {Part::New, Part::Joined})
    if (size == countTokens(kind))
      return Part{.kind = kind, .dim = dim};
  return std::nullopt;
}

bool PieceProver::isTokens(Value value, const Part &part, unsigned dim, Part::Kind kind) const {
  for (auto [d, size] : llvm::enumerate(getSizes(value)))
    if (d == dim ? size != countTokens(kind) : dependsOnTokens(size))
      return false;
  // What is the same for all tokens is so for these.
  return part.kind == Part::Same || (part.kind == kind && part.dim == dim);
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

static StringRef describe(Lemma::Letter letter) {
  switch (letter) {
  case Lemma::Letter::Sum:
    return "adds up the tokens";
  case Lemma::Letter::Max:
    return "takes the largest of the tokens";
  case Lemma::Letter::Min:
    return "takes the least of the tokens";
  default:
    return "does not do the same for each token by itself";
  }
}

/// Of the sets of operands in which the op is linear, one that is moved and not changed: then it
/// also moves what is added to all of their elements.
static LogicalResult passShift(const Lemma &lemma, ArrayRef<Part> operands, Part &result) {
  for (const Lemma::Linear &linear : lemma.linear) {
    const Part &one = operands[linear.operands[0]];
    bool passes = linear.moves;
    for (auto [i, part] : llvm::enumerate(operands))
      passes &= llvm::is_contained(linear.operands, int(i))
                    ? part.inFirst == one.inFirst && part.inSecond == one.inSecond
                    : !part.isMoved();
    if (!passes)
      continue;
    result.takeShift(one);
    return success();
  }
  return failure();
}

/// The number that all elements of the result are.
static std::optional<int64_t> findNumber(Operation *op, const Lemma &lemma,
                                         ArrayRef<Part> operands) {
  SmallVector<double> numbers;
  for (const Part &part : operands) {
    if (!part.number || part.isMoved())
      return std::nullopt;
    numbers.push_back(double(*part.number));
  }
  if (numbers.size() == 1 && llvm::any_of(lemma.linear, [](auto &l) { return l.moves; }))
    return operands[0].number;
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar || numbers.empty() || isFloatTensor(op->getResult(0)))
    return std::nullopt;
  double number = scalar.evaluateScalar(numbers);
  constexpr double exact = 1ll << 53;
  return std::fabs(number) < exact && number == std::floor(number)
             ? std::optional<int64_t>(int64_t(number))
             : std::nullopt;
}

FailureOr<Part> PieceProver::relateByFormula(Operation *op, ArrayRef<Part> operands) {
  auto known = dyn_cast<equivalence::LemmaOpInterface>(op);
  std::optional<Lemma> lemma = known ? known.getFormula() : std::nullopt;
  if (!lemma)
    return fail(op) << "cannot be proved: the verifier has no lemma that says what it does to each "
                       "token";
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (auto size = dyn_cast<SymExprAttr>(attribute.getValue());
        size && dependsOnTokens(size.getExpr()))
      return fail(op) << "has an attribute '" << attribute.getName().getValue()
                      << "' that depends on how many tokens there are, " << size.getExpr().str();
  const Part *place = nullptr;
  int letter = Lemma::broadcast;
  for (auto [i, part, value] : llvm::enumerate(operands, op->getOperands())) {
    if (part.kind == Part::Held)
      return fail(op) << "takes what is in cache " << part.cache
                      << " before the step otherwise than to put new tokens behind it";
    for (auto [d, size] : llvm::enumerate(getSizes(value))) {
      if (!dependsOnTokens(size))
        continue;
      int own = lemma->operands[i][d];
      if (own == Lemma::broadcast || lemma->letters[own] != Lemma::Letter::Each)
        return fail(op) << describe(own == Lemma::broadcast ? Lemma::Letter::All
                                                            : lemma->letters[own])
                        << " (dimension " << d << " of operand " << i
                        << "): what it gives for old tokens would change as new ones come";
      if (!part.hasTokens())
        continue; // all alike
      if (place && (letter != own || !place->isSamePlace(part)))
        return fail(op) << "takes tokens in two dimensions, or in different orders: it is not "
                           "known what it gives for each token by itself";
      place = &part;
      letter = own;
    }
  }
  Part result;
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  if (place) {
    result = *place;
    result.joint = nullptr;
    result.takeShift({});
    if (llvm::count(lemma->result, letter) != 1)
      return fail(op) << "gives something that does not have the dimension of its tokens";
    result.dim = llvm::find(lemma->result, letter) - lemma->result.begin();
  } else {
    result.number = findNumber(op, *lemma, operands);
  }
  if (llvm::any_of(operands, [](const Part &part) { return part.isMoved(); }) &&
      failed(passShift(*lemma, operands, result)))
    return fail(op) << "takes numbers that depend on how many tokens there are: of the same token "
                       "they are others in another step (positions that do not move by the past, "
                       "or lengths)";
  return result;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

FailureOr<Part> PieceProver::findInput(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  SmallVector<SymExpr> sizes = getSizes(argument);
  Part part;
  FlatSymbolRefAttr cache = hasCaches ? getCache(main.getArgAttrDict(index)) : FlatSymbolRefAttr();
  if (argument == lengths)
    part.inSecond = first;
  if (argument == counts) { // as many as there are
    part.inFirst = -second;
    part.inSecond = -first;
  }
  for (auto [d, size] : llvm::enumerate(sizes)) {
    if (!dependsOnTokens(size))
      continue;
    bool good =
        cache ? d == CacheOp::tokenDim && size == held : part.kind == Part::Same && size == tokens;
    if (!good)
      return main.emitError() << "argument " << index << ", " << argument.getType()
                              << (cache ? ", has other tokens than those of the past in dimension "
                                        : ", has no dimension of its own for tokens: dimension ")
                              << d;
    part = {.kind = cache ? Part::Held : Part::New, .dim = unsigned(d)};
  }
  if (cache && part.kind != Part::Held)
    return main.emitError() << "argument " << index << ", cache " << cache
                            << ", has no tokens of the past";
  part.cache = cache;
  return part;
}

/// Sizes are what the part says; of a value that is not the same for all tokens, no others have to
/// do with tokens.
LogicalResult PieceProver::checkPart(Operation *op, Type type, const Part &part) const {
  if (!part.hasTokens())
    return success();
  for (auto [d, size] : llvm::enumerate(getSizes(type)))
    if (d == part.dim ? size != part.major * countTokens(part.kind) * part.minor ||
                            dependsOnTokens(part.major) || dependsOnTokens(part.minor)
                      : dependsOnTokens(size))
      return fail(op) << "gives tokens in two dimensions, or parts of them: it is not known what "
                         "is of which token";
  return success();
}

FailureOr<Part> PieceProver::relate(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions())
    return fail(op) << "cannot be proved: it is no op of the model level";
  SmallVector<Part> operands;
  for (Value operand : op->getOperands()) {
    auto it = parts.find(operand);
    if (it == parts.end())
      return fail(op) << "takes a value that is not computed before";
    operands.push_back(it->second);
  }
  auto lemma = dyn_cast<PieceOpInterface>(op);
  FailureOr<Part> part = lemma ? lemma.relate(*this, operands) : relateByFormula(op, operands);
  if (failed(part) || failed(checkPart(op, op->getResult(0).getType(), *part)))
    return failure();
  return part;
}

LogicalResult PieceProver::checkOutput(unsigned index, Value value) {
  auto it = parts.find(value);
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : main;
  if (it == parts.end())
    return main.emitError() << "returns a value that is not computed before";
  const Part &part = it->second;
  if (part.kind == Part::Held || part.kind == Part::Joined)
    return fail(op) << "gives output " << index << " tokens of the past";
  if (part.isMoved())
    return fail(op) << "gives output " << index
                    << " numbers that depend on how many tokens there are";
  bool found = false;
  for (const SymExpr &size : getSizes(value)) {
    if (dependsOnTokens(size) && (found || size != tokens))
      return fail(op) << "gives output " << index << ", " << value.getType()
                      << ", which has no dimension of its own for tokens";
    found |= dependsOnTokens(size);
  }
  return success();
}

/// The second piece's cache holds what the first one has left there. The lemma of what is joined
/// with it holds if that is the joined value.
LogicalResult PieceProver::checkCache(FlatSymbolRefAttr cache, Value value) {
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : main;
  auto it = parts.find(value);
  ArrayRef<Operation *> own = joints[cache];
  Operation *joint = it == parts.end() ? nullptr : it->second.joint;
  if (!joint || !llvm::is_contained(own, joint)) {
    InFlightDiagnostic diag = fail(op)
                              << "is what cache " << cache
                              << " holds after the step, which is not what it holds before with "
                                 "the tokens of the step behind";
    for (auto &[other, list] : joints)
      if (joint && llvm::is_contained(list, joint))
        diag.attachNote() << "it is what cache " << other << " should hold";
    return diag;
  }
  for (Operation *other : own)
    if (other->getName() != joint->getName() || other->getOperands() != joint->getOperands() ||
        other->getAttrDictionary() != joint->getAttrDictionary())
      return fail(other) << "puts other tokens behind what is in cache " << cache
                         << " than the cache holds after the step";
  return success();
}

LogicalResult PieceProver::run() {
  if (past == tokens)
    return main.emitError() << "tokens of the past and of the step are one symbol, " << past.str();
  DenseSet<Attribute> given;
  for (BlockArgument argument : main.getArguments()) {
    FlatSymbolRefAttr cache = getCache(main.getArgAttrDict(argument.getArgNumber()));
    if (cache && hasCaches && !given.insert(cache).second)
      return main.emitError() << "cache " << cache << " has two arguments";
    FailureOr<Part> part = findInput(argument);
    if (failed(part))
      return failure();
    parts[argument] = *part;
  }
  DenseSet<Operation *> needed;
  for (Operation &op : llvm::reverse(main.front()))
    if (op.hasTrait<OpTrait::IsTerminator>() ||
        llvm::any_of(op.getUsers(), [&](Operation *user) { return needed.contains(user); }))
      needed.insert(&op);
  for (Operation &op : main.front().without_terminator()) {
    if (!needed.contains(&op))
      continue;
    FailureOr<Part> part = relate(&op);
    if (failed(part))
      return failure();
    parts[op.getResult(0)] = *part;
  }
  DenseSet<Attribute> kept;
  for (auto [i, value] : llvm::enumerate(main.front().getTerminator()->getOperands())) {
    FlatSymbolRefAttr cache = hasCaches ? getCache(main.getResultAttrDict(i)) : FlatSymbolRefAttr();
    if (cache && !kept.insert(cache).second)
      return main.emitError() << "cache " << cache << " has two results";
    if (failed(cache ? checkCache(cache, value) : checkOutput(i, value)))
      return failure();
  }
  for (Attribute cache : given)
    if (!kept.count(cache))
      return main.emitError() << "cache " << cache << " has an argument and no result";
  return success();
}
