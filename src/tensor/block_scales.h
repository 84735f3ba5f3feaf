// The fp16 scales next to the codes of a block, in GGUF's formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/block_format.h"

namespace plimsoll {

// The first block with a non-finite scale among bytes [begin, begin + bytes.size()) of a stored matrix. The range may begin and
// end within a block.
std::optional<std::int64_t> first_bad_scale(BlockFormat format, std::int64_t begin, std::span<const std::byte> bytes);

}  // namespace plimsoll
