// Vectorised decoding of matrices in blocks (tensor/block_format.h), with the bits of decode_blocks. A four-bit code is an index
// into a table of sixteen numbers, already multiplied by the scale of the block. Included once for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_BLOCKS_INL_H_
#undef PLIMSOLL_DEVICE_CPU_BLOCKS_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "device/cpu/narrow-inl.h"
#include "device/cpu/stored_matrix.h"
#include "hwy/highway.h"
#include "tensor/block_scales.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX2  // AVX2 and better sets have table lookups and convert fp16

using Byte = std::uint8_t;
using U8 = hn::Rebind<std::uint8_t, F32>;
using I8 = hn::Rebind<std::int8_t, F32>;
using Words = hn::Vec<U32>;

static_assert(kLanes == 8 || kLanes == 16);

template <class T>
HWY_INLINE T read_at(const Byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
HWY_INLINE Words bytes_at(const Byte* at) { return hn::PromoteTo(U32(), hn::LoadU(U8(), at)); }
HWY_INLINE Floats signed_at(const Byte* at) {
  const auto bytes = hn::LoadU(I8(), reinterpret_cast<const std::int8_t*>(at));
  return hn::ConvertTo(F32(), hn::PromoteTo(I32(), bytes));
}
// An fp16 number in all lanes.
HWY_INLINE Floats half_at(const Byte* at) {
  return hn::PromoteTo(F32(), hn::BitCast(Halves(), hn::Set(U16(), read_at<std::uint16_t>(at))));
}

// A table of sixteen numbers: `low` is all of it with sixteen lanes; with eight lanes `high` is its second half.
struct Sixteen {
  Floats low, high;

  // first, first + 1, ..., first + 15
  static HWY_INLINE Sixteen counting(float first) {
    const Floats low = hn::Iota(F32(), first);
    return {low, hn::Add(low, hn::Set(F32(), 8))};
  }
  static HWY_INLINE Sixteen nf4() { return {hn::LoadU(F32(), kNf4.data()), hn::LoadU(F32(), kNf4.data() + 16 - kLanes)}; }
  HWY_INLINE Sixteen times(Floats scale) const { return {hn::Mul(low, scale), hn::Mul(high, scale)}; }
  HWY_INLINE Sixteen plus(Floats x) const { return {hn::Add(low, x), hn::Add(high, x)}; }
  HWY_INLINE Sixteen minus(Floats x) const { return {hn::Sub(low, x), hn::Sub(high, x)}; }

  // The numbers at the lower four bits of each lane.
  HWY_INLINE Floats at(Words index) const {
#if HWY_TARGET <= HWY_AVX3
    return hn::TableLookupLanes(low, hn::Indices512<float>{index.raw});  // the processor ignores the other bits
#else
    const auto within = hn::IndicesFromVec(F32(), hn::And(index, hn::Set(U32(), 7)));
    const auto upper = hn::RebindMask(F32(), hn::TestBit(index, hn::Set(U32(), 8)));
    return hn::IfThenElse(upper, hn::TableLookupLanes(high, within), hn::TableLookupLanes(low, within));
#endif
  }
};

// Decoders work in steps of kStep elements, which begin at a block, and in units of 32 elements. unit(u, v) decodes unit `u` of
// the step into the kUnit vectors at v.
inline constexpr int kUnit = 32 / kLanes;

// Byte j of sixteen holds the codes of elements j and j + 16.
HWY_INLINE void take_nibbles(const Byte* q, const Sixteen& table, Floats* v) {
  for (int j = 0; j < kUnit / 2; ++j) {
    const Words bytes = bytes_at(q + j * kLanes);
    v[j] = table.at(bytes);
    v[j + kUnit / 2] = table.at(hn::ShiftRight<4>(bytes));
  }
}
// The same for codes with a fifth bit: bit j of four bytes belongs to element j.
HWY_INLINE void take_fives(const Byte* q, const Byte* fifth, const Sixteen& without, const Sixteen& with, Floats* v) {
  for (int j = 0; j < kUnit / 2; ++j) {
    const Words low = bytes_at(q + j * kLanes), high = hn::ShiftRight<4>(low);
    const int byte = j * kLanes / 8;
    v[j] = hn::IfThenElse(hn::LoadMaskBits(F32(), fifth + byte), with.at(low), without.at(low));
    v[j + kUnit / 2] = hn::IfThenElse(hn::LoadMaskBits(F32(), fifth + 2 + byte), with.at(high), without.at(high));
  }
}

// Blocks of 32, two per step. A block begins with its scale and, in some formats, its minimum.
template <int kSize>
struct Blocks32 {
  static constexpr int kStep = 64;
  const Byte* blocks;
  alignas(16) float numbers[4];  // scale and minimum of both blocks; a minimum is meaningless if the format has none

  HWY_INLINE Blocks32(const Byte* stored, std::int64_t first) : blocks(stored + first / 32 * kSize) {
    hwy::Prefetch(blocks + 2048);
    const std::uint64_t halves = read_at<std::uint32_t>(blocks) | std::uint64_t{read_at<std::uint32_t>(blocks + kSize)} << 32;
    const hn::FixedTag<float, 4> four;
    const auto bits = hn::Set(hn::FixedTag<std::uint64_t, 1>(), halves);
    hn::Store(hn::PromoteTo(four, hn::BitCast(hn::Rebind<hwy::float16_t, hn::FixedTag<float, 4>>(), bits)), four, numbers);
  }
  HWY_INLINE const Byte* block(int u) const { return blocks + u * kSize; }
  HWY_INLINE Floats scale(int u) const { return hn::Set(F32(), numbers[2 * u]); }
  HWY_INLINE Floats minimum(int u) const { return hn::Set(F32(), numbers[2 * u + 1]); }
};

struct UnitsQ4_0 : Blocks32<18> {
  HWY_INLINE UnitsQ4_0(const Byte* stored, std::int64_t first) : Blocks32(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const { take_nibbles(block(u) + 2, Sixteen::counting(-8).times(scale(u)), v); }
};
struct UnitsQ4_1 : Blocks32<20> {
  HWY_INLINE UnitsQ4_1(const Byte* stored, std::int64_t first) : Blocks32(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const {
    take_nibbles(block(u) + 4, Sixteen::counting(0).times(scale(u)).plus(minimum(u)), v);
  }
};
struct UnitsQ5_0 : Blocks32<22> {
  HWY_INLINE UnitsQ5_0(const Byte* stored, std::int64_t first) : Blocks32(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const {
    const Floats d = scale(u);
    take_fives(block(u) + 6, block(u) + 2, Sixteen::counting(-16).times(d), Sixteen::counting(0).times(d), v);
  }
};
struct UnitsQ5_1 : Blocks32<24> {
  HWY_INLINE UnitsQ5_1(const Byte* stored, std::int64_t first) : Blocks32(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const {
    const Floats d = scale(u), m = minimum(u);
    take_fives(block(u) + 8, block(u) + 4, Sixteen::counting(0).times(d).plus(m), Sixteen::counting(16).times(d).plus(m), v);
  }
};
struct UnitsQ8_0 : Blocks32<34> {
  HWY_INLINE UnitsQ8_0(const Byte* stored, std::int64_t first) : Blocks32(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const {
    const Floats d = scale(u);
    for (int j = 0; j < kUnit; ++j) v[j] = hn::Mul(signed_at(block(u) + 2 + j * kLanes), d);
  }
};

// The scales, then the minima, of the eight parts of a block of 256. A part is a unit; all numbers of 6 bits take twelve bytes.
struct PartTables {
  alignas(64) float scale[16];

  HWY_INLINE explicit PartTables(const Byte* block) {
    const auto a = read_at<std::uint32_t>(block + 4), b = read_at<std::uint32_t>(block + 8),
               c = read_at<std::uint32_t>(block + 12);
    constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kUpper = 0x30303030;
    const std::uint32_t words[4] = {a & kSix, (c & kFour) | (a >> 2 & kUpper), b & kSix, (c >> 4 & kFour) | (b >> 2 & kUpper)};
    Byte bytes[16];
    std::memcpy(bytes, words, 16);
    for (int i = 0; i < 16; i += kLanes) {
      const Floats d = half_at(block), d_min = half_at(block + 2);
      const Floats factor = kLanes == 16 ? hn::IfThenElse(hn::FirstN(F32(), 8), d, d_min) : i == 0 ? d : d_min;
      hn::Store(hn::Mul(factor, hn::ConvertTo(F32(), hn::BitCast(I32(), bytes_at(bytes + i)))), F32(), scale + i);
    }
  }
  HWY_INLINE Sixteen table(int part, float first) const {
    return Sixteen::counting(first).times(hn::Set(F32(), scale[part])).minus(hn::Set(F32(), scale[part + 8]));
  }
};

HWY_INLINE const Byte* fetched(const Byte* block) {
  for (int line = 0; line < 256; line += 64) hwy::Prefetch(block + 2048 + line);
  return block;
}

template <int kBytes>
struct UnitsOfParts {
  static constexpr int kStep = 256;
  const Byte* block;
  PartTables parts;

  HWY_INLINE UnitsOfParts(const Byte* stored, std::int64_t first) : block(fetched(stored + first / 256 * kBytes)), parts(block) {}
};

struct UnitsQ4K : UnitsOfParts<144> {
  HWY_INLINE UnitsQ4K(const Byte* stored, std::int64_t first) : UnitsOfParts(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const {
    const Sixteen table = parts.table(u, 0);
    for (int j = 0; j < kUnit; ++j) {
      const Words bytes = bytes_at(block + 16 + 32 * (u / 2) + j * kLanes);
      v[j] = table.at(u % 2 == 0 ? bytes : hn::ShiftRight<4>(bytes));
    }
  }
};

struct UnitsQ5K : UnitsOfParts<176> {
  HWY_INLINE UnitsQ5K(const Byte* stored, std::int64_t first) : UnitsOfParts(stored, first) {}
  HWY_INLINE void unit(int u, Floats* v) const {
    const Sixteen without = parts.table(u, 0), with = parts.table(u, 16);
    for (int j = 0; j < kUnit; ++j) {
      const Words bytes = bytes_at(block + 48 + 32 * (u / 2) + j * kLanes);
      const Words codes = u % 2 == 0 ? bytes : hn::ShiftRight<4>(bytes);
      const auto fifth = hn::TestBit(bytes_at(block + 16 + j * kLanes), hn::Set(U32(), 1u << u));
      v[j] = hn::IfThenElse(hn::RebindMask(F32(), fifth), with.at(codes), without.at(codes));
    }
  }
};

struct UnitsQ6K {
  static constexpr int kStep = 256;
  const Byte* block;
  alignas(64) float scale[16];

  HWY_INLINE UnitsQ6K(const Byte* stored, std::int64_t first) : block(fetched(stored + first / 256 * 210)) {
    // One int8 for each 16 elements.
    for (int i = 0; i < 16; i += kLanes) {
      hn::Store(hn::Mul(half_at(block + 208), signed_at(block + 192 + i)), F32(), scale + i);
    }
  }
  static HWY_INLINE Words upper(Words bytes, int quarter) {
    const Words at_place = quarter == 0   ? hn::ShiftLeft<4>(bytes)
                           : quarter == 1 ? hn::ShiftLeft<2>(bytes)
                           : quarter == 2 ? bytes
                                          : hn::ShiftRight<2>(bytes);
    return hn::And(at_place, hn::Set(U32(), 0x30));
  }
  HWY_INLINE void unit(int u, Floats* v) const {
    const int half = u / 4, quarter = u % 4;
    const Byte *low = block + 64 * half + 32 * (quarter % 2), *high = block + 128 + 32 * half;
    for (int j = 0; j < kUnit; ++j) {
      const Words bytes = bytes_at(low + j * kLanes);
      const Words nibbles = quarter < 2 ? hn::And(bytes, hn::Set(U32(), 15)) : hn::ShiftRight<4>(bytes);
      const Words code = hn::Or(nibbles, upper(bytes_at(high + j * kLanes), quarter));
      const Floats number = hn::ConvertTo(F32(), hn::Sub(hn::BitCast(I32(), code), hn::Set(I32(), 32)));
      v[j] = hn::Mul(hn::Set(F32(), scale[2 * u + j * kLanes / 16]), number);
    }
  }
};

// The parts of a matrix whose scales follow all codes.
struct ApartParts {
  const Byte *codes, *scales, *nested, *map;
  float offset;
  std::int64_t columns;

  ApartParts(const BlockMatrix& matrix, const std::byte* stored) {
    const BlockParts parts = block_parts(matrix);
    codes = reinterpret_cast<const Byte*>(stored);
    scales = codes + parts.scales.n, nested = codes + parts.nested_scales.n, map = codes + parts.map.n;
    offset = matrix.format == BlockFormat::nf4_nested ? read_at<float>(codes + parts.offset.n) : 0;
    columns = matrix.columns;
  }
};

// A byte holds the codes of two consecutive elements, the first in the upper half.
template <bool kNested>
struct UnitsNf4 {
  static constexpr int kStep = 64;
  const Byte* codes;
  Sixteen table;

  HWY_INLINE UnitsNf4(const ApartParts& parts, std::int64_t first)
      : codes(parts.codes + first / 2), table(Sixteen::nf4().times(hn::Set(F32(), scale_of(parts, first / kNf4Block)))) {
    hwy::Prefetch(codes + 2048);
  }
  static HWY_INLINE float scale_of(const ApartParts& parts, std::int64_t block) {
    if constexpr (!kNested) return read_at<float>(parts.scales + 4 * block);
    const float map = read_at<float>(parts.map + 4 * std::int64_t{parts.scales[block]});
    return map * read_at<float>(parts.nested + block / kNestedBlock * 4) + parts.offset;
  }
  HWY_INLINE void unit(int u, Floats* v) const {
    alignas(64) static constexpr std::uint32_t kShifts[16] = {4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8, 20, 16, 28, 24};
    const Words shifts = hn::Load(U32(), kShifts);
    for (int j = 0; j < kUnit; ++j) {
      const Byte* const from = codes + 16 * u + j * kLanes / 2;
      Words eight = hn::Set(U32(), read_at<std::uint32_t>(from));
      if constexpr (kLanes == 16) {
        eight = hn::IfThenElse(hn::FirstN(U32(), 8), eight, hn::Set(U32(), read_at<std::uint32_t>(from + 4)));
      }
      v[j] = table.at(eight >> shifts);
    }
  }
};

// The elements of a step belong to one row.
struct UnitsInt8 {
  static constexpr int kStep = 64;
  const Byte* codes;
  Floats scale;

  HWY_INLINE UnitsInt8(const ApartParts& parts, std::int64_t first)
      : codes(parts.codes + first), scale(hn::Set(F32(), read_at<float>(parts.scales + 4 * (first / parts.columns)))) {
    hwy::Prefetch(codes + 2048);
  }
  HWY_INLINE void unit(int u, Floats* v) const {
    for (int j = 0; j < kUnit; ++j) {
      v[j] = hn::Mul(hn::Mul(signed_at(codes + 32 * u + j * kLanes), scale), hn::Set(F32(), kInverse127));
    }
  }
};

#endif

// Decodes elements of a stored matrix for a consumer `Take`. take_four(place, v0, v1, v2, v3) gets four vectors of consecutive
// elements; take_rest(place, count) is called for the elements after the last whole step, which the consumer reads by itself.
class BlockReader {
 public:
  BlockReader(const StoredMatrix& matrix, const std::byte* stored)
      : matrix_(matrix),
        stored_(stored),
#if HWY_TARGET <= HWY_AVX2
        parts_(*matrix.blocks, stored),
#endif
        block_(block_elements(matrix.blocks->format)) {
  }

  // Passes elements [first, first + count) of one row to `take`; places count from 0.
  template <class Take>
  HWY_INLINE void each(std::int64_t first, std::int64_t count, Take& take) const {
    const std::int64_t done = first % block_ == 0 ? whole_steps(first, count, take) : 0;
    if (done < count) take.take_rest(done, count - done);
  }

  // Writes these elements to `out`.
  HWY_INLINE void read(std::int64_t first, std::int64_t count, float* out) const {
    Into into{this, first, out};
    each(first, count, into);
  }
  void read_slowly(std::int64_t first, std::int64_t count, float* out) const {
    read_elements(matrix_, stored_, first, {out, static_cast<std::size_t>(count)});
  }

 private:
  struct Into {
    const BlockReader* reader;
    std::int64_t first;
    float* out;

    HWY_INLINE void take_four(std::int64_t place, Floats v0, Floats v1, Floats v2, Floats v3) const {
      store(v0, out + place), store(v1, out + place + kLanes);
      store(v2, out + place + 2 * kLanes), store(v3, out + place + 3 * kLanes);
    }
    void take_rest(std::int64_t place, std::int64_t count) const { reader->read_slowly(first + place, count, out + place); }
  };

#if HWY_TARGET <= HWY_AVX2
  template <class Units, class Source, class Take>
  static HWY_INLINE std::int64_t steps(const Source& source, std::int64_t first, std::int64_t count, Take& take) {
    std::int64_t i = 0;
    for (; i + Units::kStep <= count; i += Units::kStep) {
      const Units units(source, first + i);
      for (int u = 0; u < Units::kStep / 32; u += 4 / kUnit) {
        Floats v[4];
        units.unit(u, v);
        if constexpr (kUnit == 2) units.unit(u + 1, v + 2);
        take.take_four(i + 32 * u, v[0], v[1], v[2], v[3]);
      }
    }
    return i;
  }

  template <class Take>
  HWY_INLINE std::int64_t whole_steps(std::int64_t first, std::int64_t count, Take& take) const {
    switch (matrix_.blocks->format) {
      case BlockFormat::int8: return steps<UnitsInt8>(parts_, first, count, take);
      case BlockFormat::nf4: return steps<UnitsNf4<false>>(parts_, first, count, take);
      case BlockFormat::nf4_nested: return steps<UnitsNf4<true>>(parts_, first, count, take);
      case BlockFormat::q4_0: return steps<UnitsQ4_0>(parts_.codes, first, count, take);
      case BlockFormat::q4_1: return steps<UnitsQ4_1>(parts_.codes, first, count, take);
      case BlockFormat::q5_0: return steps<UnitsQ5_0>(parts_.codes, first, count, take);
      case BlockFormat::q5_1: return steps<UnitsQ5_1>(parts_.codes, first, count, take);
      case BlockFormat::q8_0: return steps<UnitsQ8_0>(parts_.codes, first, count, take);
      case BlockFormat::q4_k: return steps<UnitsQ4K>(parts_.codes, first, count, take);
      case BlockFormat::q5_k: return steps<UnitsQ5K>(parts_.codes, first, count, take);
      case BlockFormat::q6_k: return steps<UnitsQ6K>(parts_.codes, first, count, take);
    }
    return 0;
  }
#else
  template <class Take>
  std::int64_t whole_steps(std::int64_t, std::int64_t, Take&) const {
    return 0;
  }
#endif

  const StoredMatrix& matrix_;
  const std::byte* stored_;
#if HWY_TARGET <= HWY_AVX2
  ApartParts parts_;
#endif
  std::int64_t block_;
};

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_BLOCKS_INL_H_
