// Arrays of images and labels as published files hold them, for tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {

inline std::string big_endian(std::int64_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 0xFF);
  return bytes;
}

// The header of an IDX file with these dimensions.
inline std::string idx_header(const std::vector<std::int64_t>& sizes, char type = '\x08') {
  std::string header{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const std::int64_t size : sizes) header += big_endian(size);
  return header;
}

// The byte of an image at a position of its pixels, different for each image.
inline char pixel_of(std::int64_t image, std::int64_t at) { return static_cast<char>((image * 37 + at * 11 + at / 7) & 0xFF); }

inline std::string idx_images(std::int64_t count, std::int64_t size, std::int64_t channels = 1, std::int64_t first = 0) {
  std::string bytes = channels == 1 ? idx_header({count, size, size}) : idx_header({count, size, size, channels});
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t at = 0; at < size * size * channels; ++at) bytes += pixel_of(first + i, at);
  }
  return bytes;
}

inline std::string idx_labels(std::int64_t count, std::int64_t classes, std::int64_t first = 0) {
  std::string bytes = idx_header({count});
  for (std::int64_t i = 0; i < count; ++i) bytes += static_cast<char>((first + i) % classes);
  return bytes;
}

// Records of CIFAR-10, or of CIFAR-100 with `fine`. A byte of image i is pixel_of(i, its place in the planes).
inline std::string cifar(std::int64_t count, bool fine) {
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    if (fine) bytes += static_cast<char>(i % 20);
    bytes += static_cast<char>(fine ? (i * 3) % 100 : i % 10);
    for (std::int64_t at = 0; at < 3072; ++at) bytes += pixel_of(i, at);
  }
  return bytes;
}

inline std::string gzipped(const std::string& content) {
  z_stream stream{};
  ensure(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK, "gzipped", "zlib");
  std::string packed(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ensure(deflate(&stream, Z_FINISH) == Z_STREAM_END, "gzipped", "zlib");
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace plimsoll
