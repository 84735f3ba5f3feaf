#include "formats/gguf/gguf_cursor.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

constexpr std::int64_t kBufferBytes = 64 << 10, kMostElement = kBufferBytes - 8;

}  // namespace

GgufCursor::GgufCursor(const GgufFile& file, std::string key, const GgufValue& value)
    : file_(&file),
      key_(std::move(key)),
      element_(value.element),
      count_(value.count),
      at_(value.offset),
      buffer_(static_cast<std::size_t>(kBufferBytes)) {}

GgufCursor GgufCursor::of(const GgufFile& file, std::string_view key, const char* elements, bool (*is)(GgufType)) {
  const std::string expected = fmt::format("an array of {}", elements);
  const GgufValue* value = file.value(key);
  if (value == nullptr) throw file.malformed(fmt::format("there is no key {}", key), expected);
  if (value->type != GgufType::array || !is(value->element)) {
    throw file.malformed(fmt::format("{} is not {}", key, expected), expected);
  }
  return {file, std::string(key), *value};
}

GgufCursor GgufCursor::texts(const GgufFile& file, std::string_view key) {
  return of(file, key, "strings", [](GgufType type) { return type == GgufType::text; });
}

GgufCursor GgufCursor::numbers(const GgufFile& file, std::string_view key) {
  return of(file, key, "numbers", [](GgufType type) { return type != GgufType::text && type != GgufType::flag; });
}

// The next bytes, at most as many as the buffer holds; valid until the next call.
std::span<const std::byte> GgufCursor::take(std::size_t bytes) {
  if (end_ - begin_ < bytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_, begin_ = 0;
    const auto more = static_cast<std::size_t>(
        std::min<std::int64_t>(std::ssize(buffer_) - static_cast<std::int64_t>(end_), file_->file().size() - at_));
    ensure(end_ + more >= bytes, "GgufCursor", "an element leaves the file");
    file_->file().read_at(at_, std::span(buffer_).subspan(end_, more));
    at_ += static_cast<std::int64_t>(more), end_ += more;
  }
  const std::span<const std::byte> result = std::span(buffer_).subspan(begin_, bytes);
  begin_ += bytes;
  return result;
}

std::string_view GgufCursor::next_text() {
  ensure(!at_end(), "GgufCursor", "there is no next element");
  ++next_;
  const auto bytes = read_unaligned<std::uint64_t>(take(8).data());
  if (bytes > static_cast<std::uint64_t>(kMostElement)) {
    throw file_->malformed(fmt::format("element {} of {} has {} bytes", next_ - 1, key_, bytes),
                           fmt::format("at most {}", kMostElement));
  }
  const std::span<const std::byte> taken = take(bytes);
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

double GgufCursor::next_number() {
  ensure(!at_end(), "GgufCursor", "there is no next element");
  ++next_;
  const std::byte* at = take(static_cast<std::size_t>(size_of(element_))).data();
  if (element_ == GgufType::f32) return double{read_unaligned<float>(at)};
  if (element_ == GgufType::f64) return read_unaligned<double>(at);
  const auto number = whole_number(element_, at);
  if (!number) throw file_->malformed(fmt::format("element {} of {} passes 2^63", next_ - 1, key_), "a smaller number");
  return static_cast<double>(*number);
}

}  // namespace plimsoll
