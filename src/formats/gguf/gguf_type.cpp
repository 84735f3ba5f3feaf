#include "formats/gguf/gguf_type.h"

#include <array>

namespace plimsoll {

std::string_view name(GgufType type) {
  constexpr std::array<std::string_view, 13> kNames{"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                                    "bool",  "string", "array",  "uint64", "int64",  "float64"};
  return kNames[static_cast<std::size_t>(type)];
}

std::int64_t size_of(GgufType type) {
  constexpr std::array<std::int8_t, 13> kSizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

std::optional<std::int64_t> whole_number(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::u8: return read_unaligned<std::uint8_t>(at);
    case GgufType::i8: return read_unaligned<std::int8_t>(at);
    case GgufType::u16: return read_unaligned<std::uint16_t>(at);
    case GgufType::i16: return read_unaligned<std::int16_t>(at);
    case GgufType::u32: return read_unaligned<std::uint32_t>(at);
    case GgufType::i32: return read_unaligned<std::int32_t>(at);
    case GgufType::i64: return read_unaligned<std::int64_t>(at);
    case GgufType::u64: {
      const auto value = read_unaligned<std::uint64_t>(at);
      return value >> 63 == 0 ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

}  // namespace plimsoll
