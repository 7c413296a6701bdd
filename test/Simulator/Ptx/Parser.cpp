//===- Parser.cpp - Parser of directives and declarations -----------------===//

#include "Parser.h"

using namespace ptx;

// Skips debug directives, which have no effect on the program.
void Parser::skipDebug() {
  if (accept(".section")) {
    while (!accept("}"))
      if (take().kind == Token::End)
        fail("'}' of .section is missing");
    return;
  }
  uint32_t line = take().line;
  while (peek().line == line && peek().kind != Token::End)
    take();
}

void Parser::run() {
  bool wide = false;
  while (peek().kind != Token::End) {
    if (accept(".version")) {
      program.version = take().text;
    } else if (accept(".target")) {
      program.target = takeWord("an architecture");
      while (accept(","))
        takeWord("an option of .target");
    } else if (accept(".address_size")) {
      if (takeInteger() != 64)
        fail("only .address_size 64 is supported");
      wide = true;
    } else if (peek().is(".file") || peek().is(".loc") || peek().is(".section")) {
      skipDebug();
    } else {
      bool external = false;
      for (;; take()) {
        if (peek().is(".extern"))
          external = true;
        else if (!peek().is(".visible") && !peek().is(".weak"))
          break;
      }
      if (accept(".entry")) {
        parseEntry();
      } else if (accept(".shared")) {
        moduleShared.push_back(parseVariable(Space::Shared, external));
        checkName(moduleShared);
      } else if (accept(".global")) {
        program.variables.push_back(parseVariable(Space::Global, external));
        checkName(program.variables);
      } else if (accept(".const")) {
        program.variables.push_back(parseVariable(Space::Const, external));
        checkName(program.variables);
      } else if (peek().is(".func")) {
        fail("functions are not supported: kernels must be inlined into one entry");
      } else {
        fail("unknown directive '" + std::string(peek().text) + "'");
      }
    }
  }
  if (program.version.empty() || program.target.empty() || !wide)
    fail("a PTX text must begin with .version, .target and .address_size 64");
}

Variable Parser::parseVariable(Space space, bool external) {
  Variable variable;
  variable.space = space;
  variable.external = external;
  Type type = Type::None;
  bool aligned = false;
  while (peek().kind == Token::Word && peek().text[0] == '.') {
    if (accept(".align")) {
      variable.alignment = takeAlignment();
      aligned = true;
    } else if (auto known = parseType(peek().text.substr(1)); known && bitsOf(*known)) {
      type = *known;
      take();
    } else {
      fail("unknown attribute '" + std::string(peek().text) + "' of a variable");
    }
  }
  if (type == Type::None)
    fail("a variable must have a type");
  if (!aligned)
    variable.alignment = bytesOf(type);
  variable.name = takeWord("a name");
  uint64_t count = 1;
  bool open = false;
  while (accept("[")) {
    if (accept("]")) {
      open = true;
      count = 0;
      continue;
    }
    uint64_t size = takeInteger();
    if (__builtin_mul_overflow(count, size, &count) || count > maxVariableBytes)
      fail("'" + variable.name + "' has more bytes than the maximum");
    expect("]");
  }
  variable.bytes = count * bytesOf(type);
  if (uint64_t most = space == Space::Shared  ? windowBytes / 4
                      : space == Space::Local ? maxLocalBytes
                                              : maxVariableBytes;
      variable.bytes > most)
    fail("'" + variable.name + "' has more bytes than the maximum");
  if (accept("=")) {
    if (space != Space::Global && space != Space::Const)
      fail("only .global and .const variables have initializers");
    parseInitializer(variable, type);
  }
  if (open && !external)
    fail("an array without a size must be .extern");
  if (external && space != Space::Shared)
    fail(".extern variables are not supported, because there is only one text");
  expect(";");
  return variable;
}

void Parser::checkName(const std::vector<Variable> &variables) {
  for (size_t i = 0; i + 1 < variables.size(); ++i)
    if (variables[i].name == variables.back().name)
      throw TextError(tokens[at - 1].line,
                      "variable '" + variables.back().name + "' is declared twice");
}

void Parser::parseInitializer(Variable &variable, Type type) {
  variable.initialized = true;
  auto addValue = [&] {
    bool minus = accept("-");
    Token token = take();
    if (token.kind != Token::Number)
      throw TextError(token.line, "an initializer must contain only numbers, but has '" +
                                      std::string(token.text) + "'");
    uint64_t bits = parseNumber(token).bits;
    if (minus)
      bits = -bits;
    for (unsigned byte = 0; byte < bytesOf(type); ++byte)
      variable.data.push_back(uint8_t(bits >> (8 * byte)));
  };
  unsigned depth = accept("{") ? 1 : 0;
  if (!depth)
    addValue();
  while (depth) {
    if (accept("{"))
      ++depth;
    else if (accept("}"))
      --depth;
    else if (!accept(","))
      addValue();
  }
  if (variable.data.size() > variable.bytes)
    fail("more values than '" + variable.name + "' has elements");
}

void Parser::parseParameters(Kernel &kernel) {
  if (!accept("("))
    return;
  uint32_t offset = 0;
  while (!accept(")")) {
    expect(".param");
    Parameter parameter;
    Type type = Type::None;
    unsigned alignment = 0;
    bool pointer = false;
    while (peek().kind == Token::Word && peek().text[0] == '.') {
      if (accept(".align")) {
        // After .ptr, the space is that of the pointee.
        uint32_t value = takeAlignment();
        alignment = pointer ? alignment : value;
      } else if (accept(".ptr")) {
        pointer = true;
      } else if (pointer && parseSpace(peek().text.substr(1))) {
        take();
      } else if (auto known = parseType(peek().text.substr(1)); known && bitsOf(*known)) {
        type = *known;
        take();
      } else {
        fail("unknown attribute '" + std::string(peek().text) + "' of a parameter");
      }
    }
    parameter.name = takeWord("a name");
    for (const Parameter &other : kernel.parameters)
      if (other.name == parameter.name)
        fail("parameter '" + parameter.name + "' is declared twice");
    parameter.bytes = bytesOf(type);
    if (accept("[")) {
      parameter.bytes *= uint32_t(takeSize(maxParameterBytes, "a parameter"));
      expect("]");
    }
    if (!parameter.bytes)
      fail("a parameter must have bytes");
    parameter.alignment = alignment ? alignment : bytesOf(type);
    offset = (offset + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
    parameter.offset = offset;
    offset += parameter.bytes;
    if (offset > maxParameterBytes)
      fail("more than " + std::to_string(maxParameterBytes) + " bytes of parameters");
    kernel.info.parameters.push_back({parameter.name, parameter.bytes});
    kernel.parameters.push_back(std::move(parameter));
    if (!peek().is(")"))
      expect(",");
  }
  kernel.parameterBytes = offset;
}

void Parser::parseTuning(Kernel &kernel) {
  auto takeSizes = [&] {
    std::array<uint32_t, 3> sizes{1, 1, 1};
    size_t count = 0;
    do {
      if (count == 3)
        fail("a block must have at most three sizes");
      sizes[count] = uint32_t(takeSize(maxBlockThreads, "a block's size"));
      if (!sizes[count++])
        fail("a block must have threads");
    } while (accept(","));
    return sizes;
  };
  while (!peek().is("{")) {
    if (accept(".reqntid")) {
      kernel.info.block = takeSizes();
    } else if (accept(".maxntid")) {
      auto sizes = takeSizes();
      kernel.info.maxThreads = sizes[0] * sizes[1] * sizes[2];
    } else if (accept(".minnctapersm") || accept(".maxnreg") || accept(".maxnctapersm")) {
      takeInteger();
    } else if (accept(".pragma")) {
      take();
      accept(";");
    } else {
      fail("unknown directive '" + std::string(peek().text) + "' of an entry");
    }
  }
}

void Parser::parseEntry() {
  auto kernel = std::make_unique<Kernel>();
  kernel->info.name = takeWord("a name");
  if (program.find(kernel->info.name))
    fail("entry '" + kernel->info.name + "' is defined twice");
  parseParameters(*kernel);
  parseTuning(*kernel);
  kernel->shared = moduleShared;
  Body body;
  parseBody(*kernel, body);
  layoutShared(*kernel, body);
  decode(body, program, *kernel);
  kernel->info.instructions = uint32_t(kernel->code.size());
  program.kernels.push_back(std::move(kernel));
}

void Parser::layoutShared(Kernel &kernel, const Body &body) {
  std::set<std::string_view> used;
  for (const Statement &statement : body.statements)
    for (const Operand &operand : statement.operands)
      used.insert(operand.name);
  std::erase_if(kernel.shared, [&](const Variable &one) { return !used.contains(one.name); });
  // Variables whose size the launch determines come last. Machine::placeShared() allocates them.
  std::vector<Variable> ordered;
  for (bool external : {false, true})
    for (const Variable &one : kernel.shared)
      if (one.external == external)
        ordered.push_back(one);
  kernel.shared = std::move(ordered);
  kernel.sharedBytes = spaceBegin;
  uint64_t total = 0;
  for (const Variable &variable : kernel.shared)
    total += variable.bytes + 3 * std::max(variable.alignment, 1u) + sharedGap;
  if (total > windowBytes / 2)
    fail("more shared memory than the maximum");
  for (const Variable &variable : kernel.shared) {
    uint32_t bytes = variable.external ? 0 : uint32_t(variable.bytes);
    kernel.info.sharedBytes += bytes;
    kernel.sharedBytes += bytes + 3 * std::max(variable.alignment, 1u) + sharedGap;
  }
}

std::optional<Module> ptx::parse(std::string_view text, std::string &error) {
  auto program = std::make_shared<Program>();
  try {
    Parser(text, *program).run();
  } catch (const TextError &wrong) {
    error = wrong.what();
    return std::nullopt;
  }
  Module module;
  module.program = std::move(program);
  return module;
}
