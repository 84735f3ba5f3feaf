// Arrays of images and labels in the files in which data sets are published: IDX (MNIST's format, plain or gzip) and the binary
// form of CIFAR-10 and CIFAR-100. The files are untrusted: each number of a header is checked before anything is allocated or
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "formats/file.h"

namespace plimsoll {

// The shape of a square image.
struct ImageShape {
  std::int64_t size = 0;      // pixels of a side
  std::int64_t channels = 0;  // 1 or 3

  std::int64_t bytes() const { return size * size * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// The shape of the images in a file of such a format, by its header: the same errors.
ImageShape image_shape(std::string_view format, const File& images);

inline constexpr std::int64_t kMostImageSize = 1 << 12;

// The images of a file, one after the other.
class ImageArray {
 public:
  virtual ~ImageArray() = default;

  const ImageShape& shape() const { return shape_; }
  // Fills `pixels` row by row, the channels of a pixel together, and returns the label; -1 at the end. data_error E-DATA-FORMAT:
  // the file is cut, or bytes follow the last image.
  virtual std::int64_t next(std::span<std::byte> pixels) = 0;

 protected:
  ImageShape shape_;
};

// `format`: "idx", "cifar10" or "cifar100". `labels`: for "idx" alone. The files outlive the array. data_error:
//   E-DATA-FORMAT  a header is broken, or claims more than the file holds; a label is none of the format
//   E-DATA-IMAGE   the images are not square, or have other than 1 or 3 channels
//   E-DATA-LABELS  there are not as many labels as images
std::unique_ptr<ImageArray> open_image_array(std::string_view format, const File& images, const File* labels);

}  // namespace plimsoll
