// The storage formats of tensors in a GGUF file, with their numbers in ggml.
#pragma once

#include <cstdint>
#include <optional>
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
};

// Null if ggml has no format of this number or name.
const GgufStorage* gguf_storage(std::uint32_t number);
const GgufStorage* gguf_storage(std::string_view name);

// The bytes of a tensor in a supported format. Its rows have whole blocks.
Bytes stored_bytes(const GgufStorage& storage, const Shape& shape);

}  // namespace plimsoll
