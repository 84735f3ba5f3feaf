// A list of unbounded length: entries that were never set have the default value.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace plimsoll {

template <class T>
class OpenList {
 public:
  OpenList() = default;
  OpenList(std::initializer_list<T> entries) : entries_(entries) {}

  T operator[](std::size_t i) const { return i < entries_.size() ? entries_[i] : T{}; }
  T& operator[](std::size_t i) {
    if (i >= entries_.size()) entries_.resize(i + 1);
    return entries_[i];
  }
  // One more than the largest index that was set; 0 if none was.
  std::size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<T> entries_;
};

}  // namespace plimsoll
