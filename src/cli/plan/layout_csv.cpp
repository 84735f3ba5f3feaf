#include "cli/plan/layout_csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace plimsoll::layout {
namespace {

constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};
constexpr std::int64_t kLargestTotal = std::int64_t{1} << 61;  // maximum sum of all sizes; leaves room for sums in the solvers
constexpr std::int64_t kLatest = std::int64_t{1} << 61;        // maximum magnitude of a time
constexpr std::size_t kMostBuffers = 10'000'000, kMostColumns = 256, kMostBytes = 256 << 20;

class Reader {
 public:
  Reader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NamedProblem read() {
    read_header();
    while (const auto fields = next_record()) add_row(*fields);
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& expected) const {
    throw data_error("E-LAYOUT-CSV", fmt::format("{}:{}", where_, record_line_), message, expected);
  }

  // Quoted fields may hold commas, doubled quotes and line ends. Returns false at the end of the line.
  bool next_field(std::string& field) {
    field.clear();
    if (at_ < text_.size() && text_[at_] == '"') {
      read_quoted(field);
    } else {
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') field += text_[at_++];
      if (!field.empty() && field.back() == '\r') field.pop_back();
    }
    if (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      return true;
    }
    if (at_ < text_.size()) {
      ++at_;
      ++line_;
    }
    return false;
  }

  void read_quoted(std::string& field) {
    for (++at_;; ++at_) {
      if (at_ == text_.size()) fail("a quoted field has no end", "a closing quote");
      if (text_[at_] == '"') {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    ++at_;
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') {
      fail(fmt::format("text follows the quoted field {}", shown(field)), "a comma or the end of the line");
    }
  }

  // The fields of the next line that is not empty.
  std::optional<std::vector<std::string>> next_record() {
    while (at_ < text_.size()) {
      record_line_ = line_;
      std::vector<std::string> fields(1);
      while (next_field(fields.back())) {
        if (fields.size() == kMostColumns) fail("a line has too many fields", fmt::format("at most {}", kMostColumns));
        fields.emplace_back();
      }
      if (fields.size() > 1 || !trimmed(fields[0]).empty()) return fields;
    }
    return std::nullopt;
  }

  void read_header() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    const auto header = next_record();
    if (!header) fail("the file is empty", "a header with the columns id, lower, upper, size");
    columns_ = header->size();
    for (std::size_t k = 0; k < kColumns.size(); ++k) {
      const auto named = [&](const std::string& field) { return trimmed(field) == kColumns[k]; };
      const auto at = std::find_if(header->begin(), header->end(), named);
      if (at == header->end()) {
        fail(fmt::format("the header has no column '{}'", kColumns[k]), "a header with the columns id, lower, upper, size");
      }
      if (std::find_if(at + 1, header->end(), named) != header->end()) {
        fail(fmt::format("the header has the column '{}' twice", kColumns[k]), "each column once");
      }
      position_[k] = static_cast<std::size_t>(at - header->begin());
    }
  }

  void add_row(const std::vector<std::string>& fields) {
    if (fields.size() != columns_) {
      fail(fmt::format("the line has {} fields but the header {}", fields.size(), columns_), "one field for each column");
    }
    if (result_.ids.size() == kMostBuffers) fail("too many buffers", fmt::format("at most {}", kMostBuffers));
    std::string id(trimmed(fields[position_[0]]));
    if (id.empty()) fail("the id is empty", "a name for the buffer");
    if (!seen_.insert(id).second) fail(fmt::format("the id {} occurs twice", shown(id)), "each id once");
    Buffer buffer;
    buffer.lower = number(fields[position_[1]], 1);
    buffer.upper = number(fields[position_[2]], 2);
    buffer.size = number(fields[position_[3]], 3);
    check(buffer);
    total_ += buffer.size;
    result_.ids.push_back(std::move(id));
    result_.problem.buffers.push_back(buffer);
  }

  void check(const Buffer& buffer) const {
    if (buffer.size < 0) fail(fmt::format("size is {}", buffer.size), "a size of at least 0");
    if (buffer.upper < buffer.lower) {
      fail(fmt::format("upper is {} but lower is {}", buffer.upper, buffer.lower),
           "upper of at least lower: lives are [lower, upper)");
    }
    for (const std::int64_t time : {buffer.lower, buffer.upper}) {
      if (time > kLatest || time < -kLatest) fail(fmt::format("the time {} is out of range", time), "times within 2^61 of zero");
    }
    if (buffer.size > kLargestTotal - total_) {
      fail(fmt::format("with size {} the sizes add up beyond 2^61", buffer.size), "sizes that add up to at most 2^61");
    }
  }

  std::int64_t number(const std::string& field, std::size_t column) const {
    const std::string_view text = trimmed(field);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      fail(fmt::format("{} is {}, beyond 64 bits", kColumns[column], shown(text)), "a whole number of 64 bits");
    }
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
      fail(fmt::format("{} is {}", kColumns[column], shown(text)), "a whole number");
    }
    return value;
  }

  static std::string_view trimmed(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t\r");
    return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
  }

  // A value in quotes, shortened and printable.
  static std::string shown(std::string_view text) {
    std::string out = "'";
    for (const char c : text.substr(0, 40)) out += c >= ' ' && c != 127 ? c : '?';
    return out + (text.size() > 40 ? "...'" : "'");
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::size_t line_ = 1, record_line_ = 1;
  std::size_t columns_ = 0;
  std::array<std::size_t, kColumns.size()> position_{};
  std::int64_t total_ = 0;
  std::unordered_set<std::string> seen_;
  NamedProblem result_;
};

std::string quoted(const std::string& id) {
  if (id.find_first_of(",\"\n\r") == std::string::npos) return id;
  std::string out = "\"";
  for (const char c : id) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

}  // namespace

NamedProblem read_csv(std::string_view text, const std::string& where) { return Reader(text, where).read(); }

NamedProblem read_csv_file(const std::string& path) {
  constexpr std::size_t kBlock = 64 << 10;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (std::size_t got = kBlock; file && got == kBlock;) {
    text.resize(text.size() + kBlock);
    file.read(text.data() + text.size() - kBlock, kBlock);
    got = static_cast<std::size_t>(file.gcount());
    text.resize(text.size() - kBlock + got);
    if (text.size() > kMostBytes) {
      throw data_error("E-LAYOUT-CSV", path, fmt::format("it has more than {} bytes", kMostBytes), "a smaller file");
    }
  }
  if (file.bad() || !file.eof())
    throw data_error("E-LAYOUT-CSV", path, "the file cannot be read", "a CSV file with the columns id, lower, upper, size");
  return read_csv(text, path);
}

std::string write_csv(const NamedProblem& named, const Solution& solution) {
  std::string out = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < named.ids.size(); ++i) {
    const Buffer& buffer = named.problem.buffers[i];
    out += fmt::format("{},{},{},{},{}\n", quoted(named.ids[i]), buffer.lower, buffer.upper, buffer.size, solution.offsets[i]);
  }
  return out;
}

}  // namespace plimsoll::layout
