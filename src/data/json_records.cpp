#include "data/json_records.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBufferBytes = 256 << 10;

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

JsonRecords::JsonRecords(const std::filesystem::path& path, std::int64_t most, Hasher* read)
    : file_(File::open(path, "E-DATA-MISSING")), hasher_(read), most_(static_cast<std::size_t>(most)) {
  fill();
  if (buffer_.starts_with("\xef\xbb\xbf")) at_ = 3;
  skip_spaces();
  array_ = peek() == '[';
}

void JsonRecords::fail_length(std::int64_t line) const {
  const auto most = static_cast<std::int64_t>(most_);
  fail(line, fmt::format("a {} is longer than {} bytes", array_ ? "sample" : "line", most),
       most < kMostSampleBytes ? "a shorter sample, or a larger memory.budget: a sample may have a 32nd of it"
                               : "shorter samples, one a line");
}

void JsonRecords::fail(std::int64_t line, const std::string& why, const std::string& expected) const {
  throw data_error("E-DATA-JSON", fmt::format("{}:{}", file_.path(), line), why, expected);
}

bool JsonRecords::fill() {
  const std::int64_t count = std::min(kBufferBytes, file_.size() - read_);
  if (count <= 0) return false;
  buffer_.resize(static_cast<std::size_t>(count));
  file_.read_at(read_, std::as_writable_bytes(std::span(buffer_)));
  if (hasher_ != nullptr) hasher_->add(std::as_bytes(std::span(buffer_)));
  file_.forget(read_, count);
  read_ += count;
  at_ = 0;
  return true;
}

int JsonRecords::peek() {
  if (at_ == buffer_.size() && !fill()) return -1;
  return static_cast<unsigned char>(buffer_[at_]);
}

void JsonRecords::skip() {
  if (buffer_[at_] == '\n') ++line_;
  ++at_;
}

void JsonRecords::skip_spaces() {
  while (is_space(peek())) skip();
}

void JsonRecords::keep(JsonRecord& record, char c) const {
  if (record.text.size() == most_) fail_length(record.line);
  record.text += c;
}

std::optional<JsonRecord> JsonRecords::next() { return array_ ? next_element() : next_line(); }

std::optional<JsonRecord> JsonRecords::next_line() {
  skip_spaces();
  if (peek() < 0) return {};
  JsonRecord record{{}, line_};
  for (int c = peek(); c >= 0 && c != '\n'; c = peek()) {
    const std::size_t end = std::min(buffer_.find('\n', at_), buffer_.size());
    if (record.text.size() + (end - at_) > most_) fail_length(record.line);
    record.text.append(buffer_, at_, end - at_);
    at_ = end;
  }
  return record;
}

std::optional<JsonRecord> JsonRecords::next_element() {
  constexpr const char* kExpected = "[ sample, sample, ... ] and nothing else in the file";
  if (!begun_) skip();
  skip_spaces();
  if (!ended_ && peek() == ']' && !begun_) ended_ = (skip(), true);
  if (!ended_ && begun_) {
    if (peek() == ']') {
      skip();
      ended_ = true;
    } else if (peek() == ',') {
      skip();
      skip_spaces();
    } else {
      fail(line_, peek() < 0 ? "the array has no end" : "elements of an array stand without a comma between them", kExpected);
    }
  }
  begun_ = true;
  if (ended_) {
    skip_spaces();
    if (peek() >= 0) fail(line_, "something follows the array", kExpected);
    return {};
  }
  JsonRecord record{{}, line_};
  std::int64_t depth = 0;
  bool text = false, escaped = false;
  for (;; skip()) {
    const int c = peek();
    if (c < 0) fail(record.line, depth > 0 || text ? "the file ends within this element" : "the array has no end", kExpected);
    if (!text && depth == 0 && (c == ',' || c == ']')) break;
    keep(record, static_cast<char>(c));
    if (text) {
      if (!escaped && c == '"') text = false;
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      text = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  while (!record.text.empty() && is_space(record.text.back())) record.text.pop_back();
  if (record.text.empty()) fail(record.line, "an element of the array is missing", kExpected);
  return record;
}

}  // namespace plimsoll
