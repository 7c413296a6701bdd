//===- SizeEmitter.cpp - Emission of sizes and coordinates ----------------===//

#include "tpc/Conversion/Env/SizeEmitter.h"

#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

ArrayRef<StringAttr> EnvLayout::axes() const {
  return grid ? grid.getOrder() : ArrayRef<StringAttr>();
}

std::optional<unsigned> EnvLayout::symbolIndex(StringRef symbol) const {
  auto it = llvm::find(symbols, symbol.str());
  if (it == symbols.end())
    return std::nullopt;
  return it - symbols.begin();
}

std::optional<unsigned> EnvLayout::axisIndex(StringRef axis) const {
  for (auto [i, name] : llvm::enumerate(axes()))
    if (name.getValue() == axis)
      return symbols.size() + i;
  if (axis == kMicroBatchAxis)
    return microBatchSlot();
  return std::nullopt;
}

int64_t EnvLayout::axisSize(StringRef axis) const { return grid ? grid.getAxisSize(axis) : 1; }

static void collect(SymExpr e, SmallVectorImpl<std::string> &symbols) {
  std::set<std::string> names;
  e.collectSymbols(names);
  for (const std::string &name : names)
    if (!llvm::is_contained(symbols, name))
      symbols.push_back(name);
}

FailureOr<EnvLayout> EnvLayout::get(ModuleOp module) {
  EnvLayout layout;
  layout.grid = MeshAttr::lookup(module);
  for (PipelineOp pipeline : module.getOps<PipelineOp>())
    for (Type type : pipeline.getBody().front().getArgumentTypes())
      for (const SymExpr &size : getSizes(type))
        collect(size, layout.symbols);
  // The runtime needs the maximum sequence length even if all caches are sliding-window caches.
  if (auto step = PreallocatedStep::lookup(module); step && step->windowed)
    collect(SymExpr::symbol(step->capacity), layout.symbols);

  for (const std::string &name : layout.symbols)
    if (getNamedSize(name))
      return module.emitError() << "a size is named '" << name
                                << "', which is a reserved symbol (RankSizes.h); rename it in "
                                   "the model";

  // Symbols that are not sizes of inputs have no value at run time.
  WalkResult result = module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      if (!isa<RankedTensorType>(type))
        continue;
      SmallVector<std::string> used;
      for (const SymExpr &size : getSizes(type))
        collect(size, used);
      for (const std::string &name : used)
        if (!layout.symbolIndex(name)) {
          op->emitError() << "size '" << name << "' of " << type << " is not a size of any input";
          return WalkResult::interrupt();
        }
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  return layout;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

std::optional<int64_t> mlir::tpc::asConstant(Value value) {
  if (auto constant = value.getDefiningOp<LLVM::ConstantOp>())
    if (auto attr = dyn_cast<IntegerAttr>(constant.getValue()))
      return attr.getInt();
  return std::nullopt;
}

Value SizeEmitter::constant(int64_t value) {
  Value &slot = constants[value];
  if (!slot)
    slot = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(value));
  return slot;
}

Value SizeEmitter::load(unsigned index) {
  Value &slot = loaded[index];
  if (!slot) {
    Value pointer = LLVM::GEPOp::create(b, loc, env.getType(), b.getI64Type(), env,
                                        ArrayRef<LLVM::GEPArg>{(int32_t)index});
    slot = LLVM::LoadOp::create(b, loc, b.getI64Type(), pointer);
  }
  return slot;
}

// Folds constants, so that static sizes are constants in LLVM IR. If a divisor (a size) is 0 at run
// time, the quotient is not used, but the division must not trap.
Value SizeEmitter::binary(char kind, Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy)
    switch (kind) {
    case '+':
      return constant(*cx + *cy);
    case '-':
      return constant(*cx - *cy);
    case '*':
      return constant(*cx * *cy);
    case '<':
      return constant(std::min(*cx, *cy));
    case '>':
      return constant(std::max(*cx, *cy));
    case '/':
    case '%': {
      int64_t d = std::max<int64_t>(*cy, 1);
      int64_t r = ((*cx % d) + d) % d;
      return constant(kind == '%' ? r : (*cx - r) / d);
    }
    }
  if ((kind == '+' || kind == '-') && cy == 0)
    return x;
  if (kind == '+' && cx == 0)
    return y;
  if ((kind == '*' || kind == '/') && cy == 1)
    return x;
  if (kind == '*' && cx == 1)
    return y;
  if (kind == '*' && (cx == 0 || cy == 0))
    return constant(0);
  if (kind == '%' && cy == 1)
    return constant(0);

  Value &slot = binaries[{kind, x.getAsOpaquePointer(), y.getAsOpaquePointer()}];
  if (slot)
    return slot;
  Value result;
  switch (kind) {
  case '+':
    result = LLVM::AddOp::create(b, loc, x, y);
    break;
  case '-':
    result = LLVM::SubOp::create(b, loc, x, y);
    break;
  case '*':
    result = LLVM::MulOp::create(b, loc, x, y);
    break;
  case '<':
    result = LLVM::SMinOp::create(b, loc, x, y);
    break;
  case '>':
    result = LLVM::SMaxOp::create(b, loc, x, y);
    break;
  default: {
    Value d = cy && *cy > 0 ? y : max(y, constant(1));
    Value r = LLVM::SRemOp::create(b, loc, x, d);
    Value negative = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, r, constant(0));
    Value wrapped = LLVM::AddOp::create(b, loc, r, d);
    r = LLVM::SelectOp::create(b, loc, negative, wrapped, r);
    if (kind == '%')
      result = r;
    else
      result = LLVM::SDivOp::create(b, loc, LLVM::SubOp::create(b, loc, x, r), d);
  }
  }
  return binaries[{kind, x.getAsOpaquePointer(), y.getAsOpaquePointer()}] = result;
}

Value SizeEmitter::add(Value x, Value y) { return binary('+', x, y); }
Value SizeEmitter::sub(Value x, Value y) { return binary('-', x, y); }
Value SizeEmitter::mul(Value x, Value y) { return binary('*', x, y); }
Value SizeEmitter::max(Value x, Value y) { return binary('>', x, y); }
Value SizeEmitter::floorDiv(Value x, Value y) { return binary('/', x, y); }
Value SizeEmitter::min(Value x, Value y) { return binary('<', x, y); }

Value SizeEmitter::product(ValueRange values) {
  Value result = constant(1);
  for (Value v : values)
    result = mul(result, v);
  return result;
}

Value SizeEmitter::expr(const SymExpr &e) {
  std::string key = e.str();
  if (auto it = exprs.find(key); it != exprs.end())
    return it->second;
  Value value = emit(substituteNumbers(e, layout.grid));
  return exprs[key] = value;
}

Value SizeEmitter::emit(const SymExpr &e) {
  Value sum = constant(0);
  for (const SymExpr::Term &term : e.getTerms()) {
    Value value = constant(term.coefficient);
    for (const SymExpr::Atom &atom : term.atoms) {
      Value v;
      if (atom.kind == SymExpr::AtomKind::Symbol) {
        // EnvLayout::get rejects unknown symbols.
        auto named = getNamedSize(atom.name); // a coordinate; other named symbols were substituted
        auto index = named ? layout.axisIndex(named->axes.front()) : layout.symbolIndex(atom.name);
        v = index ? load(*index) : constant(0);
      } else {
        Value x = emit(atom.args->first), y = emit(atom.args->second);
        switch (atom.kind) {
        case SymExpr::AtomKind::FloorDiv:
          v = binary('/', x, y);
          break;
        case SymExpr::AtomKind::Mod:
          v = binary('%', x, y);
          break;
        case SymExpr::AtomKind::Min:
          v = min(x, y);
          break;
        default:
          v = max(x, y);
        }
      }
      value = mul(value, v);
    }
    sum = add(sum, value);
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Distributions
//===----------------------------------------------------------------------===//

Value SizeEmitter::shardSize(Value n, StringAttr axis) {
  int64_t parts = layout.axisSize(axis.getValue());
  if (parts == 1)
    return n;
  // Same formula as getShardSize.
  Value c = coordinate(axis.getValue());
  return floorDiv(sub(add(n, constant(parts - 1)), c), constant(parts));
}

SmallVector<Value> SizeEmitter::localSizes(Type tensor) {
  SmallVector<Value> sizes;
  for (const SymExpr &size : getLocalSizes(tensor, layout.grid))
    sizes.push_back(expr(size));
  return sizes;
}

Value SizeEmitter::numElements(Type tensor) { return product(localSizes(tensor)); }
