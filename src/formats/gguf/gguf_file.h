// A GGUF file (versions 2 and 3, little-endian): keys with values, and tensors in rows of blocks. It is not trusted: the header
// is read through a small buffer, and no allocation follows a claimed count. Every malformed file is data_error E-FORMAT-GGUF.
// Texts and arrays stay in the file until they are read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/file.h"
#include "formats/gguf/gguf_type.h"
#include "tensor/block_format.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

// The place of a key's value in the file.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // of an array
  std::uint64_t count = 0;          // elements of an array, at least 1; bytes of a text
  std::int64_t offset = 0;          // of the first byte, or element
};

struct GgufTensor {
  std::string name;
  std::string_view stored_as;         // "Q4_K"
  std::optional<DType> dtype;         // f32, f16 or bf16; absent: stored in blocks
  std::optional<BlockFormat> blocks;  // each row has whole blocks
  Shape shape;                        // outermost axis first
  std::int64_t offset = 0;            // of the first byte, from the start of the file
  std::int64_t bytes = 0;
};

class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);

  const std::string& path() const { return file_.path(); }
  const File& file() const { return file_; }
  // The tensors in the order of the file. Their bytes do not overlap.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;

  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  const GgufValue* value(std::string_view key) const;
  // All keys with this prefix, in alphabetical order.
  std::vector<std::string_view> keys_under(std::string_view prefix) const;
  // Absent without such a key. E-FORMAT-GGUF: the value is of another kind, or a text is longer than 4 MiB.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::int64_t> whole(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // an f32 becomes its shortest decimal number
  std::optional<bool> flag(std::string_view key) const;
  // The elements of an array of whole numbers, at most `most`, or a single number.
  std::optional<std::vector<std::int64_t>> wholes(std::string_view key, std::size_t most) const;

  Error malformed(std::string why, std::string expected = "a complete GGUF file") const;

  // Elements [begin, begin + out.size()) of the tensor as fp32. `staging`: for all types but F32, at least 256 bytes.
  void read_f32(const GgufTensor& tensor, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;

 private:
  friend class GgufParser;
  std::array<std::byte, 8> raw_number(const GgufValue& value) const;

  File file_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_
};

// True if a path means a GGUF file, by its name or by its first bytes.
bool is_gguf(const std::filesystem::path& path);

}  // namespace plimsoll
