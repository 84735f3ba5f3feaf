#include "data/order.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

// Keeps the keys of the order apart from those of a model's random sites.
constexpr std::uint64_t kOrderSite = 0x6F72646572;  // "order"
constexpr std::uint32_t kRounds = 8;

std::uint64_t feistel(std::uint64_t value, int half_bits, std::array<std::uint32_t, 2> key, std::uint64_t epoch) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxWords words = philox4x32(key, {static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch),
                                               static_cast<std::uint32_t>(epoch >> 32)});
    left = std::exchange(right, left ^ (words[0] & mask));
  }
  return left << half_bits | right;
}

}  // namespace

std::uint64_t permuted(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  ensure(index < n && n < std::uint64_t{1} << 62, "permuted", "the index is outside the permutation");
  const int half_bits = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
  const auto key = philox_key(seed, kOrderSite);
  do {
    index = feistel(index, half_bits, key, epoch);
  } while (index >= n);
  return index;
}

Samples make_samples(std::int64_t tokens, std::int64_t context, const std::string& where) {
  ensure(context > 0, "make_samples", "the context is not positive");
  if (tokens < 2) {
    throw data_error("E-DATA-SHORT", where, fmt::format("it has {} token(s)", tokens),
                     "at least 2: one to read and one to predict");
  }
  const Samples samples{tokens, context};
  if (samples.count() > std::numeric_limits<std::uint32_t>::max()) {
    throw data_error("E-DATA-FORMAT", where, fmt::format("{} tokens make {} samples of {}", tokens, samples.count(), context),
                     "fewer than 2^32 samples", {"a longer model.context, or the data in several files"});
  }
  return samples;
}

SampleRef SampleOrder::at(std::int64_t position) const {
  const std::int64_t epoch = position / samples;
  const std::int64_t index = position % samples;
  const std::uint64_t sample = kind == OrderKind::sequential
                                   ? static_cast<std::uint64_t>(index)
                                   : permuted(static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(samples), seed,
                                              static_cast<std::uint64_t>(epoch));
  return {static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(sample)};
}

}  // namespace plimsoll
