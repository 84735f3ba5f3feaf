#include "data/image_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "data/cache_seal.h"
#include "data/file_pieces.h"

namespace plimsoll {
namespace {

struct Header {
  std::array<char, 16> magic{};
  std::uint64_t version = 0, images = 0, size = 0, channels = 0, classes = 0, seal = 0;
};
constexpr std::array<char, 16> kMagic{'p', 'l', 'i', 'm', 's', 'o', 'l', 'l', '.', 'i', 'm', 'a', 'g', 'e', 's', '\0'};
constexpr std::uint64_t kVersion = 1;
constexpr std::int64_t kRecordsAt = 256, kMostLabels = std::int64_t{1} << (8 * kLabelBytes);
static_assert(sizeof(Header) <= kRecordsAt);

}  // namespace

std::int64_t label_of(std::span<const std::byte> record) {
  const std::span bytes = record.last(kLabelBytes);
  return std::to_integer<std::int64_t>(bytes[0]) | std::to_integer<std::int64_t>(bytes[1]) << 8;
}

std::int64_t ImageFile::offset(std::int64_t image) const { return kRecordsAt + image * record_bytes(); }

void ImageFile::read(std::int64_t image, std::span<std::byte> record) const {
  ensure(image < images && std::ssize(record) == record_bytes(), "ImageFile", "a record past the end");
  file.read_at(offset(image), record);
}

ImageFileWriter::ImageFileWriter(const std::filesystem::path& target, const ImageShape& shape)
    : target_(target),
      file_(target, Aside::named),
      shape_(shape),
      record_(static_cast<std::size_t>(shape.bytes() + kLabelBytes)) {
  file_.write(std::string(kRecordsAt, '\0'));
}

void ImageFileWriter::add(std::span<const std::byte> pixels, std::int64_t label) {
  ensure(std::ssize(pixels) == shape_.bytes() && label >= 0 && label < kMostLabels, "image file", "another image than its shape");
  std::ranges::copy(pixels, record_.begin());
  record_[pixels.size()] = static_cast<std::byte>(label & 0xFF);
  record_[pixels.size() + 1] = static_cast<std::byte>(label >> 8);
  file_.write(record_);
  content_.add(std::span<const std::byte>(record_));
  classes_ = std::max(classes_, label + 1);
  ++images_;
}

void ImageFileWriter::commit(std::int64_t classes) {
  ensure(images_ > 0 && classes >= classes_, "image file", "no image, or labels past its classes");
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  Header header{kMagic, kVersion, number(images_), number(shape_.size), number(shape_.channels), number(classes)};
  header.seal = cache_seal(target_, header, content_);
  file_.overwrite(0, text_of_bytes(header));
  file_.commit();
}

ImageFile open_image_file(File file, std::string name, bool verify) {
  const auto refuse = [&](std::string why) {
    return data_error("E-DATA-FORMAT", file.path(), std::move(why), "a file of images as plimsoll writes it into its cache",
                      {"rm '" + file.path() + "', and the same command again"});
  };
  const FileStamp stamp = stamp_of(file);
  Header header;
  if (file.size() < kRecordsAt) throw refuse(fmt::format("it has {} bytes", file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != kMagic || header.version != kVersion) throw refuse("it does not begin like a file of images");
  const bool known = header.size >= 1 && header.size <= std::uint64_t{kMostImageSize} && header.channels >= 1 &&
                     header.channels <= 3 && header.images >= 1 && header.images < std::uint64_t{1} << 32 &&
                     header.classes >= 1 && header.classes <= std::uint64_t{kMostLabels};
  ImageFile images;
  if (known) {
    images.images = static_cast<std::int64_t>(header.images);
    images.shape = {static_cast<std::int64_t>(header.size), static_cast<std::int64_t>(header.channels)};
    images.classes = static_cast<std::int64_t>(header.classes);
  }
  if (!known || images.offset(images.images) != file.size()) {
    throw refuse(fmt::format("it has {} bytes for {} images of {} x {} x {}", file.size(), header.images, header.size,
                             header.size, header.channels));
  }
  if (verify) {
    Hasher content;
    for_each_piece(file, kRecordsAt, file.size(), [&](std::span<const std::byte> piece) { content.add(piece); });
    if (header.seal != cache_seal(file.path(), header, content)) {
      throw refuse("its seal is that of another file, or of other content");
    }
  }
  images.file = std::move(file);
  images.stamp = stamp;
  images.name = std::move(name);
  return images;
}

std::string content_hash(const ImageFile& images) {
  Hasher hasher;
  hasher.add(fmt::format("{} x {} x {}", images.images, images.shape.size, images.shape.channels));
  for_each_piece(images.file, kRecordsAt, images.file.size(), [&](std::span<const std::byte> piece) { hasher.add(piece); });
  require_unchanged(images.file, images.stamp);
  return hasher.hex();
}

}  // namespace plimsoll
