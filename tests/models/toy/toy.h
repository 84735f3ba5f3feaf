// A family that is no language model. It proves that code outside of this folder depends on no family. The model has two lookups
// and a frozen projection of numbers, an MLP of repeated blocks, a loss of classes and a second, weighted loss. Each block
// subtracts a moving mean of its input, and the largest magnitude of each number is kept: statistics that training changes.
#pragma once

#include "data/sample_source.h"
#include "models/family.h"

namespace plimsoll::test {

struct ToyConfig {
  std::int64_t blocks = 4;
  std::int64_t width = 256;
  std::int64_t classes = 10;
  double dropout = 0.1;

  friend bool operator==(const ToyConfig&, const ToyConfig&) = default;
  template <class V>
  void fields(V&& v) const {
    v("blocks", blocks), v("width", width), v("classes", classes), v("dropout", dropout);
  }
};

extern const Family kToy;

// Fields: "kinds" and "places" i32 [batch, 1], "numbers" f32 [batch, 1, 6], "labels" and "others" i32 [batch, 1], "sample_ids".
// All are functions of the sample's number.
class ToySource : public SampleSource {
 public:
  static constexpr std::int64_t kBytesPerSample = 16;

  ToySource(std::int64_t count, std::int64_t classes) : count_(count), classes_(classes) {}
  std::int64_t count() const override { return count_; }
  SampleSize size(std::int64_t) const override { return {}; }
  std::int64_t staging_bytes(std::int64_t rows) const override;
  void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const override;
  void drop(std::span<const PlacedSample>) const override {}
  void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
            std::span<const FieldBuffer> fields) const override;

 private:
  std::int64_t count_, classes_;
};

}  // namespace plimsoll::test
