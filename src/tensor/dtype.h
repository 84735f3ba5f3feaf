// The element types of tensors, files and programs, with their sizes and names.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i32, i64, u8, u16, u32 };

// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return 1;
    case DType::f16:
    case DType::bf16:
    case DType::u16: return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::f64:
    case DType::i64: return 8;
  }
  return 0;
}

// "f32", "bf16", ...
constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
    case DType::u16: return "u16";
    case DType::u32: return "u32";
  }
  return "?";
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace plimsoll
