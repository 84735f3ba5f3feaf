// How tensors are stored in a GGUF file: the formats of ggml with their numbers.
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
  // One of the two where Plimsoll reads it.
  std::optional<DType> dtype = std::nullopt;
  std::optional<BlockFormat> blocks = std::nullopt;
};

// Null where ggml has none of that number, or name.
const GgufStorage* gguf_storage(std::uint32_t number);
const GgufStorage* gguf_storage(std::string_view name);

// The bytes of a tensor whose rows are whole blocks, in a format that is read.
Bytes stored_bytes(const GgufStorage& storage, const Shape& shape);

}  // namespace plimsoll
