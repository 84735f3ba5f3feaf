#include "formats/finite.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

namespace plimsoll {
namespace {

// True if an exponent has all bits set. The loop has no early exit, so that compilers vectorise it.
template <class Bits>
bool any_full(std::span<const std::byte> elements, Bits exponent) {
  Bits found = 0;
  for (std::size_t i = 0; i < elements.size() / sizeof(Bits); ++i) {
    Bits bits = 0;
    std::memcpy(&bits, elements.data() + i * sizeof(Bits), sizeof(Bits));
    found = static_cast<Bits>(found | static_cast<Bits>((bits & exponent) == exponent));
  }
  return found != 0;
}

template <class Bits>
std::optional<std::int64_t> first_full(std::span<const std::byte> elements, Bits exponent) {
  if (!any_full(elements, exponent)) return {};
  std::size_t i = 0;
  while (!any_full(elements.subspan(i * sizeof(Bits), sizeof(Bits)), exponent)) ++i;
  return static_cast<std::int64_t>(i);
}

}  // namespace

std::optional<std::int64_t> first_not_finite(DType dtype, std::span<const std::byte> elements) {
  switch (dtype) {
    case DType::f64: return first_full<std::uint64_t>(elements, 0x7ff0'0000'0000'0000);
    case DType::f32: return first_full<std::uint32_t>(elements, 0x7f80'0000);
    case DType::bf16: return first_full<std::uint16_t>(elements, 0x7f80);
    case DType::f16: return first_full<std::uint16_t>(elements, 0x7c00);
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::u16:
    case DType::u32: break;
  }
  return {};
}

std::string place_text(const Shape& shape, std::int64_t element) {
  std::string text;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    text = fmt::format("{}{}{}", element % shape[axis], text.empty() ? "" : ", ", text);
    element /= shape[axis];
  }
  return "[" + text + "]";
}

Error not_finite(const std::string& file, std::string_view tensor, const std::string& what) {
  return data_error("E-FORMAT-NAN", file, fmt::format("{} {}", tensor, what), "finite numbers alone");
}

void require_finite(const std::string& file, std::string_view tensor, const Shape& shape, std::int64_t first,
                    std::span<const float> numbers) {
  const auto bad = first_not_finite(DType::f32, std::as_bytes(numbers));
  if (!bad) return;
  const float number = numbers[static_cast<std::size_t>(*bad)];
  throw not_finite(
      file, tensor,
      fmt::format("holds {} at {}", std::isnan(number) ? "NaN" : "an infinite number", place_text(shape, first + *bad)));
}

}  // namespace plimsoll
