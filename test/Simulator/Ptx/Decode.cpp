//===- Decode.cpp - Decoding common to all instructions -------------------===//

#include "Decoder.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

KernelDecoder::KernelDecoder(const Body &body, Program &program, Kernel &kernel)
    : body(body), program(program), kernel(kernel), registers(body.registers) {
  kernel.fileBytes = headerBytes;
  zero = constant(8, 0);
  for (Register &reg : registers) {
    unsigned bytes = reg.type == Type::Pred ? 0 : std::max(bytesOf(reg.type), 2u);
    reg.slot = addSlot(bytes);
    kernel.slots.push_back(reg.slot);
  }
}

Slot KernelDecoder::addSlot(unsigned bytesPerLane) {
  Slot slot = kernel.fileBytes;
  // The header of a register precedes its values.
  uint32_t bytes = bytesPerLane ? bytesPerLane * warpSize : 32;
  kernel.fileBytes += bytes + headerBytes;
  return slot;
}

Slot KernelDecoder::constant(unsigned bytes, uint64_t value) {
  if (bytes && bytes < 8)
    value &= (uint64_t(1) << (8 * bytes)) - 1;
  auto [found, isNew] = known.try_emplace({bytes, value}, 0);
  if (isNew) {
    found->second = addSlot(bytes);
    kernel.constants.push_back({found->second, bytes, value});
  }
  return found->second;
}

Slot KernelDecoder::special(Special which) {
  auto [found, isNew] = knownSpecials.try_emplace(which, 0);
  if (isNew) {
    found->second = addSlot(4);
    kernel.specials.emplace_back(which, found->second);
  }
  return found->second;
}

Slot KernelDecoder::addressOf(std::string_view name, int64_t offset, unsigned bytes,
                              uint32_t line) {
  auto named = [&](const Variable &variable) { return variable.name == name; };
  if (auto found = std::find_if(kernel.shared.begin(), kernel.shared.end(), named);
      found != kernel.shared.end()) {
    kernel.info.dynamicShared |= found->external;
    if (bytes != 4 && bytes != 8)
      throw TextError(line, "the address of '" + std::string(name) + "' must have 32 or 64 bits");
    Slot slot = addSlot(bytes);
    kernel.addresses.push_back(
        {slot, uint32_t(found - kernel.shared.begin()), offset, /*shared=*/true, bytes});
    return slot;
  }
  if (auto found = std::find_if(body.locals.begin(), body.locals.end(), named);
      found != body.locals.end())
    return constant(bytes, found->address + uint64_t(offset));
  auto found = std::find_if(program.variables.begin(), program.variables.end(), named);
  if (found == program.variables.end())
    throw TextError(line, "unknown name '" + std::string(name) + "'");
  if (bytes != 8)
    throw TextError(line, "the address of '" + std::string(name) + "' must have 64 bits");
  Slot slot = addSlot(8);
  kernel.addresses.push_back({slot, uint32_t(found - program.variables.begin()), offset});
  return slot;
}

const Parameter *KernelDecoder::findParameter(std::string_view name) const {
  for (const Parameter &parameter : kernel.parameters)
    if (parameter.name == name)
      return &parameter;
  return nullptr;
}

static const OpcodeTable &opcodes() {
  static const OpcodeTable table = [] {
    OpcodeTable made;
    addArithmetic(made);
    addBits(made);
    addApproximations(made);
    addComparisons(made);
    addConversions(made);
    addMoves(made);
    addAccesses(made);
    addAtomics(made);
    addWarpOps(made);
    addMatrices(made);
    addAsyncCopies(made);
    addControl(made);
    return made;
  }();
  return table;
}

void KernelDecoder::run() {
  Slot nowhere = addSlot(8);
  std::map<std::string, uint32_t, std::less<>> texts;
  for (const Statement &statement : body.statements) {
    Inst inst;
    inst.line = statement.line;
    auto [text, isNew] = texts.try_emplace(statement.text, uint32_t(kernel.texts.size()));
    if (isNew)
      kernel.texts.push_back(statement.text);
    inst.text = text->second;
    inst.dst = nowhere;
    for (Slot &slot : inst.src)
      slot = zero;
    Decoder decoder(*this, statement, inst);
    if (statement.guard >= 0) {
      const Register &guard = registers[size_t(statement.guard)];
      if (guard.type != Type::Pred)
        decoder.fail("the guard must be a predicate");
      inst.guard = guard.slot;
      inst.guardNegated = statement.guardNegated;
    }
    auto found = opcodes().find(statement.opcode);
    if (found == opcodes().end())
      decoder.fail("unknown instruction '" + std::string(statement.opcode) + "'");
    found->second(decoder);
    decoder.finish();
    kernel.code.push_back(inst);
  }
  // An exit is appended, because labels may follow the last statement and bodies may end without
  // ret.
  Inst end;
  end.flow = Flow::Exit;
  end.cls = Class::Control;
  end.dst = nowhere;
  end.text = uint32_t(kernel.texts.size());
  end.line = body.statements.empty() ? 0 : body.statements.back().line;
  kernel.texts.push_back("the end of the body");
  kernel.code.push_back(end);
  if (kernel.code.size() > UINT16_MAX)
    throw TextError(end.line, "the kernel has more than 65535 instructions");
  findJoins();
  kernel.fileBytes += 64;
}

/// Finds the reconvergence point of each branch: the nearest common postdominator of its targets.
void KernelDecoder::findJoins() {
  auto &code = kernel.code;
  uint32_t count = uint32_t(code.size()), exit = count;
  auto successors = [&](uint32_t pc) {
    const Inst &inst = code[pc];
    std::vector<uint32_t> next;
    if (inst.flow == Flow::Indexed)
      next.assign(kernel.lists.begin() + inst.list, kernel.lists.begin() + inst.list + inst.target);
    else if (inst.flow == Flow::Branch)
      next.push_back(inst.target);
    if (inst.flow == Flow::Exit || inst.flow == Flow::Trap)
      next.push_back(exit);
    bool falls = inst.flow != Flow::Indexed &&
                 (inst.guard || (inst.flow != Flow::Branch && inst.flow != Flow::Exit &&
                                 inst.flow != Flow::Trap));
    if (falls)
      next.push_back(std::min(pc + 1, exit));
    return next;
  };
  // Instructions are visited from the end of the text to its beginning until nothing changes. An
  // order by depth would need fewer iterations, but kernels are short.
  constexpr uint32_t none = ~0u;
  std::vector<std::vector<uint32_t>> next(count);
  std::vector<std::vector<uint32_t>> before(count + 1);
  for (uint32_t pc = 0; pc < count; ++pc) {
    next[pc] = successors(pc);
    for (uint32_t to : next[pc])
      before[to].push_back(pc);
  }
  // Postorder of the reversed graph, from the exit.
  std::vector<uint32_t> order, number(count + 1, none);
  std::vector<std::pair<uint32_t, size_t>> stack{{exit, 0}};
  std::vector<bool> seen(count + 1);
  seen[exit] = true;
  while (!stack.empty()) {
    auto &[node, at] = stack.back();
    if (at < before[node].size()) {
      uint32_t to = before[node][at++];
      if (!seen[to]) {
        seen[to] = true;
        stack.emplace_back(to, 0);
      }
    } else {
      number[node] = uint32_t(order.size());
      order.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> above(count + 1, none);
  above[exit] = exit;
  auto meet = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (number[a] < number[b])
        a = above[a];
      while (number[b] < number[a])
        b = above[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      uint32_t node = order[i];
      if (node == exit)
        continue;
      uint32_t found = none;
      for (uint32_t to : next[node])
        if (number[to] != none && above[to] != none)
          found = found == none ? to : meet(found, to);
      if (found != none && above[node] != found) {
        above[node] = found;
        changed = true;
      }
    }
  }
  for (uint32_t pc = 0; pc < count; ++pc)
    if (next[pc].size() > 1 && above[pc] != none && above[pc] != exit)
      code[above[pc]].join = true;
}

void ptx::decode(const Body &body, Program &program, Kernel &kernel) {
  KernelDecoder(body, program, kernel).run();
}

// ---- one statement ----

void Decoder::fail(const std::string &what) const {
  throw TextError(statement.line, what + ": " + statement.text);
}

bool Decoder::take(std::string_view modifier) {
  auto found = std::find(left.begin(), left.end(), modifier);
  if (found == left.end())
    return false;
  left.erase(found);
  return true;
}

int Decoder::takeOneOf(std::initializer_list<std::string_view> modifiers) {
  int index = 0;
  for (std::string_view modifier : modifiers) {
    if (take(modifier))
      return index;
    ++index;
  }
  return -1;
}

std::optional<Type> Decoder::takeTypeIf() {
  for (auto each = left.begin(); each != left.end(); ++each)
    if (auto type = parseType(*each)) {
      left.erase(each);
      return type;
    }
  return std::nullopt;
}

Type Decoder::takeType() {
  std::optional<Type> type = takeTypeIf();
  if (!type)
    fail("the instruction's type is missing");
  return *type;
}

std::optional<Rounding> Decoder::takeRounding() {
  int which = takeOneOf({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"});
  if (which < 0)
    return std::nullopt;
  return Rounding(which);
}

void Decoder::expectCount(size_t least, size_t most) {
  if (count() < least || count() > most)
    fail("wrong number of operands");
}

void Decoder::finish() {
  for (const Operand &operand : statement.operands)
    if (operand.pair >= 0 && !pairTaken)
      fail("'|' is not allowed, because the instruction has one result");
  if (!left.empty())
    fail("unknown modifier '." + std::string(left.front()) + "'");
}

unsigned Decoder::registerBytes(const Operand &operand) const {
  if (operand.kind != Operand::Reg)
    return 0;
  Type type = kernel.registers[operand.reg].type;
  return type == Type::Pred ? 0 : std::max(bytesOf(type), 2u);
}

static std::optional<Special> parseSpecial(std::string_view name) {
  static const std::unordered_map<std::string_view, Special> names = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%lanemask_eq", Special::MaskEq},
      {"%lanemask_le", Special::MaskLe},
      {"%lanemask_lt", Special::MaskLt},
      {"%lanemask_ge", Special::MaskGe},
      {"%lanemask_gt", Special::MaskGt},
      {"%dynamic_smem_size", Special::DynamicSharedBytes},
      {"%total_smem_size", Special::TotalSharedBytes}};
  auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

static uint64_t immediateBits(const Operand &operand, Type type) {
  const Number &number = operand.number;
  uint64_t bits = number.bits;
  if (number.kind == Number::Single && type == Type::F64)
    bits = std::bit_cast<uint64_t>(double(toFloat(uint32_t(bits))));
  else if (number.kind == Number::Double && type != Type::F64 && bitsOf(type) == 32)
    bits = toBits(float(std::bit_cast<double>(bits)));
  else if (number.kind == Number::Integer && operand.minus)
    return -bits;
  if (operand.minus)
    bits ^= uint64_t(1) << (bitsOf(type) - 1);
  return bits;
}

Slot Decoder::sourceOf(const Operand &operand, Type type, bool wider) {
  if (operand.negated)
    fail("'!' must be before a predicate of a guard, vote, selection or comparison");
  if (operand.minus && operand.kind != Operand::Imm)
    fail("'-' must be before a number");
  unsigned bytes = type == Type::Pred ? 0 : std::max(bytesOf(type), 2u);
  if (operand.kind == Operand::Reg) {
    const Register &reg = kernel.registers[operand.reg];
    bool isPredicate = reg.type == Type::Pred;
    unsigned has = registerBytes(operand);
    if (isPredicate != (type == Type::Pred) || (wider ? has < bytes : has != bytes))
      fail("the register must have the width of ." + std::string(nameOf(type)));
    return reg.slot;
  }
  if (operand.kind == Operand::Imm) {
    bool integer = operand.number.kind == Number::Integer;
    if (integer ? type == Type::F32 || type == Type::F64 : bitsOf(type) == 16)
      fail("the number is invalid for its type");
    if (type == Type::Pred)
      return kernel.constant(0, operand.number.bits ? allLanes : 0);
    return kernel.constant(bytes, immediateBits(operand, type));
  }
  if (operand.kind == Operand::Special) {
    if (operand.name == "WARP_SZ")
      return kernel.constant(bytes, warpSize);
    auto which = parseSpecial(operand.name);
    if (!which)
      fail("unknown register '" + std::string(operand.name) + "'");
    if (bytes != 4)
      fail("a special register must be read as 32 bits");
    return kernel.special(*which);
  }
  if (operand.kind == Operand::Symbol)
    return kernel.addressOf(operand.name, operand.offset, bytes, statement.line);
  fail("the operand has the wrong kind");
}

Slot Decoder::destinationOf(const Operand &operand, Type type, bool wider) {
  if (operand.kind == Operand::Sink)
    return kernel.sink(type == Type::Pred ? 0 : 8);
  if (operand.kind != Operand::Reg)
    fail("a register expected as destination");
  return sourceOf(operand, type, wider);
}

Slot Decoder::predicateOf(const Operand &operand) {
  Operand plain = operand;
  plain.negated = false;
  return sourceOf(plain, Type::Pred);
}

Slot Decoder::pairOf(const Operand &operand) {
  pairTaken = true;
  const Register &reg = kernel.registers[size_t(operand.pair)];
  if (reg.type != Type::Pred)
    fail("a predicate expected after '|'");
  return reg.slot;
}

Slot Decoder::addressBase(const Operand &operand, Space space, bool &narrow) {
  if (operand.kind != Operand::Address)
    fail("an address expected");
  narrow = false;
  if (!operand.hasBase)
    return operand.name.empty() ? kernel.zero
                                : kernel.addressOf(operand.name, 0, 8, statement.line);
  Type base = kernel.registers[operand.reg].type;
  narrow = bitsOf(base) == 32 && (space == Space::Shared || space == Space::Local);
  if (!narrow && bitsOf(base) != 64)
    fail("an address of 64 bits expected");
  return kernel.registers[operand.reg].slot;
}

uint32_t Decoder::labelTarget(std::string_view label) const {
  auto found = kernel.body.labels.find(label);
  if (found == kernel.body.labels.end())
    fail("unknown label '" + std::string(label) + "'");
  return found->second;
}

void Decoder::sources(Type type, size_t first, size_t n) {
  for (size_t i = 0; i < n; ++i)
    inst.src[i] = source(first + i, type);
}
