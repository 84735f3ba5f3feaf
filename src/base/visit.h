// Exhaustive visits of variants: a new alternative does not compile until each visit handles it.
#pragma once

#include <utility>
#include <variant>

namespace plimsoll {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// match(variant, [](const A&) {...}, [](const B&) {...}): one case for each alternative.
template <class Variant, class... Cases>
decltype(auto) match(Variant&& variant, Cases&&... cases) {
  return std::visit(Overloaded{std::forward<Cases>(cases)...}, std::forward<Variant>(variant));
}

}  // namespace plimsoll
