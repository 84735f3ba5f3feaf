#include "formats/jinja/parameters.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace plimsoll::jinja {

Parameters::Parameters(const Evaluator& evaluator, std::string_view function, CallArguments arguments,
                       std::initializer_list<std::string_view> names)
    : evaluator_(evaluator), function_(function), names_(names), values_(names.size()), given_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    evaluator.fail(fmt::format("'{}' takes at most {} argument(s)", function, names_.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  for (auto& [name, value] : arguments.named) {
    const auto found = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    if (found == names_.size()) evaluator.fail(fmt::format("'{}' takes no argument '{}'", function, name.substr(0, 80)));
    if (given_[found]) evaluator.fail(fmt::format("'{}' has two values for '{}'", function, name));
    values_[found] = std::move(value);
    given_[found] = true;
  }
}

const Value& Parameters::need(std::size_t index) const {
  if (!given_[index]) evaluator_.fail(fmt::format("'{}' lacks its argument '{}'", function_, names_[index]));
  return values_[index];
}

}  // namespace plimsoll::jinja
