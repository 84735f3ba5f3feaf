#include "formats/jinja/evaluator.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/visit.h"
#include "formats/jinja/fault.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get()) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

Evaluator::Evaluator(const Tree& tree, const RenderInput& input)
    : tree_(tree), input_(input), most_bytes_(input.limits.bytes), most_output_(input.limits.output) {}
Evaluator::~Evaluator() = default;

void Evaluator::enter() {
  charge(0);
  if (++depth_ > input_.limits.depth) fail("it calls itself too deeply");
}

void Evaluator::fail(std::string why, std::string expected) const {
  throw template_error(tree_.name, line_, std::move(why), std::move(expected));
}

void Evaluator::refuse(const Value& value, std::string_view what) const {
  if (const Undefined* absent = value.get<Undefined>()) fail(absent->why ? *absent->why : "the value is undefined");
  fail(fmt::format("{} takes no {}", what, value.type()));
}

void Evaluator::charge(std::uint64_t bytes) {
  steps_ += 1 + bytes / 64;
  if (steps_ > input_.limits.steps) fail("it takes too many steps");
}

void Evaluator::charge_memory(std::uint64_t bytes) {
  charge(bytes);
  bytes_ += bytes;
  if (bytes > most_bytes_ || bytes_ > most_bytes_) fail("it makes too much");
}

namespace {

constexpr unsigned kMostNesting = 150;  // of values

}  // namespace

Value Evaluator::made(List list) {
  if (list.depth > kMostNesting) fail("a value is nested too deeply");
  charge_memory(list.items.size() * sizeof(Value));
  return list;
}

Value Evaluator::made(Dict dict) {
  if (dict.depth() > kMostNesting) fail("a value is nested too deeply");
  charge_memory(dict.size() * 2 * sizeof(Value));
  return dict;
}

Value Evaluator::made(Text text) {
  charge_memory(text.size());
  return text;
}

Value Evaluator::undefined(std::string why) const { return Undefined{std::make_shared<const std::string>(std::move(why))}; }

std::vector<Value> Evaluator::items_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (const List* list = value.list()) {
    charge(list->items.size() * sizeof(Value));
    if (list->kind != ListKind::generator) return list->items;
    if (std::exchange(list->used, true)) return {};
    return list->items;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    charge(dict->size() * sizeof(Value));
    for (const auto& [key, each] : dict->items()) items.push_back(key);
    return items;
  }
  const Text* text = value.text();
  if (text == nullptr) fail(fmt::format("'{}' object is not iterable", value.type()));
  charge_memory(text->size() * sizeof(Text));
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t begin = at;
    next_character(text->bytes(), at);
    items.push_back(text->part(begin, at));
  }
  return items;
}

const Text& Evaluator::need_text(const Value& value, std::string_view what) const {
  const Text* text = value.text();
  if (text == nullptr) refuse(value, what);
  return *text;
}

std::int64_t Evaluator::need_whole(const Value& value, std::string_view what) const {
  if (const bool* truth = value.get<bool>()) return *truth ? 1 : 0;
  const auto* whole = value.get<std::int64_t>();
  if (whole == nullptr) refuse(value, what);
  return *whole;
}

Rendering Evaluator::run() {
  auto scope = std::make_shared<Scope>();
  constexpr std::uint64_t kTimes = 64;  // bytes allowed for each byte of the input
  std::uint64_t given = 0;
  for (const auto& [name, value] : input_.variables) given += std::min<std::uint64_t>(value.weight(), std::uint64_t{1} << 32);
  most_bytes_ = input_.limits.bytes + kTimes * given;
  most_output_ = input_.limits.output + kTimes * given;
  for (const auto& [name, value] : input_.variables) {
    scope->names.insert_or_assign(name, value);
    if (name != input_.turns || value.list() == nullptr) continue;
    int turn = 0;
    for (const Value& message : value.list()->items) {
      if (const Dict* dict = message.dict()) turns_.emplace(dict, turn);
      ++turn;
    }
  }
  scope_ = std::move(scope);
  Rendering result;
  out_ = &result.text;
  execute(tree_.body);
  result.read_clock = read_clock_;
  return result;
}

// Scopes.

int Evaluator::turn_of(const Value& value) const {
  const Dict* dict = value.dict();
  const auto found = dict != nullptr ? turns_.find(dict) : turns_.end();
  return found != turns_.end() ? found->second : -1;
}

int Evaluator::current_turn() const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    if (scope->turn >= 0) return scope->turn;
  }
  return -1;
}

namespace {

std::shared_ptr<Scope> inside(std::shared_ptr<Scope> outer) {
  auto scope = std::make_shared<Scope>();
  scope->outer = std::move(outer);
  return scope;
}

}  // namespace

Value Evaluator::lookup(const std::string& name) {
  if (const Value* found = scope_->find(name)) return *found;
  for (const std::string_view known : {"raise_exception", "strftime_now", "namespace", "dict", "range"}) {
    if (name == known) return std::make_shared<const Callable>(GlobalFunction{known});
  }
  return undefined(fmt::format("'{}' is undefined", name));
}

// Keeps the current scope for the whole rendering, because macros see its variables.
void Evaluator::pin() {
  if (!pinned_.empty() && pinned_.back() == scope_) return;
  charge_memory(1024);
  pinned_.push_back(scope_);
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const std::vector<Value> items = items_of(value);
    if (items.size() != target.parts.size()) {
      fail(fmt::format("{} values for {} names", items.size(), target.parts.size()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    return;
  }
  if (target.attribute.empty()) {
    scope_->names.insert_or_assign(target.name, value);
    if (const int turn = turn_of(value); turn >= 0 && current_turn() < 0) scope_->turn = turn;
    return;
  }
  const Value* found = scope_->find(target.name);
  NameSpace* const* space = found != nullptr ? found->get<NameSpace*>() : nullptr;
  if (space == nullptr) fail(fmt::format("cannot assign attribute on non-namespace object '{}'", target.name));
  if (target.attribute.starts_with('_')) fail(fmt::format("a namespace has no attribute '{}'", target.attribute));
  (*space)->names.insert_or_assign(target.attribute, value);
}

// Statements.

Evaluator::Flow Evaluator::execute(const Body& body) {
  const Level level(*this);
  for (const Statement& statement : body) {
    line_ = statement.line;
    const Flow flow = execute_any(statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute_any(const Statement& statement) {
  charge(0);
  return match(
      statement.any,
      [&](const Write& node) {
        const Value value = evaluate(*node.value);
        charge(value.weight());
        write(text_of(value));
        return Flow::next;
      },
      [&](const WriteText& node) {
        write(Text(node.text));
        return Flow::next;
      },
      [&](const If& node) { return run_if(node); }, [&](const For& node) { return run_for(node); },
      [&](const Set& node) {
        assign(node.target, evaluate(*node.value));
        return Flow::next;
      },
      [&](const SetBlock& node) {
        Value value = captured(node.body);
        if (node.filter) value = filtered(std::get<Filter>(node.filter->any), &value);
        assign(node.target, value);
        return Flow::next;
      },
      [&](const With& node) {
        std::vector<Value> values;
        for (const auto& [target, value] : node.values) values.push_back(evaluate(*value));
        const Restore restore(scope_, inside(scope_));
        for (std::size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i]);
        return execute(node.body);
      },
      [&](const FilterBlock& node) {
        const Value value = captured(node.body);
        const Value changed = filtered(std::get<Filter>(node.filter->any), &value);
        charge(changed.weight());
        write(text_of(changed));
        return Flow::next;
      },
      [&](const MacroBlock& node) {
        pin();
        scope_->names.insert_or_assign(node.macro->name,
                                       std::make_shared<const Callable>(BoundMacro{node.macro.get(), scope_.get()}));
        return Flow::next;
      },
      [&](const CallBlock& node) {
        call_block(node);
        return Flow::next;
      },
      [&](const Generation& node) {
        generation(node);
        return Flow::next;
      },
      [](const Break&) { return Flow::leave_loop; }, [](const Continue&) { return Flow::next_turn; });
}

Evaluator::Flow Evaluator::run_if(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (is_true(evaluate(*test))) return execute(body);
  }
  return execute(node.otherwise);
}

Evaluator::Flow Evaluator::run_for(const For& node) {
  auto loop = std::make_shared<LoopState>();
  loop->items = items_of(evaluate(*node.items));
  if (node.only) {
    std::vector<Value> kept;
    for (Value& item : loop->items) {
      const Restore restore(scope_, inside(scope_));
      assign(node.target, item);
      if (is_true(evaluate(*node.only))) kept.push_back(std::move(item));
    }
    loop->items = std::move(kept);
  }
  if (loop->items.empty()) return execute(node.otherwise);
  loop->depth = ++loop_depth_;
  Flow flow = Flow::next;
  for (; loop->index < loop->items.size() && flow != Flow::leave_loop; ++loop->index) {
    const Restore restore(scope_, inside(scope_));
    const Value item = loop->items[loop->index];
    scope_->turn = turn_of(item);
    scope_->names.insert_or_assign("loop", loop);
    assign(node.target, item);
    flow = execute(node.body);
  }
  --loop_depth_;
  return Flow::next;
}

void Evaluator::write(Text text) {
  charge(text.size());
  bytes_ += text.size();
  if (out_->size() + text.size() > most_output_) fail("it writes too much");
  if (out_->empty() && out_->marks().empty()) {
    *out_ = std::move(text);
  } else {
    out_->append(text);
  }
}

// The output of a body with its own scope.
Text Evaluator::captured(const Body& body) {
  const Restore restore(scope_, inside(scope_));
  Text text;
  if (execute_into(text, body) != Flow::next) fail("a loop is left out of a block whose text is kept");
  return text;
}

Evaluator::Flow Evaluator::execute_into(Text& text, const Body& body) {
  Text* const outer = std::exchange(out_, &text);
  const unsigned depth = std::exchange(loop_depth_, 0);
  const Flow flow = execute(body);
  out_ = outer;
  loop_depth_ = depth;
  return flow;
}

void Evaluator::generation(const Generation& node) {
  Text text = captured(node.body);
  text.mark({0, text.size(), current_turn()});
  write(std::move(text));
}

void Evaluator::call_block(const CallBlock& node) {
  const auto& call_node = std::get<Call>(node.call->any);
  pin();
  const Value callee = evaluate(*call_node.callee);
  CallArguments values = arguments(call_node.arguments);
  values.named.emplace_back("caller", std::make_shared<const Callable>(BoundMacro{node.caller.get(), scope_.get()}));
  const Value result = call(callee, std::move(values));
  charge(result.weight());
  write(text_of(result));
}

}  // namespace plimsoll::jinja
