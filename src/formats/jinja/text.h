// A text that records which of its bytes come from data rather than from the template, and which lie inside {% generation %}
// blocks. Every operation that joins or divides texts keeps both.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/byte_range.h"

namespace plimsoll::jinja {

using TextRange = ByteRange;

// The output of a {% generation %} block.
struct Mark {
  std::size_t begin = 0, end = 0;
  int turn = -1;  // the message of the enclosing loop; -1: none
  friend bool operator==(const Mark&, const Mark&) = default;
};

enum class Origin { of_template, data };

class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::of_template);

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // The ranges from data: sorted, not touching, not empty.
  const std::vector<TextRange>& data() const { return data_; }
  // The marks in the order of the ends of their blocks; some may be empty.
  const std::vector<Mark>& marks() const { return marks_; }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, std::size_t begin, std::size_t end);
  Text part(std::size_t begin, std::size_t end) const;
  void mark(Mark mark) { marks_.push_back(mark); }

  // visit(bytes, origin) for each stretch of one origin, in order.
  template <class Visit>
  void each_stretch(Visit&& visit) const {
    std::size_t done = 0;
    for (const TextRange& range : data_) {
      if (done < range.begin) visit(view(done, range.begin), Origin::of_template);
      visit(view(range.begin, range.end), Origin::data);
      done = range.end;
    }
    if (done < size()) visit(view(done, size()), Origin::of_template);
  }

 private:
  std::string_view view(std::size_t begin, std::size_t end) const { return std::string_view(bytes_).substr(begin, end - begin); }
  void add_data(TextRange range);

  std::string bytes_;
  std::vector<TextRange> data_;
  std::vector<Mark> marks_;
};

}  // namespace plimsoll::jinja
