// Images in a file of the cache: a header, and a record of each image: its pixels, row by row with the channels of a pixel
// together, and its label in two little-endian bytes. A seal binds the file to its name and its content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/image_arrays.h"
#include "formats/atomic_file.h"
#include "formats/file_stamp.h"

namespace plimsoll {

inline constexpr std::int64_t kLabelBytes = 2;
std::int64_t label_of(std::span<const std::byte> record);

struct ImageFile {
  File file;
  FileStamp stamp;          // of the file before it was read
  std::string name;         // the user's name for the images, for messages
  std::int64_t images = 0;  // at least 1
  ImageShape shape;
  std::int64_t classes = 0;  // the largest label, plus one

  std::int64_t record_bytes() const { return shape.bytes() + kLabelBytes; }
  // The place of a record in the file, in bytes.
  std::int64_t offset(std::int64_t image) const;
  // E-DATA-CHANGED if the file was written to since it was opened.
  void read(std::int64_t image, std::span<std::byte> record) const;
};

class ImageFileWriter {
 public:
  ImageFileWriter(const std::filesystem::path& target, const ImageShape& shape);

  void add(std::span<const std::byte> pixels, std::int64_t label);
  std::int64_t images() const { return images_; }
  // Makes the file visible. An internal error without an image.
  // `classes`: the number that the file states, at least its own.
  void commit(std::int64_t classes);
  std::int64_t classes() const { return classes_; }

 private:
  std::filesystem::path target_;
  AtomicFile file_;
  Hasher content_;
  ImageShape shape_;
  std::int64_t images_ = 0, classes_ = 0;
  std::vector<std::byte> record_;
};

// `verify` reads all of the file and compares its seal. data_error E-DATA-FORMAT: it was cut, changed or renamed.
ImageFile open_image_file(File file, std::string name, bool verify);

// 32 hex digits over shape, pixels and labels.
std::string content_hash(const ImageFile& images);

}  // namespace plimsoll
