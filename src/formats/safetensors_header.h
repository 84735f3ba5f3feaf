// The JSON table at the begin of a safetensors file: reading in blocks without a document tree, checks, and writing. A tensor
// takes about 250 bytes of memory in addition to its name, and metadata at most 8 MiB.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/file.h"
#include "formats/safetensors.h"

namespace plimsoll {

// The limit of the reference implementation on the header.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensors = 1 << 16;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes; offsets from the start of the file
  // The first 4 KiB of each text, until these reach 1 MiB in all. Longer texts are not needed.
  std::map<std::string, std::string> metadata;
  std::string checksums;  // of the header, which has been compared, and of each tensor; empty: none
};

// E-FORMAT-SAFETENSORS: the header is malformed.
SafetensorsHeader read_safetensors_header(const File& file);

// The header of a new file with its 8-byte length, padded with spaces so that data begins at a multiple of 8. Its checksums are
// zeros.
std::string make_safetensors_header(const std::vector<TensorSpec>& tensors, Checksums checksums);

inline constexpr std::size_t kLengthBytes = 8;
// The key of the checksums in the metadata: hex digits of XXH3-128 of the header, then of each tensor in the order of their
// bytes.
inline constexpr const char* kChecksumKey = "plimsoll.xxh3_128";
inline constexpr std::size_t kChecksumDigits = 32;
// The checksum of a header's text. Its own digits, from `at` on, count as zeros.
std::string header_checksum(std::string text, std::size_t at);

}  // namespace plimsoll
