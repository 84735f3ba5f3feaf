// The images of a file as samples: one image a row, normalised, and in training cropped and flipped at random.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/image_file.h"
#include "data/sample_source.h"

namespace plimsoll {

// The treatment of pixels.
struct ImageRule {
  std::int64_t channels = 0;      // of the model: grey images fill all
  std::vector<double> mean, std;  // by channel of the model; a value v of a byte becomes (v / 255 - mean) / std
  std::int64_t pad_crop = 0;      // training: pixels of black on each side, before a crop to the former size
  bool flip = false;              // training: half of the images are mirrored left to right

  friend bool operator==(const ImageRule&, const ImageRule&) = default;
};

// The random part of a training sample: a pure function of (seed, epoch, sample).
struct ImageDraw {
  std::int64_t down = 0, right = 0;  // the first pixel of the crop, -pad_crop to pad_crop from that of the image
  bool flips = false;

  friend bool operator==(const ImageDraw&, const ImageDraw&) = default;
};
ImageDraw draw_of(const ImageRule& rule, std::uint64_t seed, SampleRef sample);

class ImageSource final : public SampleSource {
 public:
  // The file outlives this. `augments`: images are cropped and flipped.
  ImageSource(const ImageFile& images, const ImageRule& rule, bool augments, std::uint64_t seed);

  std::int64_t count() const override { return images_.images; }
  SampleSize size(std::int64_t) const override { return {}; }
  std::int64_t staging_bytes(std::int64_t rows) const override;
  void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const override;
  void drop(std::span<const PlacedSample> samples) const override;
  // "pixels" f32 [batch, size, size, channels], "targets" i32 [batch, 1], "sample_ids" u32 [batch, 2]. Rows without a sample have
  // pixels of 0.
  void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
            std::span<const FieldBuffer> fields) const override;

 private:
  void fill_pixels(std::span<const std::byte> image, const ImageDraw& draw, std::span<float> pixels) const;

  const ImageFile& images_;
  ImageRule rule_;
  bool augments_;
  std::uint64_t seed_;
  std::vector<std::array<float, 256>> values_;  // of a byte, by channel of the model
};

}  // namespace plimsoll
