// Text from outside (names, samples, tokens, messages of templates) as a terminal may get it. A control character, a mark that
// turns the direction of text, or a byte that is not UTF-8 comes as its number: \x1b, \u202e.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace plimsoll {

enum class ShownAs {
  block,  // line breaks and tabs stay
  line,   // they come as \n and \t
  json,   // for the text of a JSON or TOML document: \u001b, and line breaks and tabs between its values stay
};

// Calls put(part) for the parts of the shown text. Takes no memory of its own.
void put_shown(std::string_view text, ShownAs as, const std::function<void(std::string_view)>& put);

std::string shown_text(std::string_view text, ShownAs as = ShownAs::block);

// Text that comes in parts, which may end inside a character.
class ShownStream {
 public:
  // The text that can be shown by now.
  std::string add(std::string_view part);
  // The rest.
  std::string end();

 private:
  std::string held_;
};

}  // namespace plimsoll
