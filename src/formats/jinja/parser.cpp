#include "formats/jinja/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>

#include "formats/jinja/fault.h"
#include "formats/jinja/lexer.h"

namespace plimsoll::jinja {
namespace {

constexpr unsigned kMostDepth = 200;  // of expressions and blocks

class Parser {
 public:
  explicit Parser(std::string_view source, const std::string& name) : name_(name), tokens_(lex(source, name)) {}

  Tree run() {
    Tree tree;
    tree.body = body({});
    tree.has_marks = has_marks_;
    return tree;
  }

 private:
  // One more level for as long as it lives.
  struct Level {
    explicit Level(Parser& parser) : parser(parser) {
      if (++parser.depth_ > kMostDepth) parser.fail(fmt::format("it is nested deeper than {}", kMostDepth));
    }
    ~Level() { --parser.depth_; }
    Parser& parser;
  };

  [[noreturn]] void fail(std::string why, std::string expected = {}) const {
    throw template_error(name_, here().line, std::move(why), std::move(expected));
  }
  [[noreturn]] void fail_here(std::string expected) const { fail(fmt::format("unexpected {}", shown()), std::move(expected)); }

  const LexerToken& here(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  std::string shown() const {
    switch (here().kind) {
      case TokenKind::end: return "end of the template";
      case TokenKind::block_end: return "'%}'";
      case TokenKind::write_end: return "'}}'";
      case TokenKind::number: return here().text;
      default: return fmt::format("'{}'", here().text.substr(0, 40));
    }
  }

  bool at_name(std::string_view name, std::size_t ahead = 0) const {
    return here(ahead).kind == TokenKind::name && here(ahead).text == name;
  }
  bool at_symbol(std::string_view symbol, std::size_t ahead = 0) const {
    return here(ahead).kind == TokenKind::symbol && here(ahead).text == symbol;
  }
  bool skip_name(std::string_view name) { return at_name(name) && (++at_, true); }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (++at_, true); }
  void need_name(std::string_view name) {
    if (!skip_name(name)) fail_here(fmt::format("'{}'", name));
  }
  void need_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_here(fmt::format("'{}'", symbol));
  }
  void need(TokenKind kind, const char* what) {
    if (here().kind != kind) fail_here(what);
    ++at_;
  }
  std::string identifier() {
    if (here().kind != TokenKind::name) fail_here("a name");
    return tokens_[at_++].text;
  }

  // Statements.

  // Up to a tag of these names, which is then at hand; with none, to the end of the template.
  Body body(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Body body;
    for (;;) {
      const int line = here().line;
      switch (here().kind) {
        case TokenKind::end:
          if (ends.size() > 0) fail(fmt::format("the template ends, and a block is open"), fmt::format("'{}'", *ends.begin()));
          return body;
        case TokenKind::text:
          body.push_back({line, WriteText{std::move(tokens_[at_].text)}});
          ++at_;
          break;
        case TokenKind::write_begin:
          ++at_;
          body.push_back({line, Write{tuple()}});
          need(TokenKind::write_end, "'}}'");
          break;
        case TokenKind::block_begin:
          ++at_;
          if (std::ranges::any_of(ends, [&](std::string_view end) { return at_name(end); })) return body;
          body.push_back({line, statement()});
          need(TokenKind::block_end, "'%}'");
          break;
        default: fail_here("a tag or text");
      }
    }
  }

  // The body behind a tag that is read up to its end.
  Body inner(std::initializer_list<std::string_view> ends) {
    skip_symbol(":");
    need(TokenKind::block_end, "'%}'");
    return body(ends);
  }
  Body inner(std::string_view end) {
    Body body = inner({end});
    need_name(end);
    return body;
  }

  Statement::Any statement() {
    if (here().kind != TokenKind::name) fail_here("the name of a tag");
    const std::string tag = here().text;
    ++at_;
    if (tag == "if") return if_block();
    if (tag == "for") return for_block();
    if (tag == "set") return set();
    if (tag == "macro") return MacroBlock{macro()};
    if (tag == "call") return call_block();
    if (tag == "with") return with();
    if (tag == "filter") return filter_block();
    if (tag == "print") return Write{tuple()};
    if (tag == "generation") {
      has_marks_ = true;
      return Generation{inner("endgeneration")};
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail(fmt::format("'{}' stands outside of a loop", tag));
      if (tag == "break") return Break{};
      return Continue{};
    }
    --at_;
    for (const std::string_view known : {"extends", "include", "import", "from", "block", "autoescape"}) {
      if (tag == known) fail(fmt::format("'{}' is not computed", tag), "a template that stands by itself");
    }
    fail(fmt::format("'{}' is no tag that is open or known", tag));
  }

  If if_block() {
    If result;
    for (;;) {
      ExpressionPtr test = tuple(false);
      result.branches.emplace_back(std::move(test), inner({"elif", "else", "endif"}));
      if (skip_name("elif")) continue;
      if (skip_name("else")) result.otherwise = inner({"endif"});
      need_name("endif");
      return result;
    }
  }

  For for_block() {
    For loop;
    loop.target = target(false);
    need_name("in");
    loop.items = tuple(false);
    if (skip_name("if")) loop.only = expression();
    if (at_name("recursive")) fail("recursive loops are not computed");
    ++loops_;
    loop.body = inner({"endfor", "else"});
    --loops_;
    if (skip_name("else")) loop.otherwise = inner({"endfor"});
    need_name("endfor");
    return loop;
  }

  Statement::Any set() {
    Target to = target(true);
    if (skip_symbol("=")) return Set{std::move(to), tuple()};
    SetBlock block;
    block.target = std::move(to);
    if (at_symbol("|")) block.filter = filters(nullptr);
    block.body = inner("endset");
    return block;
  }

  With with() {
    With result;
    while (here().kind != TokenKind::block_end) {
      if (!result.values.empty()) need_symbol(",");
      Target to = target(false);
      need_symbol("=");
      result.values.emplace_back(std::move(to), expression());
    }
    result.body = inner("endwith");
    return result;
  }

  FilterBlock filter_block() {
    FilterBlock result;
    result.filter = filters(one_filter(nullptr));
    result.body = inner("endfilter");
    return result;
  }

  void signature(Macro& macro) {
    need_symbol("(");
    while (!skip_symbol(")")) {
      if (!macro.parameters.empty()) need_symbol(",");
      macro.parameters.push_back(identifier());
      if (skip_symbol("=")) {
        macro.defaults.push_back(expression());
      } else if (!macro.defaults.empty()) {
        fail("a parameter without a default follows one with a default");
      }
    }
  }

  void macro_body(Macro& macro, std::string_view end) {
    const std::pair outer(reads_more_, reads_more_named_);
    const unsigned loops = std::exchange(loops_, 0);
    reads_more_ = reads_more_named_ = false;
    macro.body = inner(end);
    macro.takes_more = reads_more_;
    macro.takes_more_named = reads_more_named_;
    std::tie(reads_more_, reads_more_named_) = outer;
    loops_ = loops;
  }

  std::unique_ptr<Macro> macro() {
    auto result = std::make_unique<Macro>();
    result->name = identifier();
    signature(*result);
    macro_body(*result, "endmacro");
    return result;
  }

  CallBlock call_block() {
    CallBlock result;
    result.caller = std::make_unique<Macro>();
    result.caller->name = "caller";
    if (at_symbol("(")) signature(*result.caller);
    result.call = expression();
    if (!std::holds_alternative<Call>(result.call->any)) fail("a call block calls nothing");
    macro_body(*result.caller, "endcall");
    return result;
  }

  Target one_target(bool with_attribute) {
    Target to;
    if (skip_symbol("(")) {
      to = target(with_attribute);
      need_symbol(")");
      return to;
    }
    to.name = identifier();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None", "loop"}) {
      if (to.name == constant) fail(fmt::format("'{}' cannot be set", to.name));
    }
    if (with_attribute && skip_symbol(".")) to.attribute = identifier();
    return to;
  }

  Target target(bool with_attribute) {
    const Level level(*this);
    Target first = one_target(with_attribute);
    if (!at_symbol(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (skip_symbol(",")) {
      if (here().kind != TokenKind::name && !at_symbol("(")) break;
      if (at_name("in")) break;
      all.parts.push_back(one_target(with_attribute));
    }
    return all;
  }

  // Expressions, loosest first.

  template <class Node>
  ExpressionPtr make(int line, Node node, std::initializer_list<const Expression*> parts = {}) {
    auto made = std::make_unique<Expression>();
    made->line = line;
    for (const Expression* part : parts) {
      if (part != nullptr) made->depth = std::max(made->depth, part->depth + 1);
    }
    if (made->depth > kMostDepth) fail(fmt::format("an expression is nested deeper than {}", kMostDepth));
    made->any = std::move(node);
    return made;
  }

  bool tuple_ends() const {
    return here().kind == TokenKind::write_end || here().kind == TokenKind::block_end || at_symbol(")") || at_name("recursive");
  }

  ExpressionPtr tuple(bool with_condition = true, bool in_brackets = false) {
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

  ExpressionPtr display(int line, std::vector<ExpressionPtr> items, bool tuple) {
    ExpressionPtr made = make(line, ListDisplay{});
    for (const ExpressionPtr& item : items) made->depth = std::max(made->depth, item->depth + 1);
    made->any = ListDisplay{std::move(items), tuple};
    return made;
  }

  ExpressionPtr expression() {
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

  ExpressionPtr binary(int line, BinaryKind kind, ExpressionPtr left, ExpressionPtr right) {
    const Expression *a = left.get(), *b = right.get();
    return make(line, Binary{kind, std::move(left), std::move(right)}, {a, b});
  }

  ExpressionPtr logical_or() {
    const int line = here().line;
    ExpressionPtr left = logical_and();
    while (skip_name("or")) left = binary(line, BinaryKind::logical_or, std::move(left), logical_and());
    return left;
  }

  ExpressionPtr logical_and() {
    const int line = here().line;
    ExpressionPtr left = logical_not();
    while (skip_name("and")) left = binary(line, BinaryKind::logical_and, std::move(left), logical_not());
    return left;
  }

  ExpressionPtr unary(int line, UnaryKind kind, ExpressionPtr operand) {
    const Expression* part = operand.get();
    return make(line, Unary{kind, std::move(operand)}, {part});
  }

  ExpressionPtr logical_not() {
    const Level level(*this);
    const int line = here().line;
    if (skip_name("not")) return unary(line, UnaryKind::logical_not, logical_not());
    return comparison();
  }

  std::optional<CompareKind> compare_kind() {
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

  ExpressionPtr comparison() {
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

  ExpressionPtr sum() {
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

  ExpressionPtr concatenation() {
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

  ExpressionPtr product() {
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

  ExpressionPtr power() {
    const int line = here().line;
    ExpressionPtr left = signed_value();
    while (skip_symbol("**")) left = binary(line, BinaryKind::power, std::move(left), signed_value());
    return left;
  }

  ExpressionPtr signed_value(bool with_filters = true) {
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

  ExpressionPtr primary() {
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

  ExpressionPtr dict(int line) {
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

  ExpressionPtr postfix(ExpressionPtr value) {
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

  ExpressionPtr filtered(ExpressionPtr value) {
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

  ExpressionPtr subscript(ExpressionPtr object) {
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
  unsigned arguments(Arguments& out) {
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
  ExpressionPtr deepened(int line, Node node, const Expression* part, unsigned depth) {
    ExpressionPtr made = make(line, std::move(node), {part});
    made->depth = std::max(made->depth, depth + 1);
    return made;
  }

  ExpressionPtr call(ExpressionPtr callee) {
    const int line = here().line;
    const Expression* part = callee.get();
    Call result;
    const unsigned depth = arguments(result.arguments);
    result.callee = std::move(callee);
    return deepened(line, std::move(result), part, depth);
  }

  std::string dotted() {
    std::string name = identifier();
    while (skip_symbol(".")) name += "." + identifier();
    return name;
  }

  ExpressionPtr one_filter(ExpressionPtr input) {
    const int line = here().line;
    const Expression* part = input.get();
    Filter result;
    result.name = dotted();
    const unsigned depth = at_symbol("(") ? arguments(result.arguments) : 0;
    result.input = std::move(input);
    return deepened(line, std::move(result), part, depth);
  }

  ExpressionPtr filters(ExpressionPtr input) {
    while (skip_symbol("|")) input = one_filter(std::move(input));
    return input;
  }

  bool takes_operand() const {
    switch (here().kind) {
      case TokenKind::name: return !at_name("else") && !at_name("or") && !at_name("and");
      case TokenKind::string:
      case TokenKind::number: return true;
      default: return at_symbol("[") || at_symbol("{");
    }
  }

  ExpressionPtr test(ExpressionPtr input) {
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

  const std::string& name_;
  std::vector<LexerToken> tokens_;
  std::size_t at_ = 0;
  unsigned depth_ = 0, loops_ = 0;
  bool has_marks_ = false, reads_more_ = false, reads_more_named_ = false;
};

}  // namespace

Tree parse(std::string_view source, std::string name) {
  Tree tree = Parser(source, name).run();
  tree.name = std::move(name);
  return tree;
}

}  // namespace plimsoll::jinja
