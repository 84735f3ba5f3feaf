#include "data/image_arrays.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "data/data_formats.h"
#include "formats/unpacked_file.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostImages = (std::int64_t{1} << 32) - 2;  // their numbers take 32 bits
constexpr std::int64_t kMostChannels = 16;                         // of a header that is read further

Error malformed(const File& file, std::string why, std::string expected, Remedies remedies = {}) {
  return data_error("E-DATA-FORMAT", file.path(), std::move(why), std::move(expected), std::move(remedies));
}

void require_end(const File& file, UnpackedFile& content, std::string_view what) {
  std::byte more;
  const std::int64_t end = content.position();
  if (content.read({&more, 1}) == 0) return;
  throw malformed(file, fmt::format("bytes follow its {}, which ends after {} bytes", what, end),
                  "nothing but what its header says");
}

// ---- IDX: two zeros, the type of the numbers, the number of dimensions, and the dimensions, big-endian; then the numbers ----

constexpr std::uint8_t kUnsignedBytes = 0x08;

class IdxHeader {
 public:
  IdxHeader(const File& file, UnpackedFile& content, bool images) : file_(file), images_(images) {
    std::array<std::byte, 4> begin{};
    const std::size_t read = content.read(begin);
    const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(begin[i]); };
    if (read < begin.size() || byte(0) != 0 || byte(1) != 0) {
      throw refuse(read < begin.size()
                       ? fmt::format("it has {} bytes", read)
                       : fmt::format("it begins with {:02x} {:02x} {:02x} {:02x}", byte(0), byte(1), byte(2), byte(3)));
    }
    if (byte(2) != kUnsignedBytes) throw refuse(fmt::format("its numbers have type {:#04x}", byte(2)));
    const int axes = byte(3);
    if (images ? axes != 3 && axes != 4 : axes != 1) throw refuse(fmt::format("it has {} dimension(s)", axes));
    for (int i = 0; i < axes; ++i) sizes_.push_back(next(content));
    check(content);
  }

  std::int64_t size(std::size_t axis) const { return axis < sizes_.size() ? sizes_[axis] : 1; }

 private:
  Error refuse(std::string why) const {
    return malformed(
        file_, std::move(why),
        images_ ? "an IDX file of images: 00 00 08 03, then their number, rows and columns; or 00 00 08 04 with channels last"
                : "an IDX file of labels: 00 00 08 01, then their number");
  }

  std::int64_t next(UnpackedFile& content) const {
    std::array<std::byte, 4> bytes{};
    if (content.read(bytes) < bytes.size()) throw refuse("it ends within its header");
    std::int64_t size = 0;
    for (const std::byte byte : bytes) size = size << 8 | std::to_integer<std::int64_t>(byte);
    return size;
  }

  // The product of bounded sizes fits in 64 bits.
  void check(const UnpackedFile& content) const {
    if (sizes_[0] == 0) throw data_error("E-DATA-EMPTY", file_.path(), "its header claims no entry", "at least one");
    if (sizes_[0] > kMostImages) throw refuse(fmt::format("its header claims {} entries", sizes_[0]));
    std::int64_t bytes = sizes_[0];
    for (std::size_t i = 1; i < sizes_.size(); ++i) {
      const std::int64_t most = i < 3 ? kMostImageSize : kMostChannels;
      if (sizes_[i] == 0 || sizes_[i] > most) {
        throw refuse(fmt::format("its header claims a size of {}, and that may be 1 to {}", sizes_[i], most));
      }
      bytes *= sizes_[i];
    }
    const std::int64_t header = 4 + 4 * std::ssize(sizes_), most = content.most_bytes();
    if (bytes > most - header || (!content.packed() && bytes != most - header)) {
      throw refuse(fmt::format("its header claims {} bytes, and {}", header + bytes,
                               content.packed() ? fmt::format("a packed file of {} bytes cannot hold them", file_.size())
                                                : fmt::format("it has {}", file_.size())));
    }
  }

  const File& file_;
  bool images_;
  std::vector<std::int64_t> sizes_;
};

ImageShape shape_of(const IdxHeader& header, const File& images) {
  const ImageShape shape{header.size(1), header.size(3)};
  if (header.size(1) != header.size(2)) {
    throw data_error("E-DATA-IMAGE", images.path(),
                     fmt::format("its images have {} rows and {} columns", header.size(1), header.size(2)), "square images");
  }
  if (shape.channels == 1 || shape.channels == 3) return shape;
  throw data_error("E-DATA-IMAGE", images.path(), fmt::format("its images have {} channels", shape.channels),
                   "1 channel (grey) or 3 (red, green, blue)");
}

class IdxArray final : public ImageArray {
 public:
  IdxArray(const File& images, const File& labels) : images_(images), labels_(labels), pixels_(images), names_(labels) {
    const IdxHeader header(images, pixels_, /*images=*/true), of_labels(labels, names_, /*images=*/false);
    count_ = header.size(0);
    shape_ = shape_of(header, images);
    if (of_labels.size(0) == count_) return;
    throw data_error("E-DATA-LABELS", labels.path(),
                     fmt::format("it has {} labels, and {} has {} images", of_labels.size(0), images.path(), count_),
                     "a label for each image, in files of the same order");
  }

  std::int64_t next(std::span<std::byte> pixels) override {
    if (done_ == count_) {
      require_end(images_, pixels_, "last image");
      require_end(labels_, names_, "last label");
      return -1;
    }
    std::byte label;
    if (pixels_.read(pixels) < pixels.size()) throw cut(images_);
    if (names_.read({&label, 1}) == 0) throw cut(labels_);
    ++done_;
    return std::to_integer<std::int64_t>(label);
  }

 private:
  Error cut(const File& file) const {
    return malformed(file, fmt::format("it ends within entry {} of {}", done_, count_), "all entries of its header");
  }

  const File &images_, &labels_;
  UnpackedFile pixels_, names_;
  std::int64_t count_ = 0, done_ = 0;
};

// ---- CIFAR: records of one or two labels and the planes of red, green and blue, 32 rows of 32 bytes each ----

class CifarArray final : public ImageArray {
 public:
  CifarArray(const File& file, bool fine) : file_(file), fine_(fine), content_(file), record_((fine ? 2 : 1) + kBytes) {
    shape_ = {kSize, kChannels};
    if (content_.packed() || file.size() % std::ssize(record_) == 0) return;
    throw malformed(file, fmt::format("it has {} bytes, no multiple of {}", file.size(), record_.size()), expected(),
                    other_format());
  }

  std::int64_t next(std::span<std::byte> pixels) override {
    const std::size_t read = content_.read(record_);
    if (read == 0) return -1;
    if (done_ == 0) refuse_tar();
    if (read < record_.size()) throw malformed(file_, fmt::format("it ends within record {}", done_), expected(), other_format());
    const auto label = std::to_integer<std::int64_t>(record_[fine_ ? 1 : 0]), classes = fine_ ? std::int64_t{100} : 10;
    if (label >= classes || (fine_ && record_[0] >= std::byte{20})) {
      throw malformed(file_, fmt::format("record {} has the label {}", done_, label), expected(), other_format());
    }
    const std::span planes = std::span(record_).last(kBytes);
    constexpr std::size_t kPlane = kSize * kSize;
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t c = 0; c < kChannels; ++c) pixels[i * kChannels + c] = planes[c * kPlane + i];
    }
    ++done_;
    return label;
  }

 private:
  static constexpr std::size_t kSize = 32, kChannels = 3, kBytes = kSize * kSize * kChannels;

  std::string expected() const {
    return fmt::format("records of {} bytes: {}, then 32 x 32 bytes of red, green and blue", record_.size(),
                       fine_ ? "a coarse label below 20, a fine one below 100" : "a label below 10");
  }
  Remedies other_format() const {
    return {Remedy(Change("data.format", fine_ ? "cifar10" : "cifar100"), "if it is of that set")};
  }

  // The archive is published beside the files.
  void refuse_tar() const {
    constexpr std::string_view kTar = "ustar";
    const auto* text = reinterpret_cast<const char*>(record_.data());
    if (std::string_view(text + 257, kTar.size()) != kTar) return;
    throw malformed(file_, "it is an archive (tar)", "the files in it", {"tar -xf " + shell_quoted(file_.path())});
  }

  const File& file_;
  bool fine_;
  UnpackedFile content_;
  std::vector<std::byte> record_;
  std::int64_t done_ = 0;
};

}  // namespace

ImageShape image_shape(std::string_view format, const File& images) {
  if (!has_label_files(format)) return open_image_array(format, images, nullptr)->shape();
  UnpackedFile content(images);
  return shape_of(IdxHeader(images, content, /*images=*/true), images);
}

std::unique_ptr<ImageArray> open_image_array(std::string_view format, const File& images, const File* labels) {
  if (images.size() == 0) throw data_error("E-DATA-EMPTY", images.path(), "it is empty", "images to train on");
  if (format != "idx") return std::make_unique<CifarArray>(images, format == "cifar100");
  ensure(labels != nullptr, "open_image_array", "an array without labels");
  return std::make_unique<IdxArray>(images, *labels);
}

}  // namespace plimsoll
