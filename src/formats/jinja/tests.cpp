// The tests of a template (after `is`).
#include <fmt/core.h>

#include <algorithm>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/text_functions.h"

namespace plimsoll::jinja {
namespace {

// Tests of a value without arguments; absent for other names.
std::optional<bool> plain_test(std::string_view name, const Value& value) {
  const auto* truth = value.get<bool>();
  const List* list = value.list();
  const bool generator = list != nullptr && list->kind == ListKind::generator;
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "boolean") return truth != nullptr;
  if (name == "true") return truth != nullptr && *truth;
  if (name == "false") return truth != nullptr && !*truth;
  if (name == "string") return value.text() != nullptr;
  if (name == "mapping") return value.dict() != nullptr;
  if (name == "number") return value.is_number();
  if (name == "integer") return value.get<std::int64_t>() != nullptr || value.get<BigInteger>() != nullptr;
  if (name == "float") return value.get<double>() != nullptr;
  // Python tests the methods of a value. Those of an undefined value exist: iterating yields nothing, and calling fails.
  if (name == "iterable") return value.is_undefined() || value.text() != nullptr || list != nullptr || value.dict() != nullptr;
  if (name == "sequence") {
    return value.is_undefined() || value.text() != nullptr || (list != nullptr && !generator) || value.dict() != nullptr;
  }
  if (name == "callable") return value.is_undefined() || value.get<std::shared_ptr<const Callable>>() != nullptr;
  if (name == "escaped") return false;
  return {};
}

std::optional<CompareKind> comparison_of(std::string_view name) {
  constexpr std::pair<std::string_view, CompareKind> kNames[] = {
      {"eq", CompareKind::equal},      {"equalto", CompareKind::equal},    {"==", CompareKind::equal},
      {"ne", CompareKind::unequal},    {"!=", CompareKind::unequal},       {"lt", CompareKind::less},
      {"lessthan", CompareKind::less}, {"<", CompareKind::less},           {"le", CompareKind::less_equal},
      {"<=", CompareKind::less_equal}, {"gt", CompareKind::greater},       {"greaterthan", CompareKind::greater},
      {">", CompareKind::greater},     {"ge", CompareKind::greater_equal}, {">=", CompareKind::greater_equal},
      {"in", CompareKind::in}};
  const auto* found = std::ranges::find(kNames, name, [](const auto& each) { return each.first; });
  return found != std::end(kNames) ? std::optional(found->second) : std::nullopt;
}

}  // namespace

bool Evaluator::test(const std::string& name, const Value& input, const CallArguments& arguments) {
  if (!arguments.named.empty()) fail(fmt::format("the test '{}' takes no names", name));
  const auto takes = [&](std::size_t count) {
    if (arguments.positional.size() != count) fail(fmt::format("the test '{}' takes {} argument(s)", name, count));
  };
  if (const auto result = plain_test(name, input)) return takes(0), *result;
  if (const auto kind = comparison_of(name)) return takes(1), compare(*kind, input, arguments.positional[0]);
  if (name == "sameas") {
    takes(1);
    const Value& other = arguments.positional[0];
    const bool same_type = input.any().index() == other.any().index();
    charge(std::min(input.weight(), other.weight()));
    if (input.list() != nullptr) return input.list() == other.list();
    if (input.dict() != nullptr) return input.dict() == other.dict();
    return same_type && equal(input, other);
  }
  if (name == "odd" || name == "even" || name == "divisibleby") {
    const bool divisible = name == "divisibleby";
    takes(divisible ? 1 : 0);
    const std::int64_t by = divisible ? need_whole(arguments.positional[0], name) : 2;
    const Value rest = binary(BinaryKind::modulo, Value(need_whole(input, name)), Value(by));
    return *rest.get<std::int64_t>() == (name == "odd" ? 1 : 0);
  }
  if (name == "lower" || name == "upper") {
    takes(0);
    charge(input.weight());
    return has_case(text_of(input).bytes(), name == "upper");
  }
  fail(fmt::format("No test named '{}'.", name));
}

}  // namespace plimsoll::jinja
