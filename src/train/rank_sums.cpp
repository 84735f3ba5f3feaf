#include "train/rank_sums.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plimsoll {

RankSums::RankSums(Peers& peers, std::uint32_t event, std::size_t most)
    : peers_(peers), most_(most), gather_(peers, event, most * sizeof(double)) {}

void RankSums::run(std::span<double> numbers) {
  ensure(numbers.size() <= most_, "rank sums", "more numbers than there is room for");
  std::memcpy(gather_.mine().data(), numbers.data(), numbers.size_bytes());
  gather_.run();
  std::ranges::fill(numbers, 0.0);
  for (int rank = 0; rank < peers_.count(); ++rank) {
    const auto* of = reinterpret_cast<const double*>(gather_.of(rank).data());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += of[i];
  }
}

}  // namespace plimsoll
