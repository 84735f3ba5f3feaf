// The storage formats of tensors in a GGUF file, with their numbers in ggml.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "tensor/block_format.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

struct GgufStorage {
  std::uint32_t number = 0;
  std::string_view name;  // "Q8_0"
  // One of the two for a supported format, else neither.
  std::optional<DType> dtype = std::nullopt;
  std::optional<BlockFormat> blocks = std::nullopt;
  std::optional<std::int64_t> file_type = std::nullopt;  // llama.cpp's number of a file of such matrices; empty: never written
};

// Null if ggml has no format of this number or name.
const GgufStorage* gguf_storage(std::uint32_t number);
const GgufStorage* gguf_storage(std::string_view name);

// The names of the formats that are written: "F32, F16, ...".
std::string written_gguf_formats();

// The bytes of a tensor in a supported format. Its rows have whole blocks.
Bytes stored_bytes(const GgufStorage& storage, const Shape& shape);

}  // namespace plimsoll
