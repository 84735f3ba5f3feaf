// What a training reads: how many samples there are, and what they hold. Order, windows and reading ahead know no more.
// A *sample* is what the order counts: a piece of a stream of tokens, a document, a conversation. It takes a number of positions
// of one row of a micro-batch. Rows that are packed hold several samples.
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

// Where a sample lies in a micro-batch. Samples of a row stand in order, one right behind the other.
struct PlacedSample {
  SampleRef ref;
  std::int32_t row = 0;
  std::int32_t begin = 0;  // its first position in the row

  friend bool operator==(const PlacedSample&, const PlacedSample&) = default;
};

// How much of a window a sample is.
struct SampleSize {
  std::int64_t positions = 1;  // of a row, at least 1 and at most what a row has
  std::int64_t units = 1;      // targets that count in the loss, at least 1
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Of an epoch, at least 1.
  virtual std::int64_t count() const = 0;
  virtual SampleSize size(std::int64_t sample) const = 0;
  // Of the raw bytes of a micro-batch of so many rows, a multiple of 64.
  virtual std::int64_t staging_bytes(std::int64_t rows) const = 0;

  // Reads the raw bytes of these samples. A thread calls it ahead of time; it allocates nothing but errors.
  virtual void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const = 0;
  // What has been read is not needed a second time, as far as the page cache goes.
  virtual void drop(std::span<const PlacedSample> samples) const = 0;
  // Fills every element of the fields from what `read` left. Positions without a sample are filled with what counts nowhere. An
  // internal error where a field is not known.
  virtual void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
                    std::span<const FieldBuffer> fields) const = 0;
};

inline constexpr std::uint32_t kAbsentSample = 0xFFFFFFFF;

// "sample_ids" [batch, 2] of rows with one sample each: epoch and sample; kAbsentSample twice for rows without a sample.
void fill_sample_ids(std::span<const PlacedSample> samples, std::span<std::uint32_t> ids);

}  // namespace plimsoll
