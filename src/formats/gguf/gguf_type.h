// The types of values in a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, flag, text, array, u64, i64, f64 };

// The name of the type in the format: "uint8", "string".
std::string_view name(GgufType type);
// Bytes of a value; 0 for texts and arrays.
std::int64_t size_of(GgufType type);
// The value at `at` as a whole number; absent for other types and for numbers above 2^63 - 1.
std::optional<std::int64_t> whole_number(GgufType type, const std::byte* at);

// Reads a value at any alignment.
template <class T>
T read_unaligned(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace plimsoll
