// Numbers that all decoders of blocks share.
#pragma once

namespace plimsoll {

// bitsandbytes multiplies an int8 code by the row's absmax, and then by the reciprocal of 127.
inline constexpr float kInverse127 = 7.874015718698502e-3f;

}  // namespace plimsoll
