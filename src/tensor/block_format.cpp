#include "tensor/block_format.h"

#include <algorithm>
#include <cstring>

#include "tensor/block_scales.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

using Byte = std::uint8_t;

template <class T>
T read(const Byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

float f16_at(const Byte* at) { return widen_f16(read<std::uint16_t>(at)); }

// Blocks of 32 with one fp16 scale, some with an fp16 minimum. Byte j of the nibbles holds elements j and j + 16.
struct Q4_0 {
  static constexpr int kElements = 32, kBytes = 18;
  static void decode(const Byte* block, float* __restrict out) {
    const float d = f16_at(block);
    const Byte* q = block + 2;
    for (int j = 0; j < 16; ++j) out[j] = d * static_cast<float>((q[j] & 15) - 8);
    for (int j = 0; j < 16; ++j) out[j + 16] = d * static_cast<float>((q[j] >> 4) - 8);
  }
};

struct Q4_1 {
  static constexpr int kElements = 32, kBytes = 20;
  static void decode(const Byte* block, float* __restrict out) {
    const float d = f16_at(block), m = f16_at(block + 2);
    const Byte* q = block + 4;
    for (int j = 0; j < 16; ++j) out[j] = d * static_cast<float>(q[j] & 15) + m;
    for (int j = 0; j < 16; ++j) out[j + 16] = d * static_cast<float>(q[j] >> 4) + m;
  }
};

// The fifth bit of element j is bit j of a 32-bit word. A table of masks vectorises; shifts by lane do not.
struct Fifth {
  explicit Fifth(const Byte* at) : bits(read<std::uint32_t>(at)) {}
  int of(int j) const { return (bits & kMasks[static_cast<std::size_t>(j)]) != 0 ? 16 : 0; }
  std::uint32_t bits;
  static constexpr std::array<std::uint32_t, 32> kMasks = [] {
    std::array<std::uint32_t, 32> masks{};
    for (std::size_t j = 0; j < 32; ++j) masks[j] = 1u << j;
    return masks;
  }();
};

struct Q5_0 {
  static constexpr int kElements = 32, kBytes = 22;
  static void decode(const Byte* block, float* __restrict out) {
    const float d = f16_at(block);
    const Fifth fifth(block + 2);
    const Byte* q = block + 6;
    for (int j = 0; j < 16; ++j) out[j] = d * static_cast<float>(((q[j] & 15) | fifth.of(j)) - 16);
    for (int j = 0; j < 16; ++j) out[j + 16] = d * static_cast<float>(((q[j] >> 4) | fifth.of(j + 16)) - 16);
  }
};

struct Q5_1 {
  static constexpr int kElements = 32, kBytes = 24;
  static void decode(const Byte* block, float* __restrict out) {
    const float d = f16_at(block), m = f16_at(block + 2);
    const Fifth fifth(block + 4);
    const Byte* q = block + 8;
    for (int j = 0; j < 16; ++j) out[j] = d * static_cast<float>((q[j] & 15) | fifth.of(j)) + m;
    for (int j = 0; j < 16; ++j) out[j + 16] = d * static_cast<float>((q[j] >> 4) | fifth.of(j + 16)) + m;
  }
};

struct Q8_0 {
  static constexpr int kElements = 32, kBytes = 34;
  static void decode(const Byte* block, float* __restrict out) {
    const float d = f16_at(block);
    const Byte* q = block + 2;
    for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(static_cast<std::int8_t>(q[j])) * d;
  }
};

// Blocks of 256 in eight parts of 32. A part has a scale and a minimum of 6 bits each; 12 bytes hold all of them.
struct PartScales {
  PartScales(const Byte* block, const Byte* packed) {
    const float d = f16_at(block), d_min = f16_at(block + 2);
    for (int i = 0; i < 4; ++i) {
      scale[i] = d * static_cast<float>(packed[i] & 63);
      minimum[i] = d_min * static_cast<float>(packed[i + 4] & 63);
      scale[i + 4] = d * static_cast<float>((packed[i + 8] & 15) | (packed[i] >> 2 & 48));
      minimum[i + 4] = d_min * static_cast<float>((packed[i + 8] >> 4) | (packed[i + 4] >> 2 & 48));
    }
  }
  float scale[8], minimum[8];
};

struct Q4K {
  static constexpr int kElements = 256, kBytes = 144;
  static void decode(const Byte* block, float* __restrict out) {
    const PartScales parts(block, block + 4);
    for (int pair = 0; pair < 4; ++pair) {
      const Byte* q = block + 16 + 32 * pair;
      float* to = out + 64 * pair;
      const float scale = parts.scale[2 * pair], minimum = parts.minimum[2 * pair];
      for (int j = 0; j < 32; ++j) to[j] = scale * static_cast<float>(q[j] & 15) - minimum;
      const float high_scale = parts.scale[2 * pair + 1], high_minimum = parts.minimum[2 * pair + 1];
      for (int j = 0; j < 32; ++j) to[j + 32] = high_scale * static_cast<float>(q[j] >> 4) - high_minimum;
    }
  }
};

struct Q5K {
  static constexpr int kElements = 256, kBytes = 176;
  static void decode(const Byte* block, float* __restrict out) {
    const PartScales parts(block, block + 4);
    const Byte* fifth = block + 16;  // bit i of byte j: element j of part i
    for (int part = 0; part < 8; ++part) {
      const Byte* q = block + 48 + 32 * (part / 2);
      const int shift = 4 * (part % 2);
      const float scale = parts.scale[part], minimum = parts.minimum[part];
      float* to = out + 32 * part;
      for (int j = 0; j < 32; ++j) {
        to[j] = scale * static_cast<float>((q[j] >> shift & 15) | (fifth[j] >> part & 1) << 4) - minimum;
      }
    }
  }
};

struct Q6K {
  static constexpr int kElements = 256, kBytes = 210;
  static void decode(const Byte* block, float* __restrict out) {
    const Byte* scales = block + 192;  // one int8 for each 16 elements
    const float d = f16_at(block + 208);
    for (int part = 0; part < 8; ++part) {
      const int half = part / 4, quarter = part % 4;
      const Byte* low = block + 64 * half + 32 * (quarter % 2);
      const Byte* high = block + 128 + 32 * half;
      const int low_shift = 4 * (quarter / 2), high_shift = 2 * quarter;
      float* to = out + 32 * part;
      for (int j16 = 0; j16 < 32; j16 += 16) {
        const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[2 * part + j16 / 16]));
        for (int j = j16; j < j16 + 16; ++j) {
          to[j] = scale * static_cast<float>(((low[j] >> low_shift & 15) | (high[j] >> high_shift & 3) << 4) - 32);
        }
      }
    }
  }
};

template <class Block>
void decode_range(const Byte* stored, std::int64_t first, std::span<float> out) {
  constexpr std::int64_t kElements = Block::kElements;
  const Byte* block = stored + first / kElements * Block::kBytes;
  float* to = out.data();
  std::int64_t left = static_cast<std::int64_t>(out.size());
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    float whole[Block::kElements];
    Block::decode(block, whole);
    std::copy_n(whole + begin, count, to);
  };
  if (const std::int64_t begin = first % kElements; begin != 0 && left > 0) {
    const std::int64_t count = std::min(kElements - begin, left);
    part(begin, count);
    to += count, left -= count, block += Block::kBytes;
  }
  for (; left >= kElements; to += kElements, left -= kElements, block += Block::kBytes) Block::decode(block, to);
  if (left > 0) part(0, left);
}

// `codes` begins with the code of element `origin`.
void decode_int8(const BlockMatrix& matrix, const Byte* codes, std::int64_t origin, const Byte* scales, std::int64_t first,
                 std::span<float> out) {
  float* to = out.data();
  std::int64_t left = static_cast<std::int64_t>(out.size());
  while (left > 0) {
    const std::int64_t row = first / matrix.columns;
    const std::int64_t count = std::min((row + 1) * matrix.columns - first, left);
    const float scale = read<float>(scales + 4 * row);
    const Byte* q = codes + (first - origin);
    for (std::int64_t j = 0; j < count; ++j) {
      to[j] = static_cast<float>(static_cast<std::int8_t>(q[j])) * scale * kInverse127;
    }
    to += count, first += count, left -= count;
  }
}

// Both elements of a byte, the first in the high half.
struct Nf4Pair {
  float first, second;
};
constexpr std::array<Nf4Pair, 256> kNf4Pairs = [] {
  std::array<Nf4Pair, 256> pairs{};
  for (std::size_t byte = 0; byte < 256; ++byte) pairs[byte] = {kNf4[byte >> 4], kNf4[byte & 15]};
  return pairs;
}();

template <class ScaleOf>
void decode_nf4(const Byte* codes, std::int64_t origin, std::int64_t first, std::span<float> out, const ScaleOf& scale_of) {
  float* to = out.data();
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  while (first < end) {
    const std::int64_t block = first / kNf4Block;
    const std::int64_t stop = std::min((block + 1) * kNf4Block, end);
    const float scale = scale_of(block);
    if (first % 2 != 0) *to++ = kNf4Pairs[codes[(first++ - origin) / 2]].second * scale;
    const Byte* pair = codes + (first - origin) / 2;
    const std::int64_t pairs = (stop - first) / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      to[2 * i] = kNf4Pairs[pair[i]].first * scale;
      to[2 * i + 1] = kNf4Pairs[pair[i]].second * scale;
    }
    to += 2 * pairs, first += 2 * pairs;
    if (first < stop) *to++ = kNf4Pairs[codes[(first++ - origin) / 2]].first * scale;
  }
}

// A format. Blocks of GGUF contain their own scales, in fp16.
struct Facts {
  std::string_view name;
  std::int64_t elements = 1;               // of a block
  std::int64_t bytes = 0;                  // of a block with its scales; 0: the scales follow all codes
  std::int64_t scales = 0, scales_at = 0;  // of a GGUF block: number of scales, offset of the first in bytes
  void (*decode)(const Byte* stored, std::int64_t first, std::span<float> out) = nullptr;
};
template <class Block>
constexpr Facts gguf(std::string_view name, std::int64_t scales, std::int64_t scales_at = 0) {
  return {name, Block::kElements, Block::kBytes, scales, scales_at, decode_range<Block>};
}
constexpr Facts kFacts[] = {{"int8"},
                            {"nf4", kNf4Block},
                            {"nf4_nested", kNf4Block},
                            gguf<Q4_0>("q4_0", 1),
                            gguf<Q4_1>("q4_1", 2),
                            gguf<Q5_0>("q5_0", 1),
                            gguf<Q5_1>("q5_1", 2),
                            gguf<Q8_0>("q8_0", 1),
                            gguf<Q4K>("q4_k", 2),
                            gguf<Q5K>("q5_k", 2),
                            gguf<Q6K>("q6_k", 1, 208)};
static_assert(std::size(kFacts) == kBlockFormats.size());

const Facts& facts_of(BlockFormat format) { return kFacts[static_cast<std::size_t>(format)]; }

}  // namespace

std::string_view name(BlockFormat format) { return facts_of(format).name; }
std::int64_t block_elements(BlockFormat format) { return facts_of(format).elements; }
bool scales_apart(BlockFormat format) { return facts_of(format).bytes == 0; }

BlockParts block_parts(const BlockMatrix& matrix) {
  const std::int64_t elements = matrix.rows * matrix.columns, blocks = ceil_div(elements, kNf4Block);
  BlockParts parts;
  switch (matrix.format) {
    case BlockFormat::int8:
      parts.scales = Bytes{round_up(elements, 4)};
      parts.end = parts.scales + Bytes{4 * matrix.rows};
      break;
    case BlockFormat::nf4:
      parts.scales = Bytes{round_up(ceil_div(elements, 2), 4)};
      parts.end = parts.scales + Bytes{4 * blocks};
      break;
    case BlockFormat::nf4_nested:
      parts.scales = Bytes{round_up(ceil_div(elements, 2), 4)};
      parts.nested_scales = parts.scales + Bytes{round_up(blocks, 4)};
      parts.map = parts.nested_scales + Bytes{4 * ceil_div(blocks, kNestedBlock)};
      parts.offset = parts.map + Bytes{4 * 256};
      parts.end = parts.offset + Bytes{4};
      break;
    default: parts.end = Bytes{ceil_div(elements, facts_of(matrix.format).elements) * facts_of(matrix.format).bytes};
  }
  return parts;
}

Bytes stored_bytes(const BlockMatrix& matrix) { return block_parts(matrix).end; }

Bytes code_bytes(const BlockMatrix& matrix) {
  const std::int64_t elements = matrix.rows * matrix.columns;
  if (matrix.format == BlockFormat::int8) return Bytes{elements};
  return scales_apart(matrix.format) ? Bytes{ceil_div(elements, 2)} : stored_bytes(matrix);
}

void decode_blocks(const BlockMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out) {
  decode_blocks(matrix, BlockPieces{stored, 0, stored + code_bytes(matrix).n}, first, out);
}

void decode_blocks(const BlockMatrix& matrix, const BlockPieces& pieces, std::int64_t first, std::span<float> out) {
  const Byte* codes = reinterpret_cast<const Byte*>(pieces.codes);
  const std::int64_t origin = pieces.first, within = first - origin;
  const auto behind = [&](Bytes part) { return reinterpret_cast<const Byte*>(pieces.behind) + (part - code_bytes(matrix)).n; };
  switch (matrix.format) {
    case BlockFormat::int8: return decode_int8(matrix, codes, origin, behind(block_parts(matrix).scales), first, out);
    case BlockFormat::nf4: {
      const Byte* scales = behind(block_parts(matrix).scales);
      return decode_nf4(codes, origin, first, out, [&](std::int64_t block) { return read<float>(scales + 4 * block); });
    }
    case BlockFormat::nf4_nested: {
      const BlockParts parts = block_parts(matrix);
      const Byte *scales = behind(parts.scales), *nested = behind(parts.nested_scales), *map = behind(parts.map);
      const float offset = read<float>(behind(parts.offset));
      return decode_nf4(codes, origin, first, out, [&](std::int64_t block) {
        return read<float>(map + 4 * scales[block]) * read<float>(nested + block / kNestedBlock * 4) + offset;
      });
    }
    default: return facts_of(matrix.format).decode(codes, within, out);
  }
}

// The high byte of an fp16 scale contains all bits of its exponent.
std::optional<std::int64_t> first_bad_scale(BlockFormat format, std::int64_t begin, std::span<const std::byte> bytes) {
  constexpr auto kExponent = std::byte{0x7c};
  const Facts& facts = facts_of(format);
  if (facts.scales == 0) return {};
  const std::int64_t end = begin + std::ssize(bytes);
  for (std::int64_t block = begin / facts.bytes; block * facts.bytes < end; ++block) {
    for (std::int64_t i = 0; i < facts.scales; ++i) {
      const std::int64_t high = block * facts.bytes + facts.scales_at + 2 * i + 1;
      if (high < begin || high >= end) continue;
      if ((bytes[static_cast<std::size_t>(high - begin)] & kExponent) == kExponent) return block;
    }
  }
  return {};
}

}  // namespace plimsoll
