//===- Parser.h - PTX parser ----------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_PARSER_H
#define TPC_TEST_SIMULATOR_PTX_PARSER_H

#include "Syntax.h"

#include <algorithm>
#include <bit>
#include <set>

namespace ptx {

/// Parses a whole text.
class Parser {
public:
  Parser(std::string_view text, Program &program)
      : tokens(tokenize(text)), text(text), program(program) {}
  void run();

private:
  const Token &peek(size_t ahead = 0) const {
    return tokens[std::min(at + ahead, tokens.size() - 1)];
  }
  Token take() {
    Token token = peek();
    at += token.kind != Token::End;
    return token;
  }
  bool accept(std::string_view word) {
    if (!peek().is(word))
      return false;
    ++at;
    return true;
  }
  [[noreturn]] void fail(const std::string &what) const { throw TextError(peek().line, what); }
  void expect(std::string_view word) {
    if (!accept(word))
      fail("'" + std::string(word) + "' expected before '" + std::string(peek().text) + "'");
  }
  std::string_view takeWord(const char *what) {
    if (peek().kind != Token::Word)
      fail(std::string(what) + " expected before '" + std::string(peek().text) + "'");
    return take().text;
  }
  uint64_t takeInteger() {
    Token token = take();
    if (token.kind != Token::Number)
      throw TextError(token.line, "a number expected before '" + std::string(token.text) + "'");
    return parseNumber(token).bits;
  }
  int64_t takeSigned() {
    bool minus = accept("-");
    auto value = int64_t(takeInteger());
    return minus ? -value : value;
  }

  /// Parses the size of a variable or a launch, at most `most`.
  uint64_t takeSize(uint64_t most, const char *what) {
    uint64_t value = takeInteger();
    if (value > most)
      fail(std::string(what) + " of " + std::to_string(value) + ": at most " +
           std::to_string(most) + " is possible");
    return value;
  }
  uint32_t takeAlignment() {
    uint64_t value = takeSize(maxAlignment, "an alignment");
    if (!std::has_single_bit(value))
      fail("an alignment must be a power of two");
    return uint32_t(value);
  }

  void skipDebug();
  void parseEntry();
  void parseParameters(Kernel &kernel);
  void parseTuning(Kernel &kernel);
  Variable parseVariable(Space space, bool external);
  /// Checks that the name of the last variable is unique.
  void checkName(const std::vector<Variable> &variables);
  void parseInitializer(Variable &variable, Type type);
  void layoutShared(Kernel &kernel, const Body &body);
  void parseBody(Kernel &kernel, Body &body);
  void parseRegisters(Body &body);
  void parseStatement(Body &body);
  Operand parseOperand(bool element = false);
  int findRegister(std::string_view name) const;

  std::vector<Token> tokens;
  std::string_view text;
  Program &program;
  size_t at = 0;
  std::vector<Variable> moduleShared;
  std::set<std::string, std::less<>>
      names; // owns the names of register ranges that `scopes` refers to
  std::vector<std::unordered_map<std::string_view, uint32_t>> scopes; // names of registers
};

} // namespace ptx

#endif
