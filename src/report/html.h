// Pieces of the page: text that is safe in it, tables, numbers for people. Everything that comes from a file goes through
// escaped().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

// Safe as text and in attributes. Characters that HTML forbids, control characters and marks that change the direction of text
// become their numbers (\x1b, \u202e); bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// A long text with its middle left out.
std::string shortened(std::string_view text, std::size_t most);

// "1.412", "0.00031", "8.1e+07"; "-" for a number that is not finite.
std::string number_text(double number);
std::string number_text(std::optional<double> number);
// "2h03m", "4.2 s", "3.1 ms".
std::string time_text(double seconds);
// "1,234", "12.3k", "4.5M".
std::string short_count(double count);
std::string bytes_text(std::optional<Bytes> bytes);

// A table of cells that are HTML already. The first column is a heading of its row; `numbers`: other columns stand to the right.
class Table {
 public:
  explicit Table(std::string caption, std::vector<std::string> head = {}, bool numbers = true)
      : caption_(std::move(caption)), head_(std::move(head)), numbers_(numbers) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // The same with text, unless the second one is empty.
  void fact(std::string_view name, std::string_view text);
  bool empty() const { return rows_.empty(); }
  // Empty without rows.
  std::string html() const;

 private:
  std::string caption_;
  std::vector<std::string> head_;
  bool numbers_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace plimsoll
