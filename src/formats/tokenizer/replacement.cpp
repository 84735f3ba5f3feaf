#include "formats/tokenizer/replacement.h"

#include <nlohmann/json.hpp>

namespace plimsoll {

Search::Search(const Component& component) : where_(component.where()) {
  const auto found = component.json().find("pattern");
  if (found == component.json().end() || !found->is_object() || found->size() != 1 || !found->begin()->is_string()) {
    component.refuse("its pattern is neither a String nor a Regex");
  }
  const std::string text = found->begin()->get<std::string>();
  if (found->begin().key() == "Regex") {
    pattern_.emplace(text, component.where());
  } else if (found->begin().key() == "String") {
    if (text.empty()) component.refuse("its pattern is empty");
    plain_ = text;
  } else {
    component.refuse("its pattern is neither a String nor a Regex");
  }
}

void Search::find_all(std::string_view text, std::vector<Match>& matches) const {
  if (pattern_) return pattern_->find_all(text, matches);
  matches.clear();
  for (std::size_t at = text.find(plain_); at != std::string_view::npos; at = text.find(plain_, at + plain_.size())) {
    matches.push_back({at, at + plain_.size()});
  }
}

std::string Search::replaced(std::string_view text, std::string_view content) const {
  std::vector<Match> matches;
  find_all(text, matches);
  return replaced(text, content, matches);
}

std::string Search::replaced(std::string_view text, std::string_view content, const std::vector<Match>& matches) const {
  check_grown(text.size() + matches.size() * content.size(), most_grown(text.size()), where_);
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  for (const Match& match : matches) {
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
  }
  return out += text.substr(done);
}

}  // namespace plimsoll
