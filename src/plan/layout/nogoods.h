// A table of refuted search states by 128-bit key. Its size is fixed: a new key replaces an old one in its bucket.
#pragma once

#include <algorithm>
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
    const Bucket& entries = buckets_[bucket_of(key)];
    return std::find(entries.begin(), entries.end(), key) != entries.end();
  }
  void insert(const StateKey& key) { buckets_[bucket_of(key)][turn_++ % std::tuple_size_v<Bucket>] = key; }

 private:
  using Bucket = std::array<StateKey, 4>;
  std::size_t bucket_of(const StateKey& key) const { return key.low & (buckets_.size() - 1); }

  std::vector<Bucket> buckets_;
  std::size_t turn_ = 0;
};

}  // namespace plimsoll::layout
