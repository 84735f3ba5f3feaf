// A GGUF file (versions 2 and 3, little-endian): keys with values, and tensors in rows of blocks. Parsed as hostile: the header
// is read through a small buffer, nothing is allocated by a count that the file claims, and every malformed file is data_error
// E-FORMAT-GGUF. Texts and arrays stay in the file until somebody asks.
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

// The place of a value.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // of an array
  std::uint64_t count = 0;          // of an array, at least 1; of a text its bytes
  std::int64_t offset = 0;          // of the first byte, or element
};

struct GgufTensor {
  std::string name;
  std::string_view stored_as;         // "Q4_K"
  std::optional<DType> dtype;         // f32, f16 or bf16; or else
  std::optional<BlockFormat> blocks;  // whole blocks in each row
  Shape shape;                        // outermost axis first
  std::int64_t offset = 0;            // of the first byte, from the start of the file
  std::int64_t bytes = 0;
};

class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);

  const std::string& path() const { return file_.path(); }
  const File& file() const { return file_; }
  // In the order of the file. Their bytes do not overlap.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;

  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  const GgufValue* value(std::string_view key) const;
  // All keys that begin so, in alphabetical order.
  std::vector<std::string_view> keys_under(std::string_view prefix) const;
  // Nothing where there is no such key. E-FORMAT-GGUF where the value is of another kind, or a text longer than 4 MiB.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::int64_t> whole(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // of an f32 the shortest decimal number that it is
  std::optional<bool> flag(std::string_view key) const;
  // Those of an array of whole numbers, or a single one.
  std::optional<std::vector<std::int64_t>> wholes(std::string_view key, std::size_t most) const;

  Error malformed(std::string why, std::string expected = "a complete GGUF file") const;

  // The elements from `begin` on as fp32, as many as `out` has; they lie within the tensor. What is not F32 passes through
  // `staging`, which holds at least 256 bytes.
  void read_f32(const GgufTensor& tensor, std::int64_t begin, std::span<float> out, std::span<std::byte> staging) const;

 private:
  friend class GgufParser;
  std::array<std::byte, 8> raw_number(const GgufValue& value) const;

  File file_;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_
};

// True if a path means a GGUF file, by its name or its first bytes.
bool is_gguf(const std::filesystem::path& path);

}  // namespace plimsoll
