// Records of a fixed size, one of each rank, exchanged among all. All ranks see the same list and decide alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collective/peers.h"

namespace plimsoll {

// A text in a record of fixed size: cut if it is longer, and ended by a zero.
template <std::size_t kBytes>
std::array<char, kBytes> fixed_text(std::string_view text) {
  std::array<char, kBytes> room{};
  std::memcpy(room.data(), text.data(), std::min(text.size(), kBytes - 1));
  return room;
}

// Room for the exchange of records of `bytes` bytes. It uses one event, which is reserved by the caller.
class Gather {
 public:
  Gather(Peers& peers, std::uint32_t event, std::size_t bytes);

  // The record of this rank, to be written before run().
  std::span<std::byte> mine() { return of(peers_.rank()); }
  std::span<std::byte> of(int rank) { return {all_.data() + bytes_ * static_cast<std::size_t>(rank), bytes_}; }
  // Called by all ranks; afterwards of() has the record of each rank.
  void run();

 private:
  Peers& peers_;
  std::uint32_t event_;
  std::size_t bytes_;
  std::vector<std::byte> all_;  // by rank
  std::vector<Peers::Send> sends_;
  std::vector<Peers::Receive> receives_;
};

template <class Record>
class GatherOf {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  GatherOf(Peers& peers, std::uint32_t event) : gather_(peers, event, sizeof(Record)), all_(peers.count()) {}

  // The records of all ranks, by rank.
  std::span<const Record> run(const Record& mine) & {
    std::memcpy(gather_.mine().data(), &mine, sizeof mine);
    gather_.run();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      std::memcpy(&all_[i], gather_.of(static_cast<int>(i)).data(), sizeof(Record));
    }
    return all_;
  }

 private:
  Gather gather_;
  std::vector<Record> all_;
};

// The same once.
template <class Record>
std::vector<Record> gather(Peers& peers, std::uint32_t event, const Record& mine) {
  GatherOf<Record> gather(peers, event);
  const std::span<const Record> all = gather.run(mine);
  return {all.begin(), all.end()};
}

}  // namespace plimsoll
