#include "formats/jinja/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <tuple>
#include <utility>

#include "formats/jinja/expression_parser.h"

namespace plimsoll::jinja {
namespace {

class Parser : ExpressionParser {
 public:
  Parser(std::string_view source, const std::string& name) : ExpressionParser(source, name) {}

  Tree run() {
    Tree tree;
    tree.body = body({});
    tree.has_marks = has_marks_;
    return tree;
  }

 private:
  // Reads up to a tag with one of these names, which becomes the current token; without names, to the end of the template.
  Body body(std::initializer_list<std::string_view> ends) {
    const Levels level(*this);
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

  // The body after a tag whose end is next.
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
      if (tag == known) fail(fmt::format("'{}' is not supported", tag), "a template without other files");
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
    if (at_name("recursive")) fail("recursive loops are not supported");
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
    const Levels level(*this);
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

  unsigned loops_ = 0;
  bool has_marks_ = false;
};

}  // namespace

Tree parse(std::string_view source, std::string name) {
  Tree tree = Parser(source, name).run();
  tree.name = std::move(name);
  return tree;
}

}  // namespace plimsoll::jinja
