// The JSON table at the head of a safetensors file: read in blocks without a document tree, checked rule by rule, and written.
// Memory is about 250 bytes a tensor beside its name, and 8 MiB at most for metadata.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/file.h"
#include "formats/safetensors.h"

namespace plimsoll {

// The reference implementation refuses longer headers; so does this one.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensors = 1 << 16;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes; offsets from the start of the file
  // The first 4 KiB of each text; of many, the first MiB of all. Others can be any size, and nobody reads them.
  std::map<std::string, std::string> metadata;
  std::string checksums;  // of the header and of each tensor, which have been compared with the header; empty: there are none
};

// E-FORMAT-SAFETENSORS: the file is malformed.
SafetensorsHeader read_safetensors_header(const File& file);

// The header of a new file with its 8-byte length, padded with spaces so that data starts at a multiple of 8. Checksums are
// zeros to begin with.
std::string make_safetensors_header(const std::vector<TensorSpec>& tensors, Checksums checksums);

inline constexpr std::size_t kLengthBytes = 8;
// The metadata under this key: hex digits of XXH3-128 of the header and of each tensor in the order of their bytes.
inline constexpr const char* kChecksumKey = "plimsoll.xxh3_128";
inline constexpr std::size_t kChecksumDigits = 32;
// The checksum of a header's text. Its own digits, which begin at `at`, count as zeros.
std::string header_checksum(std::string text, std::size_t at);

}  // namespace plimsoll
