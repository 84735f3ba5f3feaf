// Text from outside (names, samples, tokens, messages of templates) in a form that is safe for a terminal. Control characters,
// marks that change the direction of text, and bytes that are not UTF-8 become numbers: \x1b, \u202e.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace plimsoll {

enum class ShownAs {
  block,  // line breaks and tabs stay
  line,   // line breaks and tabs become \n and \t
  json,   // text of a JSON or TOML document: \u001b; line breaks and tabs between values stay
};

// Calls put(part) for the parts of the shown text. Allocates no memory.
void put_shown(std::string_view text, ShownAs as, const std::function<void(std::string_view)>& put);

std::string shown_text(std::string_view text, ShownAs as = ShownAs::block);

// Text that comes in parts, which may end inside a character.
class ShownStream {
 public:
  // The text that is complete by now.
  std::string add(std::string_view part);
  // The rest.
  std::string end();

 private:
  std::string held_;
};

}  // namespace plimsoll
