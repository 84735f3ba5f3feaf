// Evaluation of expressions.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/visit.h"
#include "formats/jinja/evaluator.h"

namespace plimsoll::jinja {

Value Evaluator::evaluate(const Expression& expression) {
  const Level level(*this);
  line_ = expression.line;
  return evaluate_any(expression);
}

Value Evaluator::evaluate_any(const Expression& expression) {
  return match(
      expression.any, [](const Literal& node) { return node.value; }, [&](const Name& node) { return lookup(node.name); },
      [&](const ListDisplay& node) {
        std::vector<Value> items;
        for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item));
        return made(make_list(std::move(items), node.tuple ? ListKind::tuple : ListKind::list));
      },
      [&](const DictDisplay& node) {
        constexpr std::size_t kMostOthers = 1000;
        Dict dict;
        std::size_t others = 0;  // the rest, evaluated one by one
        for (const auto& [key, value] : node.items) {
          Value name = evaluate(*key);
          if (name.list() != nullptr || name.dict() != nullptr) fail(fmt::format("unhashable type: '{}'", name.type()));
          if (name.text() == nullptr && ++others > kMostOthers) fail("a dict has too many keys that are no texts");
          dict.set(std::move(name), evaluate(*value));
        }
        return made(std::move(dict));
      },
      [&](const Unary& node) {
        const Value value = evaluate(*node.operand);
        if (node.kind == UnaryKind::logical_not) return Value(!is_true(value));
        return binary(node.kind == UnaryKind::negative ? BinaryKind::subtract : BinaryKind::add, Value(0), value);
      },
      [&](const Binary& node) {
        Value left = evaluate(*node.left);
        if (node.kind == BinaryKind::logical_and) return is_true(left) ? evaluate(*node.right) : left;
        if (node.kind == BinaryKind::logical_or) return is_true(left) ? left : evaluate(*node.right);
        const Value right = evaluate(*node.right);
        line_ = expression.line;
        return binary(node.kind, left, right);
      },
      [&](const Comparison& node) { return comparison(node); }, [&](const Concatenation& node) { return concatenation(node); },
      [&](const Conditional& node) { return conditional(node); },
      [&](const Attribute& node) {
        const Value object = evaluate(*node.object);
        line_ = expression.line;
        return attribute(object, node.name);
      },
      [&](const Item& node) {
        const Value object = evaluate(*node.object), index = evaluate(*node.index);
        line_ = expression.line;
        return item(object, index);
      },
      [&](const Slice& node) {
        const auto part = [&](const ExpressionPtr& each) { return each ? evaluate(*each) : Value(None{}); };
        const Value object = evaluate(*node.object), begin = part(node.begin), end = part(node.end), step = part(node.step);
        line_ = expression.line;
        return slice(object, begin, end, step);
      },
      [&](const Call& node) {
        const Value callee = evaluate(*node.callee);
        CallArguments values = arguments(node.arguments);
        line_ = expression.line;
        return call(callee, std::move(values));
      },
      [&](const Filter& node) { return filtered(node, nullptr); },
      [&](const Test& node) {
        const Value input = evaluate(*node.input);
        const CallArguments values = arguments(node.arguments);
        line_ = expression.line;
        return Value(test(node.name, input, values));
      });
}

Value Evaluator::conditional(const Conditional& node) {
  if (is_true(evaluate(*node.test))) return evaluate(*node.yes);
  if (node.no) return evaluate(*node.no);
  return undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Evaluator::comparison(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& [kind, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(kind, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::concatenation(const Concatenation& node) {
  Text text;
  for (const ExpressionPtr& part : node.parts) {
    const Value value = evaluate(*part);
    charge_memory(value.weight());
    text.append(text_of(value));
  }
  return made(std::move(text));
}

CallArguments Evaluator::arguments(const Arguments& nodes) {
  CallArguments values;
  for (const ExpressionPtr& each : nodes.positional) values.positional.push_back(evaluate(*each));
  for (const auto& [name, value] : nodes.named) values.named.emplace_back(name, evaluate(*value));
  if (nodes.more) {
    for (Value& item : items_of(evaluate(*nodes.more))) values.positional.push_back(std::move(item));
  }
  if (nodes.more_named) {
    const Value more = evaluate(*nodes.more_named);
    const Dict* dict = more.dict();
    if (dict == nullptr) refuse(more, "**");
    charge(dict->size() * sizeof(Value));
    for (const auto& [name, value] : dict->items()) values.named.emplace_back(need_text(name, "**").bytes(), value);
  }
  return values;
}

// `given`: the input of the innermost filter of a filter block; null for a chain in an expression.
Value Evaluator::filtered(const Filter& node, const Value* given) {
  const int line = line_;
  Value input;
  if (!node.input) {
    ensure(given != nullptr, "Evaluator", "a filter has no input");
    input = *given;
  } else if (const auto* before = std::get_if<Filter>(&node.input->any); before != nullptr && given != nullptr) {
    const Level level(*this);
    input = filtered(*before, given);
  } else {
    input = evaluate(*node.input);
  }
  CallArguments values = arguments(node.arguments);
  line_ = line;
  return filter(node.name, input, std::move(values));
}

Value Evaluator::call(const Value& callee, CallArguments values) {
  const auto* callable = callee.get<std::shared_ptr<const Callable>>();
  if (callable == nullptr) {
    if (callee.is_undefined()) refuse(callee, "a call");
    fail(fmt::format("'{}' object is not callable", callee.type()));
  }
  return match((*callable)->any, [&](const GlobalFunction& function) { return global(function.name, std::move(values)); },
               [&](const Method& each) { return method(each, std::move(values)); },
               [&](const BoundMacro& bound) { return call_macro(bound, std::move(values)); });
}

Value Evaluator::call_macro(const BoundMacro& bound, CallArguments values) {
  const Level level(*this);
  const Macro& macro = *bound.macro;
  const int line = line_;
  const std::size_t count = macro.parameters.size();
  auto scope = std::make_shared<Scope>();
  scope->outer = std::shared_ptr<Scope>(std::shared_ptr<Scope>(), bound.scope);  // the evaluator keeps it
  if (values.positional.size() > count && !macro.takes_more) {
    fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count));
  }
  Text text;
  {
    const Restore restore(scope_, scope);
    Dict more_named;
    for (auto& [name, value] : values.named) {
      const auto parameter = std::ranges::find(macro.parameters, name);
      if (parameter != macro.parameters.end()) {
        if (static_cast<std::size_t>(parameter - macro.parameters.begin()) < values.positional.size()) {
          fail(fmt::format("macro '{}' has two values for '{}'", macro.name, name));
        }
        scope_->names.insert_or_assign(name, std::move(value));
      } else if (name == "caller") {
        scope_->names.insert_or_assign(name, std::move(value));
      } else if (macro.takes_more_named) {
        more_named.set(Text(name), std::move(value));
      } else {
        fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
      }
    }
    const std::size_t required = count - macro.defaults.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = macro.parameters[i];
      if (i < values.positional.size()) {
        scope_->names.insert_or_assign(name, values.positional[i]);
      } else if (!scope_->names.contains(name)) {
        scope_->names.insert_or_assign(name, i >= required ? evaluate(*macro.defaults[i - required])
                                                           : undefined(fmt::format("parameter '{}' was not provided", name)));
      }
    }
    if (macro.takes_more) {
      const auto first = values.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, values.positional.size()));
      scope_->names.insert_or_assign("varargs",
                                     made(make_list(std::vector<Value>(first, values.positional.end()), ListKind::tuple)));
    }
    if (macro.takes_more_named) scope_->names.insert_or_assign("kwargs", made(std::move(more_named)));
    execute_into(text, macro.body);
  }
  line_ = line;
  return made(std::move(text));
}

}  // namespace plimsoll::jinja
