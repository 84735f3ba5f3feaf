#include "formats/jinja/text.h"

#include <algorithm>

namespace plimsoll::jinja {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (origin == Origin::data) add_data({0, bytes_.size()});
}

void Text::add_data(TextRange range) {
  if (range.begin == range.end) return;
  if (!data_.empty() && data_.back().end == range.begin) {
    data_.back().end = range.end;
  } else {
    data_.push_back(range);
  }
}

void Text::append(std::string_view bytes, Origin origin) {
  const std::size_t begin = size();
  bytes_ += bytes;
  if (origin == Origin::data) add_data({begin, size()});
}

void Text::append(const Text& text, std::size_t begin, std::size_t end) {
  const std::size_t at = size();
  bytes_.append(text.bytes_, begin, end - begin);
  auto range = std::ranges::upper_bound(text.data_, begin, {}, &TextRange::end);
  for (; range != text.data_.end() && range->begin < end; ++range) {
    add_data({at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin});
  }
  for (const Mark& mark : text.marks_) {
    const std::size_t first = std::max(mark.begin, begin), last = std::min(mark.end, end);
    if (first <= last) marks_.push_back({at + first - begin, at + last - begin, mark.turn});
  }
}

Text Text::part(std::size_t begin, std::size_t end) const {
  Text part;
  part.append(*this, begin, end);
  return part;
}

}  // namespace plimsoll::jinja
