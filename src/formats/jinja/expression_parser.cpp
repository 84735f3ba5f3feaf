#include "formats/jinja/expression_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace plimsoll::jinja {

template <class Node>
ExpressionPtr ExpressionParser::make(int line, Node node, std::initializer_list<const Expression*> parts) {
  auto made = std::make_unique<Expression>();
  made->line = line;
  for (const Expression* part : parts) {
    if (part != nullptr) made->depth = std::max(made->depth, part->depth + 1);
  }
  if (made->depth > kMostDepth) fail(fmt::format("an expression is nested deeper than {}", kMostDepth));
  made->any = std::move(node);
  return made;
}

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
  return display(line, std::move(items), true);
}

ExpressionPtr ExpressionParser::display(int line, std::vector<ExpressionPtr> items, bool tuple) {
  ExpressionPtr made = make(line, ListDisplay{});
  for (const ExpressionPtr& item : items) made->depth = std::max(made->depth, item->depth + 1);
  made->any = ListDisplay{std::move(items), tuple};
  return made;
}

ExpressionPtr ExpressionParser::expression() {
  const Level level(*this);
  const int line = here().line;
  ExpressionPtr result = logical_or();
  while (skip_name("if")) {
    ExpressionPtr test = logical_or(), otherwise;
    if (skip_name("else")) otherwise = expression();
    const Expression *a = test.get(), *b = result.get(), *c = otherwise.get();
    result = make(line, Conditional{std::move(test), std::move(result), std::move(otherwise)}, {a, b, c});
  }
  return result;
}

ExpressionPtr ExpressionParser::binary(int line, BinaryKind kind, ExpressionPtr left, ExpressionPtr right) {
  const Expression *a = left.get(), *b = right.get();
  return make(line, Binary{kind, std::move(left), std::move(right)}, {a, b});
}

ExpressionPtr ExpressionParser::logical_or() {
  const int line = here().line;
  ExpressionPtr left = logical_and();
  while (skip_name("or")) left = binary(line, BinaryKind::logical_or, std::move(left), logical_and());
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  const int line = here().line;
  ExpressionPtr left = logical_not();
  while (skip_name("and")) left = binary(line, BinaryKind::logical_and, std::move(left), logical_not());
  return left;
}

ExpressionPtr ExpressionParser::unary(int line, UnaryKind kind, ExpressionPtr operand) {
  const Expression* part = operand.get();
  return make(line, Unary{kind, std::move(operand)}, {part});
}

ExpressionPtr ExpressionParser::logical_not() {
  const Level level(*this);
  const int line = here().line;
  if (skip_name("not")) return unary(line, UnaryKind::logical_not, logical_not());
  return comparison();
}

std::optional<CompareKind> ExpressionParser::compare_kind() {
  constexpr std::array<std::pair<std::string_view, CompareKind>, 6> kKinds{{{"==", CompareKind::equal},
                                                                            {"!=", CompareKind::unequal},
                                                                            {"<", CompareKind::less},
                                                                            {"<=", CompareKind::less_equal},
                                                                            {">", CompareKind::greater},
                                                                            {">=", CompareKind::greater_equal}}};
  for (const auto& [symbol, kind] : kKinds) {
    if (skip_symbol(symbol)) return kind;
  }
  if (skip_name("in")) return CompareKind::in;
  if (at_name("not") && at_name("in", 1)) {
    at_ += 2;
    return CompareKind::not_in;
  }
  return {};
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = here().line;
  ExpressionPtr first = sum();
  Comparison result;
  unsigned depth = first->depth;
  while (const std::optional<CompareKind> kind = compare_kind()) {
    result.rest.emplace_back(*kind, sum());
    depth = std::max(depth, result.rest.back().second->depth);
  }
  if (result.rest.empty()) return first;
  result.first = std::move(first);
  ExpressionPtr made = make(line, std::move(result));
  made->depth = depth + 1;
  return made;
}

ExpressionPtr ExpressionParser::sum() {
  const int line = here().line;
  ExpressionPtr left = concatenation();
  for (;;) {
    if (skip_symbol("+")) {
      left = binary(line, BinaryKind::add, std::move(left), concatenation());
    } else if (skip_symbol("-")) {
      left = binary(line, BinaryKind::subtract, std::move(left), concatenation());
    } else {
      return left;
    }
  }
}

ExpressionPtr ExpressionParser::concatenation() {
  const int line = here().line;
  ExpressionPtr first = product();
  if (!at_symbol("~")) return first;
  Concatenation result;
  unsigned depth = first->depth;
  result.parts.push_back(std::move(first));
  while (skip_symbol("~")) {
    result.parts.push_back(product());
    depth = std::max(depth, result.parts.back()->depth);
  }
  ExpressionPtr made = make(line, std::move(result));
  made->depth = depth + 1;
  return made;
}

ExpressionPtr ExpressionParser::product() {
  constexpr std::array<std::pair<std::string_view, BinaryKind>, 4> kKinds{
      {{"*", BinaryKind::multiply}, {"/", BinaryKind::divide}, {"//", BinaryKind::floor_divide}, {"%", BinaryKind::modulo}}};
  const int line = here().line;
  ExpressionPtr left = power();
  for (bool found = true; found;) {
    found = false;
    for (const auto& [symbol, kind] : kKinds) {
      if (!skip_symbol(symbol)) continue;
      left = binary(line, kind, std::move(left), power());
      found = true;
    }
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  const int line = here().line;
  ExpressionPtr left = signed_value();
  while (skip_symbol("**")) left = binary(line, BinaryKind::power, std::move(left), signed_value());
  return left;
}

ExpressionPtr ExpressionParser::signed_value(bool with_filters) {
  const Level level(*this);
  const int line = here().line;
  ExpressionPtr value;
  if (skip_symbol("-")) {
    value = unary(line, UnaryKind::negative, signed_value(false));
  } else if (skip_symbol("+")) {
    value = unary(line, UnaryKind::positive, signed_value(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filtered(std::move(value)) : std::move(value);
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
    const Level level(*this);
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
    return display(line, std::move(items), false);
  }
  if (skip_symbol("{")) return dict(line);
  fail_here("an expression");
}

ExpressionPtr ExpressionParser::dict(int line) {
  DictDisplay result;
  unsigned depth = 0;
  while (!at_symbol("}")) {
    if (!result.items.empty()) need_symbol(",");
    if (at_symbol("}")) break;
    ExpressionPtr key = expression();
    need_symbol(":");
    ExpressionPtr value = expression();
    depth = std::max({depth, key->depth, value->depth});
    result.items.emplace_back(std::move(key), std::move(value));
  }
  need_symbol("}");
  ExpressionPtr made = make(line, std::move(result));
  made->depth = depth + 1;
  return made;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    if (at_symbol(".") || at_symbol("[")) {
      value = subscript(std::move(value));
    } else if (at_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filtered(ExpressionPtr value) {
  for (;;) {
    if (at_symbol("|")) {
      value = filters(std::move(value));
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
  const Expression* whole = object.get();
  if (skip_symbol(".")) {
    if (here().kind == TokenKind::number && here().number.get<std::int64_t>()) {
      ExpressionPtr index = make(line, Literal{tokens_[at_++].number});
      return make(line, Item{std::move(object), std::move(index)}, {whole});
    }
    std::string name = identifier();
    return make(line, Attribute{std::move(object), std::move(name)}, {whole});
  }
  need_symbol("[");
  ExpressionPtr begin, end, step;
  if (!at_symbol(":")) begin = expression();
  if (skip_symbol("]")) {
    const Expression* index = begin.get();
    return make(line, Item{std::move(object), std::move(begin)}, {whole, index});
  }
  if (at_symbol(",")) fail("an index with a comma is not computed");
  need_symbol(":");
  if (!at_symbol(":") && !at_symbol("]")) end = expression();
  if (skip_symbol(":") && !at_symbol("]")) step = expression();
  need_symbol("]");
  const Expression *a = begin.get(), *b = end.get(), *c = step.get();
  return make(line, Slice{std::move(object), std::move(begin), std::move(end), std::move(step)}, {whole, a, b, c});
}

// Arguments in brackets; the depth of the deepest one.
unsigned ExpressionParser::arguments(Arguments& out) {
  unsigned depth = 0;
  const auto keep = [&](ExpressionPtr value) {
    depth = std::max(depth, value->depth);
    return value;
  };
  need_symbol("(");
  for (bool first = true; !at_symbol(")"); first = false) {
    if (!first) {
      need_symbol(",");
      if (at_symbol(")")) break;
    }
    if (skip_symbol("*")) {
      if (out.more || out.more_named) fail("a call has * twice");
      out.more = keep(expression());
    } else if (skip_symbol("**")) {
      if (out.more_named) fail("a call has ** twice");
      out.more_named = keep(expression());
    } else if (here().kind == TokenKind::name && at_symbol("=", 1)) {
      std::string name = identifier();
      ++at_;
      out.named.emplace_back(std::move(name), keep(expression()));
    } else {
      if (out.more || out.more_named || !out.named.empty()) fail("an argument without a name follows one with a name");
      out.positional.push_back(keep(expression()));
    }
  }
  need_symbol(")");
  return depth;
}

template <class Node>
ExpressionPtr ExpressionParser::deepened(int line, Node node, const Expression* part, unsigned depth) {
  ExpressionPtr made = make(line, std::move(node), {part});
  made->depth = std::max(made->depth, depth + 1);
  return made;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  const int line = here().line;
  const Expression* part = callee.get();
  Call result;
  const unsigned depth = arguments(result.arguments);
  result.callee = std::move(callee);
  return deepened(line, std::move(result), part, depth);
}

std::string ExpressionParser::dotted() {
  std::string name = identifier();
  while (skip_symbol(".")) name += "." + identifier();
  return name;
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr input) {
  const int line = here().line;
  const Expression* part = input.get();
  Filter result;
  result.name = dotted();
  const unsigned depth = at_symbol("(") ? arguments(result.arguments) : 0;
  result.input = std::move(input);
  return deepened(line, std::move(result), part, depth);
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input) {
  while (skip_symbol("|")) input = one_filter(std::move(input));
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
  const Expression* part = input.get();
  Test result;
  result.name = dotted();
  unsigned depth = 0;
  if (at_symbol("(")) {
    depth = arguments(result.arguments);
  } else if (takes_operand()) {
    if (at_name("is")) fail("one test follows another");
    result.arguments.positional.push_back(postfix(primary()));
    depth = result.arguments.positional.back()->depth;
  }
  result.input = std::move(input);
  ExpressionPtr made = deepened(line, std::move(result), part, depth);
  return negated ? unary(line, UnaryKind::logical_not, std::move(made)) : std::move(made);
}

}  // namespace plimsoll::jinja
