// The attributes of a node: one plain struct per op, with value semantics. The graph only compares and prints them; an op reads
// its own struct with `as<T>()`. Such a struct names its fields, by PLIMSOLL_FIELDS where all are printed, or else in
// `template <class V> void fields(V&& v) const { v("name", field); ... }`. An absent optional field is not printed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/block_format.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

// The key of an op's counter-based noise. No other field of attributes has this type, so the type identifies it.
using NoiseKey = std::array<std::uint32_t, 2>;

std::string attribute_text(bool value);
std::string attribute_text(std::int64_t value);
std::string attribute_text(double value);
std::string attribute_text(DType value);
std::string attribute_text(const Shape& value);
std::string attribute_text(const NoiseKey& value);
std::string attribute_text(const BlockMatrix& value);
inline std::string attribute_text(const std::optional<BlockMatrix>& value) { return attribute_text(*value); }
inline std::string attribute_text(const std::optional<std::int64_t>& value) { return attribute_text(*value); }
inline std::string attribute_text(const std::string& value) { return value; }
std::string attribute_text(const std::vector<double>& value);
std::string attribute_text(const std::vector<std::int64_t>& value);
inline std::string attribute_text(int value) { return attribute_text(std::int64_t{value}); }

// Calls visit(name, field) for each field; `names` are separated by ", ".
template <class V, class... Field>
void visit_fields(V&& visit, std::string_view names, const Field&... fields) {
  const auto next = [&names] {
    const std::string name(names.substr(0, names.find(',')));
    names.remove_prefix(std::min(names.size(), name.size() + 2));
    return name;
  };
  (visit(next().c_str(), fields), ...);
}
#define PLIMSOLL_FIELDS(...)                                \
  template <class V>                                        \
  void fields(V&& v) const {                                \
    ::plimsoll::visit_fields(v, #__VA_ARGS__, __VA_ARGS__); \
  }

class Attributes {
 public:
  Attributes() = default;

  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Attributes>)
      Attributes(T value)  // NOLINT: an attribute struct is an Attributes
      : kind_(&kind_of<T>), value_(std::make_shared<const T>(std::move(value))) {}

  template <class T>
  const T& as() const {
    ensure(kind_ == &kind_of<T>, "attributes", "the op asks for attributes of another type");
    return *static_cast<const T*>(value_.get());
  }

  bool empty() const { return kind_ == nullptr; }
  // "transpose_b=true, bias=false": canonical, part of the graph's hash.
  std::string text() const { return empty() ? std::string() : kind_->text(value_.get(), true); }
  // The text without keys of noise; equal for two nodes with the same work.
  std::string text_without_noise() const { return empty() ? std::string() : kind_->text(value_.get(), false); }

  friend bool operator==(const Attributes& a, const Attributes& b) { return a.kind_ == b.kind_ && a.text() == b.text(); }

 private:
  struct Kind {
    std::string (*text)(const void*, bool noise);
  };
  template <class T>
  static std::string text_of(const void* value, bool noise) {
    std::string text;
    static_cast<const T*>(value)->fields([&](const char* name, const auto& field) {
      if (std::is_same_v<decltype(field), const NoiseKey&> && !noise) return;
      if (is_absent(field)) return;
      text += (text.empty() ? "" : ", ") + std::string(name) + "=" + attribute_text(field);
    });
    return text;
  }
  template <class F>
  static bool is_absent(const F&) {
    return false;
  }
  template <class F>
  static bool is_absent(const std::optional<F>& field) {
    return !field;
  }
  // One object per type; its address identifies the type.
  template <class T>
  static inline const Kind kind_of{&text_of<T>};

  const Kind* kind_ = nullptr;
  std::shared_ptr<const void> value_;  // shared by copies: graphs are copied often, and attributes never change
};

}  // namespace plimsoll
