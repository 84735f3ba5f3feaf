// The input of a training: the number of samples and their content. Order, windows and prefetching see nothing else.
// A *sample* is the unit of the order: a piece of a token stream, a document, a conversation. It takes a number of positions of
// one row of a micro-batch. Packed rows hold several samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/order.h"
#include "tensor/tensor_view.h"

namespace plimsoll {

// The planned buffer of a field of a pass: "tokens" i32 [batch, context], "sample_ids" u32 [batch, 2], "pixels" f32 [batch, ...].
struct FieldBuffer {
  std::string_view name;
  TensorView view;
};

// The place of a sample in a micro-batch. The samples of a row lie in order without gaps.
struct PlacedSample {
  SampleRef ref;
  std::int32_t row = 0;
  std::int32_t begin = 0;  // its first position in the row

  friend bool operator==(const PlacedSample&, const PlacedSample&) = default;
};

// The share of a sample in a window.
struct SampleSize {
  std::int64_t positions = 1;  // of a row, from 1 to the row's length
  std::int64_t units = 1;      // targets that count in the loss, at least 1
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // The samples of an epoch, at least 1.
  virtual std::int64_t count() const = 0;
  virtual SampleSize size(std::int64_t sample) const = 0;
  // The raw bytes of a micro-batch of `rows` rows, a multiple of 64.
  virtual std::int64_t staging_bytes(std::int64_t rows) const = 0;

  // Reads the raw bytes of these samples. A thread calls it ahead of time; it allocates nothing but errors.
  virtual void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const = 0;
  // Drops the bytes of these samples from the page cache.
  virtual void drop(std::span<const PlacedSample> samples) const = 0;
  // Fills every element of the fields from the raw bytes. Positions without a sample get values that do not count. An internal
  // error for an unknown field.
  virtual void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
                    std::span<const FieldBuffer> fields) const = 0;
};

inline constexpr std::uint32_t kAbsentSample = 0xFFFFFFFF;
inline constexpr std::int32_t kIgnoredTarget = -1;

// "sample_ids" [batch, 2] of rows with one sample each: epoch and sample; kAbsentSample twice for rows without a sample.
void fill_sample_ids(std::span<const PlacedSample> samples, std::span<std::uint32_t> ids);

}  // namespace plimsoll
