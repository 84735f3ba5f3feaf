// The JSON table at the head of a safetensors file: parsed without a document tree, checked rule by rule, and written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace plimsoll {

// The reference implementation refuses longer headers; so does this one.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes; offsets from the start of the file
  std::map<std::string, std::string> metadata;
};

// `text` is the header, `data_begin` where the tensors' bytes start, `file_bytes` the size of the file `where`.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_begin, std::int64_t file_bytes,
                                           const std::string& where);

// The header of a new file with its 8-byte length, padded with spaces so that data starts at a multiple of 8. Checksums are
// zeros to begin with.
std::string make_safetensors_header(const std::vector<TensorSpec>& tensors, Checksums checksums);

inline constexpr std::size_t kLengthBytes = 8;
// The metadata under this key: hex digits of XXH3-128 of the header and of each tensor in the order of their bytes.
inline constexpr const char* kChecksumKey = "plimsoll.xxh3_128";
inline constexpr std::size_t kChecksumDigits = 32;
// Of the header's text, its own digits, which begin at `at`, taken for zeros.
std::string header_checksum(std::string text, std::size_t at);

}  // namespace plimsoll
