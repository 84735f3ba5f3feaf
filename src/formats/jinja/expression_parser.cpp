#include "formats/jinja/expression_parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace plimsoll::jinja {

namespace {

template <class Node>
ExpressionPtr make(int line, Node node) {
  return std::make_unique<Expression>(Expression{line, std::move(node)});
}

}  // namespace

bool ExpressionParser::tuple_ends() const {
  return here().kind == TokenKind::write_end || here().kind == TokenKind::block_end || at_symbol(")") || at_name("recursive");
}

ExpressionPtr ExpressionParser::tuple(bool with_condition, bool in_brackets) {
  const int line = here().line;
  std::vector<ExpressionPtr> items;
  bool commas = false;
  for (;;) {
    if (!items.empty()) need_symbol(",");
    if (tuple_ends()) break;
    items.push_back(with_condition ? expression() : logical_or());
    if (!at_symbol(",")) break;
    commas = true;
  }
  if (!commas) {
    if (!items.empty()) return std::move(items.front());
    if (!in_brackets) fail_here("an expression");
  }
  return make(line, ListDisplay{std::move(items), true});
}

ExpressionPtr ExpressionParser::expression() {
  Levels levels(*this);
  const int line = here().line;
  ExpressionPtr result = logical_or();
  while (skip_name("if")) {
    levels.add();
    ExpressionPtr test = logical_or(), otherwise;
    if (skip_name("else")) otherwise = expression();
    result = make(line, Conditional{std::move(test), std::move(result), std::move(otherwise)});
  }
  return result;
}

ExpressionPtr ExpressionParser::chain(std::initializer_list<BinaryKind> kinds, Operand operand) {
  Levels levels(*this, 0);
  const int line = here().line;
  ExpressionPtr left = (this->*operand)();
  for (;;) {
    const auto* kind =
        std::ranges::find_if(kinds, [&](BinaryKind each) { return skip_symbol(symbol(each)) || skip_name(symbol(each)); });
    if (kind == kinds.end()) return left;
    levels.add();
    ExpressionPtr right = (this->*operand)();
    left = make(line, Binary{*kind, std::move(left), std::move(right)});
  }
}

ExpressionPtr ExpressionParser::logical_or() { return chain({BinaryKind::logical_or}, &ExpressionParser::logical_and); }
ExpressionPtr ExpressionParser::logical_and() { return chain({BinaryKind::logical_and}, &ExpressionParser::logical_not); }

ExpressionPtr ExpressionParser::logical_not() {
  const Levels level(*this);
  const int line = here().line;
  if (skip_name("not")) return make(line, Unary{UnaryKind::logical_not, logical_not()});
  return comparison();
}

std::optional<CompareKind> ExpressionParser::compare_kind() {
  for (std::size_t i = 0; i < std::size(kCompareSymbols); ++i) {
    if (skip_symbol(kCompareSymbols[i]) || skip_name(kCompareSymbols[i])) return static_cast<CompareKind>(i);
  }
  if (!at_name("not") || !at_name("in", 1)) return {};
  at_ += 2;
  return CompareKind::not_in;
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = here().line;
  ExpressionPtr first = sum();
  Comparison result;
  while (const std::optional<CompareKind> kind = compare_kind()) result.rest.emplace_back(*kind, sum());
  if (result.rest.empty()) return first;
  result.first = std::move(first);
  return make(line, std::move(result));
}

ExpressionPtr ExpressionParser::sum() { return chain({BinaryKind::add, BinaryKind::subtract}, &ExpressionParser::concatenation); }

ExpressionPtr ExpressionParser::concatenation() {
  const int line = here().line;
  ExpressionPtr first = product();
  if (!at_symbol("~")) return first;
  Concatenation result;
  result.parts.push_back(std::move(first));
  while (skip_symbol("~")) result.parts.push_back(product());
  return make(line, std::move(result));
}

ExpressionPtr ExpressionParser::product() {
  return chain({BinaryKind::multiply, BinaryKind::divide, BinaryKind::floor_divide, BinaryKind::modulo},
               &ExpressionParser::power);
}

ExpressionPtr ExpressionParser::power() { return chain({BinaryKind::power}, &ExpressionParser::filtered_value); }

ExpressionPtr ExpressionParser::signed_value() {
  const Levels level(*this);
  const int line = here().line;
  if (skip_symbol("-")) return postfix(make(line, Unary{UnaryKind::negative, signed_value()}));
  if (skip_symbol("+")) return postfix(make(line, Unary{UnaryKind::positive, signed_value()}));
  return postfix(primary());
}

ExpressionPtr ExpressionParser::primary() {
  const int line = here().line;
  const LexerToken& token = here();
  switch (token.kind) {
    case TokenKind::name: {
      std::string name = identifier();
      if (name == "true" || name == "True") return make(line, Literal{true});
      if (name == "false" || name == "False") return make(line, Literal{false});
      if (name == "none" || name == "None") return make(line, Literal{None{}});
      if (name == "varargs") reads_more_ = true;
      if (name == "kwargs") reads_more_named_ = true;
      return make(line, Name{std::move(name)});
    }
    case TokenKind::string: {
      std::string text;
      while (here().kind == TokenKind::string) text += tokens_[at_++].text;
      return make(line, Literal{Text(std::move(text))});
    }
    case TokenKind::number: return make(line, Literal{tokens_[at_++].number});
    default: break;
  }
  if (skip_symbol("(")) {
    const Levels level(*this);
    ExpressionPtr value = tuple(true, true);
    need_symbol(")");
    return value;
  }
  if (skip_symbol("[")) {
    std::vector<ExpressionPtr> items;
    while (!at_symbol("]")) {
      if (!items.empty()) need_symbol(",");
      if (at_symbol("]")) break;
      items.push_back(expression());
    }
    need_symbol("]");
    return make(line, ListDisplay{std::move(items), false});
  }
  if (skip_symbol("{")) return dict(line);
  fail_here("an expression");
}

ExpressionPtr ExpressionParser::dict(int line) {
  DictDisplay result;
  while (!at_symbol("}")) {
    if (!result.items.empty()) need_symbol(",");
    if (at_symbol("}")) break;
    ExpressionPtr key = expression();
    need_symbol(":");
    ExpressionPtr value = expression();
    result.items.emplace_back(std::move(key), std::move(value));
  }
  need_symbol("}");
  return make(line, std::move(result));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (Levels levels(*this, 0);; levels.add()) {
    if (at_symbol(".") || at_symbol("[")) {
      value = subscript(std::move(value));
    } else if (at_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filtered_value() {
  ExpressionPtr value = signed_value();
  for (Levels levels(*this, 0);; levels.add()) {
    if (skip_symbol("|")) {
      value = one_filter(std::move(value));
    } else if (at_name("is")) {
      value = test(std::move(value));
    } else if (at_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const int line = here().line;
  if (skip_symbol(".")) {
    if (here().kind == TokenKind::number && here().number.get<std::int64_t>()) {
      ExpressionPtr index = make(line, Literal{tokens_[at_++].number});
      return make(line, Item{std::move(object), std::move(index)});
    }
    std::string name = identifier();
    return make(line, Attribute{std::move(object), std::move(name)});
  }
  need_symbol("[");
  ExpressionPtr begin, end, step;
  if (!at_symbol(":")) begin = expression();
  if (skip_symbol("]")) return make(line, Item{std::move(object), std::move(begin)});
  if (at_symbol(",")) fail("an index with a comma is not supported");
  need_symbol(":");
  if (!at_symbol(":") && !at_symbol("]")) end = expression();
  if (skip_symbol(":") && !at_symbol("]")) step = expression();
  need_symbol("]");
  return make(line, Slice{std::move(object), std::move(begin), std::move(end), std::move(step)});
}

Arguments ExpressionParser::arguments() {
  Arguments out;
  need_symbol("(");
  for (bool first = true; !at_symbol(")"); first = false) {
    if (!first) {
      need_symbol(",");
      if (at_symbol(")")) break;
    }
    if (skip_symbol("*")) {
      if (out.more || out.more_named) fail("a call has * twice");
      out.more = expression();
    } else if (skip_symbol("**")) {
      if (out.more_named) fail("a call has ** twice");
      out.more_named = expression();
    } else if (here().kind == TokenKind::name && at_symbol("=", 1)) {
      std::string name = identifier();
      ++at_;
      out.named.emplace_back(std::move(name), expression());
    } else {
      if (out.more || out.more_named || !out.named.empty()) fail("an argument without a name follows one with a name");
      out.positional.push_back(expression());
    }
  }
  need_symbol(")");
  return out;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  const int line = here().line;
  return make(line, Call{std::move(callee), arguments()});
}

std::string ExpressionParser::dotted() {
  std::string name = identifier();
  while (skip_symbol(".")) name += "." + identifier();
  return name;
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr input) {
  const int line = here().line;
  Filter result{std::move(input), dotted(), {}};
  if (at_symbol("(")) result.arguments = arguments();
  return make(line, std::move(result));
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input) {
  for (Levels levels(*this, 0); skip_symbol("|"); levels.add()) input = one_filter(std::move(input));
  return input;
}

bool ExpressionParser::takes_operand() const {
  switch (here().kind) {
    case TokenKind::name: return !at_name("else") && !at_name("or") && !at_name("and");
    case TokenKind::string:
    case TokenKind::number: return true;
    default: return at_symbol("[") || at_symbol("{");
  }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  const int line = here().line;
  ++at_;
  const bool negated = skip_name("not");
  Test result{std::move(input), dotted(), {}};
  if (at_symbol("(")) {
    result.arguments = arguments();
  } else if (takes_operand()) {
    if (at_name("is")) fail("one test follows another");
    result.arguments.positional.push_back(postfix(primary()));
  }
  ExpressionPtr made = make(line, std::move(result));
  return negated ? make(line, Unary{UnaryKind::logical_not, std::move(made)}) : std::move(made);
}

}  // namespace plimsoll::jinja
