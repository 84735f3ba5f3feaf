// The scales that stand beside the codes of a block, in fp16, as the formats of GGUF have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/block_format.h"

namespace plimsoll {

// The number of the first block that has a scale which is NaN or infinite, among bytes [begin, begin + bytes.size()) of a stored
// matrix; they may begin and end within a block.
std::optional<std::int64_t> first_bad_scale(BlockFormat format, std::int64_t begin, std::span<const std::byte> bytes);

}  // namespace plimsoll
