// Remembers refuted states of the search by a 128-bit key. Of fixed size: a new key takes the place of an old one in its bucket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::layout {

struct StateKey {
  std::uint64_t low = 0, high = 0;
  bool operator==(const StateKey&) const = default;
};

class Nogoods {
 public:
  explicit Nogoods(std::size_t buckets) : buckets_(buckets) {}  // a power of two

  bool contains(const StateKey& key) const {
    for (const StateKey& entry : bucket(key)) {
      if (entry == key) return true;
    }
    return false;
  }

  void insert(const StateKey& key) {
    auto& entries = buckets_[key.low & (buckets_.size() - 1)];
    entries[turn_++ % entries.size()] = key;
  }

 private:
  using Bucket = std::array<StateKey, 4>;
  const Bucket& bucket(const StateKey& key) const { return buckets_[key.low & (buckets_.size() - 1)]; }

  std::vector<Bucket> buckets_;
  std::size_t turn_ = 0;
};

}  // namespace plimsoll::layout
