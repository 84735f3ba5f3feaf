// The configuration of a model: an immutable value. Only its family knows the type.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "graph/attributes.h"

namespace plimsoll {

struct Family;

class ModelConfig {
 public:
  ModelConfig() = default;  // belongs to no family

  // T is compared with `= default` and lists its fields in `fields`, like the attributes of nodes.
  template <class T>
  ModelConfig(const Family& family, T value) : family_(&family), value_(std::move(value)) {}

  bool empty() const { return family_ == nullptr; }
  const Family& family() const {
    ensure(!empty(), "model", "no model has been chosen");
    return *family_;
  }

  template <class T>
  const T& as() const {
    return value_.as<T>();
  }

  // The same model, changed by `change(T&)`.
  template <class T, class Change>
  ModelConfig with(const Change& change) const {
    T value = as<T>();
    change(value);
    return {family(), std::move(value)};
  }

  // "layers=4, width=256": every field, canonical.
  std::string text() const { return value_.text(); }

  friend bool operator==(const ModelConfig& a, const ModelConfig& b) { return a.family_ == b.family_ && a.value_ == b.value_; }

 private:
  const Family* family_ = nullptr;
  Attributes value_;
};

}  // namespace plimsoll
