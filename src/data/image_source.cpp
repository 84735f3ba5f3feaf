#include "data/image_source.h"

#include <fcntl.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

// Keeps the keys of crops and flips apart from those of the order and of a model's random sites.
constexpr std::uint64_t kAugmentSite = 0x6175676D656E74;  // "augment"

// A number in [0, n), from the upper bits of a word.
std::int64_t below(std::uint32_t word, std::int64_t n) {
  return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint64_t>(n)) >> 32);
}

template <class T>
std::span<T> field(std::span<const FieldBuffer> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &FieldBuffer::name);
  ensure(found != fields.end(), "ImageSource", "a pass over images lacks a field");
  return found->view.as<T>();
}

}  // namespace

ImageDraw draw_of(const ImageRule& rule, std::uint64_t seed, SampleRef sample) {
  const PhiloxWords words = philox4x32(philox_key(seed, kAugmentSite), {sample.sample, sample.epoch, 0, 0});
  const std::int64_t places = 2 * rule.pad_crop + 1;
  return {below(words[0], places) - rule.pad_crop, below(words[1], places) - rule.pad_crop, rule.flip && words[2] >> 31 != 0};
}

ImageSource::ImageSource(const ImageFile& images, const ImageRule& rule, bool augments, std::uint64_t seed)
    : images_(images), rule_(rule), augments_(augments), seed_(seed), values_(static_cast<std::size_t>(rule.channels)) {
  const auto channels = static_cast<std::size_t>(rule.channels);
  ensure(channels > 0 && rule.mean.size() == channels && rule.std.size() == channels &&
             (images.shape.channels == rule.channels || images.shape.channels == 1),
         "ImageSource", "images of other channels than the model");
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t v = 0; v < values_[c].size(); ++v) {
      values_[c][v] = static_cast<float>((static_cast<double>(v) / 255 - rule.mean[c]) / rule.std[c]);
    }
  }
  ::posix_fadvise(images_.file.fd(), 0, 0, POSIX_FADV_RANDOM);  // pages around an image are not read
}

std::int64_t ImageSource::staging_bytes(std::int64_t rows) const {
  return align_up(Bytes{rows * images_.record_bytes()}, kCacheLine).n;
}

void ImageSource::read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const {
  const std::int64_t record = images_.record_bytes();
  // The reads of a micro-batch run side by side.
  for (const PlacedSample& each : samples) {
    ::posix_fadvise(images_.file.fd(), images_.offset(each.ref.sample), record, POSIX_FADV_WILLNEED);
  }
  for (const PlacedSample& each : samples) {
    const auto at = static_cast<std::size_t>(each.row * record);
    ensure(at + static_cast<std::size_t>(record) <= staging.size(), "ImageSource", "the staging buffer is too small");
    images_.read(each.ref.sample, staging.subspan(at, static_cast<std::size_t>(record)));
  }
  require_unchanged(images_.file, images_.stamp);
}

void ImageSource::drop(std::span<const PlacedSample>) const { images_.file.forget(0, 0); }

void ImageSource::fill_pixels(std::span<const std::byte> image, const ImageDraw& draw, std::span<float> pixels) const {
  const std::int64_t size = images_.shape.size, stored = images_.shape.channels, channels = rule_.channels;
  float* out = pixels.data();
  for (std::int64_t y = 0; y < size; ++y) {
    const std::int64_t from_y = y + draw.down;
    for (std::int64_t x = 0; x < size; ++x) {
      const std::int64_t from_x = (draw.flips ? size - 1 - x : x) + draw.right;
      const bool inside = from_y >= 0 && from_y < size && from_x >= 0 && from_x < size;
      const auto at = static_cast<std::size_t>(inside ? (from_y * size + from_x) * stored : 0);
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::byte value = inside ? image[at + static_cast<std::size_t>(stored == 1 ? 0 : c)] : std::byte{0};
        *out++ = values_[static_cast<std::size_t>(c)][std::to_integer<std::size_t>(value)];
      }
    }
  }
}

void ImageSource::fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
                       std::span<const FieldBuffer> fields) const {
  const auto pixels = field<float>(fields, "pixels");
  const auto targets = field<std::int32_t>(fields, "targets");
  const auto ids = field<std::uint32_t>(fields, "sample_ids");
  const std::size_t rows = ids.size() / 2, record = static_cast<std::size_t>(images_.record_bytes());
  const auto image = static_cast<std::size_t>(images_.shape.bytes());
  const auto row = static_cast<std::size_t>(images_.shape.size * images_.shape.size * rule_.channels);
  ensure(fields.size() == 3 && pixels.size() == rows * row && targets.size() == rows, "ImageSource",
         "the buffers do not have the shape of the micro-batch");
  if (samples.size() < rows) {
    std::ranges::fill(pixels, 0.0F);
    std::ranges::fill(targets, kIgnoredTarget);
  }
  fill_sample_ids(samples, ids);
  for (const PlacedSample& each : samples) {
    const auto i = static_cast<std::size_t>(each.row);
    const std::span raw = staging.subspan(i * record, record);
    const ImageDraw draw = augments_ ? draw_of(rule_, seed_, each.ref) : ImageDraw{};
    fill_pixels(raw.first(image), draw, pixels.subspan(i * row, row));
    targets[i] = static_cast<std::int32_t>(label_of(raw));
  }
}

}  // namespace plimsoll
