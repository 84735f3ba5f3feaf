// What a training reads: how many samples there are, and what they hold. Order, windows and reading ahead know no more.
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

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Of an epoch, at least 1.
  virtual std::int64_t count() const = 0;
  // Targets of a sample that count in the loss, at least 1.
  virtual std::int64_t units(std::int64_t sample) const = 0;
  // Of the raw bytes of a micro-batch, a multiple of 64.
  virtual std::int64_t staging_bytes(std::int64_t micro_batch) const = 0;

  // Reads the raw bytes of these samples. A thread calls it ahead of time; it allocates nothing but errors.
  virtual void read(std::span<const SampleRef> samples, std::span<std::byte> staging) const = 0;
  // What has been read is not needed a second time, as far as the page cache goes.
  virtual void drop(std::span<const SampleRef> samples) const = 0;
  // Fills every element of the fields from what `read` left. A field has a row for each sample of a micro-batch; where there are
  // fewer samples, the rest is filled with what counts nowhere. An internal error where a field is not known.
  virtual void fill(std::span<const SampleRef> samples, std::span<const std::byte> staging,
                    std::span<const FieldBuffer> fields) const = 0;
};

inline constexpr std::uint32_t kAbsentSample = 0xFFFFFFFF;

// "sample_ids" [batch, 2]: epoch and sample; kAbsentSample twice for rows without a sample.
void fill_sample_ids(std::span<const SampleRef> samples, std::span<std::uint32_t> ids);

}  // namespace plimsoll
