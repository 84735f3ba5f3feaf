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

std::string attribute_text(bool value);
std::string attribute_text(std::int64_t value);
std::string attribute_text(double value);
std::string attribute_text(DType value);
std::string attribute_text(const Shape& value);
std::string attribute_text(const std::array<std::uint32_t, 2>& value);
inline std::string attribute_text(int value) { return attribute_text(std::int64_t{value}); }

class Attributes {
 public:
  Attributes() = default;

  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Attributes>)
      Attributes(T value)  // NOLINT: an attribute struct is an Attributes
      : equal_([](const std::any& a, const std::any& b) { return std::any_cast<const T&>(a) == std::any_cast<const T&>(b); }),
        text_([](const std::any& a) {
          std::string text;
          std::any_cast<const T&>(a).fields([&](const char* name, const auto& field) {
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
  std::string text() const { return empty() ? std::string() : text_(value_); }

  friend bool operator==(const Attributes& a, const Attributes& b) {
    if (a.empty() || b.empty()) return a.empty() == b.empty();
    return a.value_.type() == b.value_.type() && a.equal_(a.value_, b.value_);
  }

 private:
  bool (*equal_)(const std::any&, const std::any&) = nullptr;
  std::string (*text_)(const std::any&) = nullptr;
  std::any value_;
};

}  // namespace plimsoll
