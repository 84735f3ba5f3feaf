#include "formats/gguf/gguf_keys.h"

#include "base/error.h"

namespace plimsoll {

void append_gguf_text(std::string& bytes, std::string_view text) {
  append_gguf_number(bytes, std::uint64_t{text.size()});
  bytes += text;
}

void GgufKeys::begin(std::string_view key, GgufType type) {
  ++count_;
  append_gguf_text(bytes_, key);
  append_gguf_number(bytes_, static_cast<std::uint32_t>(type));
}

void GgufKeys::begin_array(std::string_view key, GgufType element, std::size_t count) {
  ensure(count > 0, "GgufKeys", "an array is empty");
  begin(key, GgufType::array);
  append_gguf_number(bytes_, static_cast<std::uint32_t>(element));
  append_gguf_number(bytes_, std::uint64_t{count});
}

void GgufKeys::put(std::string_view key, std::string_view text) {
  begin(key, GgufType::text);
  append_gguf_text(bytes_, text);
}

void GgufKeys::put_flag(std::string_view key, bool value) {
  begin(key, GgufType::flag);
  bytes_ += value ? '\1' : '\0';
}

void GgufKeys::put_whole(std::string_view key, std::int64_t value) {
  ensure(value >= 0 && value <= 0xffffffff, "GgufKeys", "a number does not fit 32 bits");
  begin(key, GgufType::u32);
  append_gguf_number(bytes_, static_cast<std::uint32_t>(value));
}

void GgufKeys::put_number(std::string_view key, double value) {
  begin(key, GgufType::f32);
  append_gguf_number(bytes_, static_cast<float>(value));
}

void GgufKeys::put_texts(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::text, values.size());
  for (const std::string& value : values) append_gguf_text(bytes_, value);
}

void GgufKeys::put_wholes(std::string_view key, std::span<const std::int32_t> values) {
  begin_array(key, GgufType::i32, values.size());
  for (const std::int32_t value : values) append_gguf_number(bytes_, value);
}

void GgufKeys::put_numbers(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::f32, values.size());
  for (const float value : values) append_gguf_number(bytes_, value);
}

void GgufKeys::append(const GgufKeys& others) {
  count_ += others.count_;
  bytes_ += others.bytes_;
}

}  // namespace plimsoll
