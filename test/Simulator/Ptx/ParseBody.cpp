//===- ParseBody.cpp - Parser of registers, labels, statements ------------===//

#include "Parser.h"

using namespace ptx;

void Parser::parseRegisters(Body &body) {
  auto type = parseType(takeWord("a type").substr(1));
  if (!type)
    fail("registers must have a type");
  do {
    std::string_view name = takeWord("a register");
    auto declare = [&](std::string_view each) {
      if (!scopes.back().emplace(each, uint32_t(body.registers.size())).second)
        fail("register '" + std::string(each) + "' is declared twice");
      if (body.registers.size() >= maxRegisters)
        fail("more than " + std::to_string(maxRegisters) + " registers");
      body.registers.push_back({*type, 0});
    };
    if (!accept("<")) {
      declare(name);
      continue;
    }
    uint64_t count = takeInteger();
    expect(">");
    for (uint64_t i = 0; i < count; ++i)
      declare(*names.insert(std::string(name) + std::to_string(i)).first);
  } while (accept(","));
  expect(";");
}

int Parser::findRegister(std::string_view name) const {
  for (size_t scope = scopes.size(); scope-- > 0;)
    if (auto found = scopes[scope].find(name); found != scopes[scope].end())
      return int(found->second);
  return -1;
}

void Parser::parseBody(Kernel &kernel, Body &body) {
  expect("{");
  scopes.emplace_back();
  while (!scopes.empty()) {
    if (accept("{")) {
      scopes.emplace_back();
    } else if (accept("}")) {
      scopes.pop_back();
    } else if (accept(";")) {
      continue;
    } else if (accept(".reg")) {
      parseRegisters(body);
    } else if (accept(".shared")) {
      kernel.shared.push_back(parseVariable(Space::Shared, false));
      checkName(kernel.shared);
    } else if (accept(".local")) {
      Variable variable = parseVariable(Space::Local, false);
      uint32_t alignment = std::max(variable.alignment, 1u);
      uint32_t begin = std::max(kernel.localBytes, spaceBegin);
      variable.address = (begin + alignment - 1) / alignment * alignment;
      kernel.localBytes = uint32_t(variable.address + variable.bytes);
      if (kernel.localBytes > maxLocalBytes)
        throw TextError(tokens[at - 1].line,
                        "more than " + std::to_string(maxLocalBytes) + " bytes of local memory");
      body.locals.push_back(std::move(variable));
      checkName(body.locals);
    } else if (accept(".pragma")) {
      take();
      expect(";");
    } else if (peek().is(".loc") || peek().is(".file")) {
      skipDebug();
    } else if (peek().kind == Token::Word && peek(1).is(":")) {
      std::string_view label = take().text;
      take();
      if (accept(".branchtargets")) {
        auto &targets = body.branchTargets[label];
        do
          targets.push_back(takeWord("a label"));
        while (accept(","));
        expect(";");
      } else if (!body.labels.emplace(label, uint32_t(body.statements.size())).second) {
        fail("label '" + std::string(label) + "' is defined twice");
      }
    } else {
      parseStatement(body);
    }
  }
}

Operand Parser::parseOperand(bool element) {
  Operand operand;
  if (accept("{")) {
    if (element)
      fail("a vector must not contain a vector");
    operand.kind = Operand::Vector;
    do
      operand.elements.push_back(parseOperand(/*element=*/true));
    while (accept(","));
    expect("}");
    return operand;
  }
  if (accept("[")) {
    operand.kind = Operand::Address;
    if (peek().kind == Token::Number || peek().is("-")) {
      operand.offset = takeSigned();
    } else {
      operand.name = takeWord("an address");
      int reg = findRegister(operand.name);
      operand.hasBase = reg >= 0;
      operand.reg = operand.hasBase ? uint32_t(reg) : 0;
      if (accept("+"))
        operand.offset = takeSigned();
      else if (peek().is("-"))
        operand.offset = takeSigned();
    }
    expect("]");
    return operand;
  }
  operand.negated = accept("!");
  operand.minus = accept("-");
  if (peek().kind == Token::Number) {
    operand.kind = Operand::Imm;
    operand.number = parseNumber(take());
    return operand;
  }
  std::string_view name = takeWord("an operand");
  if (name == "_") {
    operand.kind = Operand::Sink;
  } else if (int reg = findRegister(name); reg >= 0) {
    operand.kind = Operand::Reg;
    operand.reg = uint32_t(reg);
  } else {
    operand.kind = name[0] == '%' || name == "WARP_SZ" ? Operand::Special : Operand::Symbol;
    operand.name = name;
    if (operand.kind == Operand::Symbol && accept("+"))
      operand.offset = takeSigned();
  }
  if (!element && accept("|")) {
    std::string_view second = takeWord("a register");
    operand.pair = findRegister(second);
    if (operand.pair < 0)
      fail("unknown register '" + std::string(second) + "'");
  }
  return operand;
}

void Parser::parseStatement(Body &body) {
  Statement statement;
  const Token &first = peek();
  statement.line = first.line;
  if (accept("@")) {
    statement.guardNegated = accept("!");
    std::string_view name = takeWord("a predicate");
    statement.guard = findRegister(name);
    if (statement.guard < 0)
      fail("unknown register '" + std::string(name) + "'");
  }
  std::string_view opcode = takeWord("an instruction");
  for (size_t from = 0; from <= opcode.size();) {
    size_t dot = std::min(opcode.find('.', from), opcode.size());
    std::string_view part = opcode.substr(from, dot - from);
    if (from == 0)
      statement.opcode = part;
    else
      statement.modifiers.push_back(part);
    from = dot + 1;
  }
  if (statement.opcode.empty())
    fail("unknown directive '" + std::string(opcode) + "'");
  while (!peek().is(";")) {
    if (peek().kind == Token::End)
      fail("';' is missing");
    statement.operands.push_back(parseOperand());
    if (!peek().is(";"))
      expect(",");
  }
  // The statement's source text, on one line.
  size_t begin = size_t(first.text.data() - text.data());
  size_t end = size_t(peek().text.data() - text.data());
  for (char c : text.substr(begin, end - begin)) {
    bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space)
      statement.text += c;
    else if (statement.text.back() != ' ')
      statement.text += ' ';
  }
  expect(";");
  body.statements.push_back(std::move(statement));
}
