// Samples of a stream of tokens, each cut from it at a multiple of the context.
#pragma once

#include <cstdint>

#include "data/order.h"
#include "data/sample_source.h"
#include "data/source.h"

namespace plimsoll {

// Bytes of the staging buffer for one micro-batch, a multiple of 64: a row of (context + 1) * bytes_per_token for each sample.
std::int64_t staging_bytes(std::int64_t micro_batch, std::int64_t context, std::int64_t bytes_per_token);

class TokenSource : public SampleSource {
 public:
  // The file outlives this. E-DATA-SHORT: fewer than two tokens.
  TokenSource(const TokenFile& file, std::int64_t context);

  std::int64_t count() const override { return samples_.count(); }
  SampleSize size(std::int64_t sample) const override { return {samples_.valid_units(sample), samples_.valid_units(sample)}; }
  std::int64_t staging_bytes(std::int64_t rows) const override;
  void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const override;
  void drop(std::span<const PlacedSample> samples) const override;
  // "tokens" and "targets", i32 [batch, context], and "sample_ids". E-DATA-TOKEN names a token past the vocabulary.
  void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
            std::span<const FieldBuffer> fields) const override;

 private:
  std::size_t row_bytes() const;

  const TokenFile& file_;
  Samples samples_;
};

}  // namespace plimsoll
