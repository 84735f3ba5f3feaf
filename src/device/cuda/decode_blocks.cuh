// Decoders of frozen matrices on a GPU, with the bits of decode_blocks (tensor/block_format.h). nvcc contracts a * b + c to one
// rounding, so products and sums are intrinsics that stay apart. Offsets of elements and bytes have 64 bits.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "device/cuda/kernels.cuh"
#include "tensor/block_format.h"
#include "tensor/block_scales.h"

namespace plimsoll::cuda {

using Byte = std::uint8_t;

// The addresses of a stored matrix's parts; numbers are codes, too.
struct StoredParts {
  const Byte *codes, *scales = nullptr, *nested_scales = nullptr, *map = nullptr, *offset = nullptr;
};

// The first of some elements of a row.
struct ElementPlace {
  std::int64_t row, element;  // of the matrix
};

// Each file has decoders of its own: a test compiles them as nvcc does, with contraction.
namespace {

// kCount consecutive bytes at a multiple of kAlign. Bytes and codes are counted from the first.
template <int kCount, int kAlign>
struct ByteRun {
  std::uint32_t words[(kCount + 3) / 4]{};

  __device__ __forceinline__ explicit ByteRun(const Byte* from) {
    std::memcpy(words, __builtin_assume_aligned(from, kCount < kAlign ? kCount : kAlign), kCount);
  }
  __device__ __forceinline__ ByteRun& operator>>=(int bits) {
#pragma unroll
    for (std::uint32_t& word : words) word >>= bits;
    return *this;
  }
  // The lowest bits of byte i.
  template <std::uint32_t kMask = 255>
  __device__ __forceinline__ int at(int i) const {
    return static_cast<int>(words[i / 4] >> 8 * (i % 4) & kMask);
  }
  __device__ __forceinline__ int signed_at(int i) const { return static_cast<std::int8_t>(at(i)); }
};

template <class T>
__device__ __forceinline__ T number_at(const Byte* at) {
  T value;
  std::memcpy(&value, __builtin_assume_aligned(at, sizeof(T)), sizeof(T));
  return value;
}
__device__ __forceinline__ float half_at(const Byte* at) { return widen(static_cast<F16>(number_at<std::uint16_t>(at))); }

// Decoders have decode<kCount>(parts, place, table, out), where kCount is 8 or, with kSingle, 1. Eight elements begin at a
// multiple of eight and lie in one row. `table`: the numbers of nf4, in shared memory, if kTable.

template <class T>
struct Numbers {
  static constexpr bool kTable = false, kSingle = true;
  template <int kCount>
  static __device__ __forceinline__ void decode(const StoredParts& parts, const ElementPlace& place, const float*, float* out) {
    const T* from = reinterpret_cast<const T*>(parts.codes) + place.element;
    const Pack<T, kCount> pack = load_pack<kCount>(from);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = widen(pack.at[e]);
  }
};

struct Int8 {
  static constexpr bool kTable = false, kSingle = true;
  template <int kCount>
  static __device__ __forceinline__ void decode(const StoredParts& parts, const ElementPlace& place, const float*, float* out) {
    const float scale = number_at<float>(parts.scales + 4 * place.row);
    const ByteRun<kCount, 8> codes(parts.codes + place.element);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = __fmul_rn(__fmul_rn(static_cast<float>(codes.signed_at(e)), scale), kInverse127);
  }
};

template <std::size_t kCode>
inline constexpr float kNf4Number = kNf4[kCode];

template <std::size_t... kCodes>
__device__ __forceinline__ float nf4_number(unsigned code, std::index_sequence<kCodes...>) {
  float number = 0;
  ((number = code == kCodes ? kNf4Number<kCodes> : number), ...);
  return number;
}
__device__ __forceinline__ float nf4_number(unsigned code) { return nf4_number(code, std::make_index_sequence<16>{}); }

// A byte has two elements, the first in the high half.
template <bool kNested>
struct Nf4 {
  static constexpr bool kTable = true, kSingle = true;
  static __device__ __forceinline__ float scale(const StoredParts& parts, std::int64_t block) {
    if constexpr (!kNested) return number_at<float>(parts.scales + 4 * block);
    const float number = number_at<float>(parts.map + 4 * parts.scales[block]);
    const float nested = number_at<float>(parts.nested_scales + block / kNestedBlock * 4);
    return __fadd_rn(__fmul_rn(number, nested), number_at<float>(parts.offset));
  }
  template <int kCount>
  static __device__ __forceinline__ void decode(const StoredParts& parts, const ElementPlace& place, const float* table,
                                                float* out) {
    const float of_block = scale(parts, place.element / kNf4Block);
    const ByteRun<(kCount + 1) / 2, 4> bytes(parts.codes + place.element / 2);
    const int odd = kCount == 1 ? static_cast<int>(place.element % 2) : 0;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const int byte = bytes.at(e / 2);
      out[e] = __fmul_rn(table[(e + odd) % 2 == 0 ? byte >> 4 : byte & 15], of_block);
    }
  }
};

// A GGUF format. Block has kElements, kBytes and decode<kCount>(block, first element within it, out).
template <class Block>
struct Gguf {
  static constexpr bool kTable = false, kSingle = false;
  template <int kCount>
  static __device__ __forceinline__ void decode(const StoredParts& parts, const ElementPlace& place, const float*, float* out) {
    Block::template decode<kCount>(parts.codes + place.element / Block::kElements * Block::kBytes,
                                   static_cast<int>(place.element % Block::kElements), out);
  }
};

// The codes of a block of 32: byte j holds elements j and j + 16.
template <int kCount>
struct Nibbles {
  ByteRun<kCount, 2> bytes;

  __device__ __forceinline__ Nibbles(const Byte* q, int within) : bytes(q + within % 16) { bytes >>= within / 16 * 4; }
  __device__ __forceinline__ int at(int e) const { return bytes.template at<15>(e); }
};
// The same with a fifth bit: bit j of a 32-bit word belongs to element j.
template <int kCount>
struct Fives {
  Nibbles<kCount> low;
  std::uint32_t fifth;

  __device__ __forceinline__ Fives(const Byte* q, const Byte* bits, int within)
      : low(q, within), fifth(ByteRun<4, 2>(bits).words[0] >> within) {}
  __device__ __forceinline__ int at(int e) const { return low.at(e) | static_cast<int>(fifth >> e & 1) << 4; }
};

struct Q4_0 {
  static constexpr int kElements = 32, kBytes = 18;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const float d = half_at(block);
    const Nibbles<kCount> q(block + 2, within);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = __fmul_rn(d, static_cast<float>(q.at(e) - 8));
  }
};

struct Q4_1 {
  static constexpr int kElements = 32, kBytes = 20;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const float d = half_at(block), m = half_at(block + 2);
    const Nibbles<kCount> q(block + 4, within);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = __fadd_rn(__fmul_rn(d, static_cast<float>(q.at(e))), m);
  }
};

struct Q5_0 {
  static constexpr int kElements = 32, kBytes = 22;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const float d = half_at(block);
    const Fives<kCount> q(block + 6, block + 2, within);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = __fmul_rn(d, static_cast<float>(q.at(e) - 16));
  }
};

struct Q5_1 {
  static constexpr int kElements = 32, kBytes = 24;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const float d = half_at(block), m = half_at(block + 2);
    const Fives<kCount> q(block + 8, block + 4, within);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = __fadd_rn(__fmul_rn(d, static_cast<float>(q.at(e))), m);
  }
};

struct Q8_0 {
  static constexpr int kElements = 32, kBytes = 34;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const float d = half_at(block);
    const ByteRun<kCount, 2> q(block + 2 + within);
#pragma unroll
    for (int e = 0; e < kCount; ++e) out[e] = __fmul_rn(static_cast<float>(q.signed_at(e)), d);
  }
};

// Scale and minimum of one of the eight parts of a block of 256, of 6 bits each (PartScales in tensor/block_format.cpp).
struct PartScale {
  float scale, minimum;

  __device__ __forceinline__ PartScale(const Byte* block, int part) {
    const Byte* packed = block + 4 + part % 4;
    int scale_bits = packed[0] & 63, minimum_bits = packed[4] & 63;
    if (part >= 4) {
      scale_bits = (packed[8] & 15) | (packed[0] >> 2 & 48);
      minimum_bits = packed[8] >> 4 | (packed[4] >> 2 & 48);
    }
    scale = __fmul_rn(half_at(block), static_cast<float>(scale_bits));
    minimum = __fmul_rn(half_at(block + 2), static_cast<float>(minimum_bits));
  }
};

struct Q4K {
  static constexpr int kElements = 256, kBytes = 144;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const int part = within / 32;
    const PartScale of(block, part);
    ByteRun<kCount, 8> q(block + 16 + 32 * (part / 2) + within % 32);
    q >>= 4 * (part % 2);
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      out[e] = __fsub_rn(__fmul_rn(of.scale, static_cast<float>(q.template at<15>(e))), of.minimum);
    }
  }
};

struct Q5K {
  static constexpr int kElements = 256, kBytes = 176;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const int part = within / 32;
    const PartScale of(block, part);
    ByteRun<kCount, 8> q(block + 48 + 32 * (part / 2) + within % 32), fifth(block + 16 + within % 32);
    q >>= 4 * (part % 2), fifth >>= part;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const int code = q.template at<15>(e) | fifth.template at<1>(e) << 4;
      out[e] = __fsub_rn(__fmul_rn(of.scale, static_cast<float>(code)), of.minimum);
    }
  }
};

struct Q6K {
  static constexpr int kElements = 256, kBytes = 210;
  template <int kCount>
  static __device__ __forceinline__ void decode(const Byte* block, int within, float* out) {
    const int part = within / 32, half = part / 4, quarter = part % 4;
    const int scale_code = static_cast<std::int8_t>(block[192 + within / 16]);
    const float scale = __fmul_rn(half_at(block + 208), static_cast<float>(scale_code));
    ByteRun<kCount, 2> low(block + 64 * half + 32 * (quarter % 2) + within % 32), high(block + 128 + 32 * half + within % 32);
    low >>= 4 * (quarter / 2), high >>= 2 * quarter;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const int code = low.template at<15>(e) | high.template at<3>(e) << 4;
      out[e] = __fmul_rn(scale, static_cast<float>(code - 32));
    }
  }
};

// Calls f with the decoder of a format.
template <class F>
auto with_decoder(BlockFormat format, F f) {
  switch (format) {
    case BlockFormat::int8: return f(Int8{});
    case BlockFormat::nf4: return f(Nf4<false>{});
    case BlockFormat::nf4_nested: return f(Nf4<true>{});
    case BlockFormat::q4_0: return f(Gguf<Q4_0>{});
    case BlockFormat::q4_1: return f(Gguf<Q4_1>{});
    case BlockFormat::q5_0: return f(Gguf<Q5_0>{});
    case BlockFormat::q5_1: return f(Gguf<Q5_1>{});
    case BlockFormat::q8_0: return f(Gguf<Q8_0>{});
    case BlockFormat::q4_k: return f(Gguf<Q4K>{});
    case BlockFormat::q5_k: return f(Gguf<Q5K>{});
    case BlockFormat::q6_k: return f(Gguf<Q6K>{});
  }
  throw internal_error("blocks", "a format without a decoder");
}

}  // namespace
}  // namespace plimsoll::cuda
