// Ids as types: an Id<Tag> indexes only a PerId of the same tag.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace plimsoll {

template <class Tag>
struct Id {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t index = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : index(static_cast<std::uint32_t>(index)) {}
  constexpr bool valid() const { return index != kNone; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

// A vector that only ids of one tag can index.
template <class IdType, class T>
class PerId {
 public:
  PerId() = default;
  explicit PerId(std::size_t size, const T& fill = T{}) : items_(size, fill) {}

  decltype(auto) operator[](IdType id) { return items_[id.index]; }
  decltype(auto) operator[](IdType id) const { return items_[id.index]; }
  std::size_t size() const { return items_.size(); }
  void resize(std::size_t size, const T& fill = T{}) { items_.resize(size, fill); }
  IdType push_back(T item) {
    items_.push_back(std::move(item));
    return IdType{items_.size() - 1};
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  std::vector<T> items_;
};

}  // namespace plimsoll

template <class Tag>
struct std::hash<plimsoll::Id<Tag>> {
  std::size_t operator()(plimsoll::Id<Tag> id) const noexcept { return id.index; }
};
