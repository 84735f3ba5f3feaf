// The global functions of templates.
#include <fmt/core.h>

#include <array>
#include <ctime>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/parameters.h"

namespace plimsoll::jinja {
namespace {

Value range(Evaluator& evaluator, CallArguments arguments) {
  constexpr std::int64_t kMost = 100'000;
  const Parameters given(evaluator, "range", std::move(arguments), {"start", "stop", "step"});
  const std::int64_t first = evaluator.need_whole(given.need(0), "range");
  const std::int64_t begin = given.has(1) ? first : 0;
  const std::int64_t end = given.has(1) ? evaluator.need_whole(given.at(1), "range") : first;
  const std::int64_t step = given.has(2) ? evaluator.need_whole(given.at(2), "range") : 1;
  if (step == 0) evaluator.fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (std::ssize(items) == kMost) evaluator.fail(fmt::format("a range has more than {} numbers", kMost));
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return evaluator.made(make_list(std::move(items)));
}

Value dict(Evaluator& evaluator, CallArguments arguments) {
  Dict made;
  if (arguments.positional.size() > 1) evaluator.fail("dict() takes one argument and names");
  if (!arguments.positional.empty()) {
    const Dict* from = arguments.positional[0].dict();
    if (from == nullptr) evaluator.refuse(arguments.positional[0], "dict()");
    made = *from;
  }
  for (auto& [name, value] : arguments.named) made.set(Text(name), std::move(value));
  return evaluator.made(std::move(made));
}

}  // namespace

Value Evaluator::global(std::string_view name, CallArguments arguments) {
  if (name == "raise_exception") {
    const Parameters given(*this, name, std::move(arguments), {"message"});
    charge(given.need(0).weight());
    fail(text_of(given.need(0)).bytes());
  }
  if (name == "strftime_now") {
    constexpr std::size_t kMostFormat = 256;
    const Parameters given(*this, name, std::move(arguments), {"format"});
    const std::string& format = need_text(given.need(0), name).bytes();
    if (format.size() > kMostFormat) fail("the format of a time is too long");
    std::array<char, 4096> buffer{};
    read_clock_ = true;
    return made(Text(std::string(buffer.data(), std::strftime(buffer.data(), buffer.size(), format.c_str(), &input_.now))));
  }
  if (name == "namespace") {
    constexpr std::uint64_t kBytes = 1024;
    charge(kBytes);
    charge_memory(kBytes);
    NameSpace& space = spaces_.emplace_back();
    const Value from = dict(*this, std::move(arguments));
    for (const auto& [key, value] : from.dict()->items()) {
      if (key.text() == nullptr || key.text()->bytes().starts_with('_')) fail("a namespace has no such attribute");
      space.names.insert_or_assign(key.text()->bytes(), value);
    }
    return &space;
  }
  if (name == "dict") return dict(*this, std::move(arguments));
  return range(*this, std::move(arguments));
}

}  // namespace plimsoll::jinja
