// The sample at each position of training, and the tokens of each sample. Both are pure functions in O(1): a run can start at any
// position, and no array grows with the data.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

// A sample of one epoch. Every random choice about it depends on this and the seed.
struct SampleRef {
  std::uint32_t epoch = 0;
  std::uint32_t sample = 0;

  friend bool operator==(SampleRef, SampleRef) = default;
};

// The samples of a stream of `tokens` tokens. Sample i is the tokens from i * context to (i + 1) * context, both included, so
// neighbours share one token. With a context of 3:
//
//   tokens    0 1 2 3 4 5 6 7
//   sample 0  x x x x             inputs 0 1 2, targets 1 2 3
//   sample 1        x x x x       inputs 3 4 5, targets 4 5 6
//   sample 2              x x     the last sample may be shorter
//
// Missing tokens of the last sample are no units of the loss.
struct Samples {
  std::int64_t tokens = 0;
  std::int64_t context = 0;

  std::int64_t count() const { return (tokens - 1 + context - 1) / context; }
  std::int64_t first_token(std::int64_t sample) const { return sample * context; }
  // The tokens of the sample in the file, 2 to context + 1.
  std::int64_t length(std::int64_t sample) const { return valid_units(sample) + 1; }
  // The predicted tokens of the sample, 1 to context.
  std::int64_t valid_units(std::int64_t sample) const {
    const std::int64_t left = tokens - 1 - first_token(sample);
    return left < context ? left : context;
  }
};

// Checked construction. data_error E-DATA-SHORT: fewer than two tokens. E-DATA-FORMAT: a sample's number takes more than 32 bits.
Samples make_samples(std::int64_t tokens, std::int64_t context, const std::string& where);

enum class OrderKind { shuffled, sequential };

// Position counts samples over all epochs: epoch = position / samples. Within an epoch, the order is a permutation keyed by
// (seed, epoch), or the order of the file.
struct SampleOrder {
  OrderKind kind = OrderKind::shuffled;
  std::uint64_t seed = 0;
  std::int64_t samples = 1;

  SampleRef at(std::int64_t position) const;
};

// The image of `index` under a pseudo-random permutation of [0, n): an eight-round Feistel network with Philox as round function
// on the next even number of bits, applied until the value lies below n ("cycle walking"; Black and Rogaway, "Ciphers with
// arbitrary finite domains", CT-RSA 2002). Fewer than four applications on average.
std::uint64_t permuted(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

}  // namespace plimsoll
