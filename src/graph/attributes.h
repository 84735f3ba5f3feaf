// The attributes of a node: one plain struct per op, held by value. The graph needs only to compare and to print them;
// an op that knows its own struct reads it back with `as<T>()`.
// Such a struct is compared with `= default` and names its fields in `template <class V> void fields(V&& v) const { v("name",
// field); ... }`.
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

// The key of an op's counter-based noise. No other field of attributes is of this type, by which they tell it.
using NoiseKey = std::array<std::uint32_t, 2>;

std::string attribute_text(bool value);
std::string attribute_text(std::int64_t value);
std::string attribute_text(double value);
std::string attribute_text(DType value);
std::string attribute_text(const Shape& value);
std::string attribute_text(const NoiseKey& value);
inline std::string attribute_text(int value) { return attribute_text(std::int64_t{value}); }

class Attributes {
 public:
  Attributes() = default;

  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Attributes>)
      Attributes(T value)  // NOLINT: an attribute struct is an Attributes
      : equal_([](const std::any& a, const std::any& b) { return std::any_cast<const T&>(a) == std::any_cast<const T&>(b); }),
        text_([](const std::any& a, bool noise) {
          std::string text;
          std::any_cast<const T&>(a).fields([&](const char* name, const auto& field) {
            if (std::is_same_v<decltype(field), const NoiseKey&> && !noise) return;
            text += (text.empty() ? "" : ", ") + std::string(name) + "=" + attribute_text(field);
          });
          return text;
        }),
        value_(std::move(value)) {}

  template <class T>
  const T& as() const {
    const T* value = std::any_cast<T>(&value_);
    ensure(value != nullptr, "attributes", "the op asks for attributes of another type");
    return *value;
  }

  bool empty() const { return !value_.has_value(); }
  // "transpose_b=true, bias=false": canonical, part of the graph's hash.
  std::string text() const { return empty() ? std::string() : text_(value_, true); }
  // The same without the keys of noise: equal where two nodes do the same work.
  std::string text_without_noise() const { return empty() ? std::string() : text_(value_, false); }

  friend bool operator==(const Attributes& a, const Attributes& b) {
    if (a.empty() || b.empty()) return a.empty() == b.empty();
    return a.value_.type() == b.value_.type() && a.equal_(a.value_, b.value_);
  }

 private:
  bool (*equal_)(const std::any&, const std::any&) = nullptr;
  std::string (*text_)(const std::any&, bool noise) = nullptr;
  std::any value_;
};

}  // namespace plimsoll
