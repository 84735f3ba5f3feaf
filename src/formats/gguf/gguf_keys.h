// Keys with values for a new GGUF file, as bytes in the order of the calls. Values may be as large as a vocabulary, but never as
// a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf_type.h"

namespace plimsoll {

class GgufKeys {
 public:
  void put(std::string_view key, std::string_view text);
  void put_flag(std::string_view key, bool value);
  void put_whole(std::string_view key, std::int64_t value);  // u32
  void put_number(std::string_view key, double value);       // f32
  // Arrays. An empty one is an internal error, because the format has none.
  void put_texts(std::string_view key, std::span<const std::string> values);
  void put_wholes(std::string_view key, std::span<const std::int32_t> values);
  void put_numbers(std::string_view key, std::span<const float> values);
  // Appends the keys of `others`.
  void append(const GgufKeys& others);

  std::uint64_t count() const { return count_; }
  std::string_view bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element, std::size_t count);

  std::uint64_t count_ = 0;
  std::string bytes_;
};

// Appends a text or a number in the file's encoding.
void append_gguf_text(std::string& bytes, std::string_view text);
template <class T>
void append_gguf_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace plimsoll
