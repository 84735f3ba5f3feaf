#include "device/cpu/few_rows.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/few_rows.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/blocks-inl.h"
#include "device/cpu/narrow-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_FEW_ROWS_ONCE
#define PLIMSOLL_FEW_ROWS_ONCE
namespace plimsoll::cpu::few_rows {

constexpr std::int64_t kPiece = 1024;         // elements of a row of W that are decoded at a time
constexpr std::int64_t kStrip = 512;          // columns of a W [k, n] whose sums are held at a time
constexpr std::int64_t kSteps = 4;            // rows of such a W that are added together
constexpr std::int64_t kColumnStep = 64;      // columns of its tasks are a multiple of this
constexpr std::int64_t kTaskBytes = 1 << 16;  // least bytes of W that are worth the start of a task

struct Product {
  FewRows shape;
  const float* a;
  const std::byte* w;
  const float* bias;
  float* c;
};

}  // namespace plimsoll::cpu::few_rows
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using few_rows::kPiece;
using few_rows::kSteps;
using few_rows::kStrip;
using few_rows::Product;

// Rows of A that are multiplied together: their sums fill half of the registers.
inline constexpr int kGroup = HWY_TARGET == HWY_AVX3 ? 4 : 2;
inline constexpr int kChains = 4;  // independent partial sums of a row of A, which are added at the end
inline constexpr std::int64_t kChainLanes = kChains * kLanes;

// Nested structs and not arrays, so that every sum stays in a register.
template <int M>
struct DotSums {
  Floats s0, s1, s2, s3;
  DotSums<M - 1> rest;

  HWY_INLINE void load_from(const float* sums) {
    s0 = hn::Load(F32(), sums), s1 = hn::Load(F32(), sums + kLanes);
    s2 = hn::Load(F32(), sums + 2 * kLanes), s3 = hn::Load(F32(), sums + 3 * kLanes);
    rest.load_from(sums + kChainLanes);
  }
  HWY_INLINE void store_to(float* sums) const {
    hn::Store(s0, F32(), sums), hn::Store(s1, F32(), sums + kLanes);
    hn::Store(s2, F32(), sums + 2 * kLanes), hn::Store(s3, F32(), sums + 3 * kLanes);
    rest.store_to(sums + kChainLanes);
  }
  HWY_INLINE void add(const float* a, std::int64_t stride, Floats w0, Floats w1, Floats w2, Floats w3) {
    s0 = hn::MulAdd(hn::LoadU(F32(), a), w0, s0), s1 = hn::MulAdd(hn::LoadU(F32(), a + kLanes), w1, s1);
    s2 = hn::MulAdd(hn::LoadU(F32(), a + 2 * kLanes), w2, s2), s3 = hn::MulAdd(hn::LoadU(F32(), a + 3 * kLanes), w3, s3);
    rest.add(a + stride, stride, w0, w1, w2, w3);
  }
  HWY_INLINE void add_one(const float* a, std::int64_t stride, Floats w) {
    s0 = hn::MulAdd(hn::LoadU(F32(), a), w, s0);
    rest.add_one(a + stride, stride, w);
  }
  HWY_INLINE void add_part(const float* a, std::int64_t stride, Floats w, std::int64_t count) {
    s0 = hn::MulAdd(load_part(a, count), w, s0);
    rest.add_part(a + stride, stride, w, count);
  }
};
template <>
struct DotSums<0> {
  HWY_INLINE void load_from(const float*) {}
  HWY_INLINE void store_to(float*) const {}
  HWY_INLINE void add(const float*, std::int64_t, Floats, Floats, Floats, Floats) {}
  HWY_INLINE void add_one(const float*, std::int64_t, Floats) {}
  HWY_INLINE void add_part(const float*, std::int64_t, Floats, std::int64_t) {}
};

// Adds the products of `count` elements of a row of W and of M rows of A to the sums [M][kChains][kLanes]. kFetch: prefetches W.
template <int M, bool kFetch, class T>
HWY_INLINE void dot_group(const T* HWY_RESTRICT w, std::int64_t count, const float* HWY_RESTRICT a, std::int64_t stride,
                          float* HWY_RESTRICT sums) {
  DotSums<M> s;
  s.load_from(sums);
  std::int64_t i = 0;
  for (; i + kChainLanes <= count; i += kChainLanes) {
    for (std::int64_t line = 0; kFetch && line < kChainLanes * static_cast<std::int64_t>(sizeof(T)); line += 64) {
      fetch_ahead(w + i + line / static_cast<std::int64_t>(sizeof(T)));
    }
    s.add(a + i, stride, load(w + i), load(w + i + kLanes), load(w + i + 2 * kLanes), load(w + i + 3 * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) s.add_one(a + i, stride, load(w + i));
  if (i < count) s.add_part(a + i, stride, load_part(w + i, count - i), count - i);
  s.store_to(sums);
}

template <int M, bool kFetch, class T>
HWY_INLINE void dot_rows(const T* w, std::int64_t count, const float* a, std::int64_t rows, std::int64_t stride, float* sums) {
  if constexpr (M > 0) {
    for (; rows >= M; rows -= M, a += M * stride, sums += M * kChainLanes) dot_group<M, kFetch>(w, count, a, stride, sums);
    if (rows > 0) dot_rows<M / 2, kFetch>(w, count, a, rows, stride, sums);
  }
}

HWY_INLINE void put_dots(const Product& product, std::int64_t column, const float* sums) {
  const float bias = product.bias == nullptr ? 0 : product.bias[column];
  for (std::int64_t row = 0; row < product.shape.m; ++row, sums += kChainLanes) {
    const Floats even = hn::Add(hn::Load(F32(), sums), hn::Load(F32(), sums + kLanes));
    const Floats odd = hn::Add(hn::Load(F32(), sums + 2 * kLanes), hn::Load(F32(), sums + 3 * kLanes));
    const float sum = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(even, odd)));
    product.c[row * product.shape.stride + column] = product.bias == nullptr ? sum : sum + bias;
  }
}

// Columns [begin, end) of C for a W [n, k] of numbers.
template <class T>
HWY_INLINE void dot_columns(const Product& product, std::int64_t begin, std::int64_t end) {
  const FewRows& shape = product.shape;
  alignas(64) float sums[kFewRows * kChainLanes];
  for (std::int64_t column = begin; column < end; ++column) {
    std::fill(sums, sums + shape.m * kChainLanes, 0.0F);
    dot_rows<kGroup, true>(reinterpret_cast<const T*>(product.w) + column * shape.k, shape.k, product.a, shape.m, shape.k, sums);
    put_dots(product, column, sums);
  }
}

// Multiplies decoded elements with one row of A in registers.
struct DotTaken {
  const BlockReader& reader;
  std::int64_t first;
  const float* a;
  DotSums<1> sums;

  HWY_INLINE void take_four(std::int64_t place, Floats w0, Floats w1, Floats w2, Floats w3) {
    sums.add(a + place, 0, w0, w1, w2, w3);
  }
  HWY_INLINE void take_rest(std::int64_t place, std::int64_t count) {
    alignas(64) float piece[kPiece], kept[kChainLanes];
    sums.store_to(kept);
    for (const std::int64_t end = place + count; place < end; place += kPiece) {
      const std::int64_t part = std::min(kPiece, end - place);
      reader.read_slowly(first + place, part, piece);
      dot_group<1, false>(piece, part, a + place, 0, kept);
    }
    sums.load_from(kept);
  }
};

HWY_INLINE void dot_block_columns(const Product& product, std::int64_t begin, std::int64_t end) {
  const FewRows& shape = product.shape;
  const BlockReader reader(shape.matrix, product.w);
  alignas(64) float sums[kFewRows * kChainLanes], piece[kPiece];
  for (std::int64_t column = begin; column < end; ++column) {
    std::fill(sums, sums + shape.m * kChainLanes, 0.0F);
    if (shape.m == 1) {
      DotTaken dot{reader, column * shape.k, product.a, {}};
      dot.sums.load_from(sums);
      reader.each(column * shape.k, shape.k, dot);
      dot.sums.store_to(sums);
    } else {
      for (std::int64_t at = 0; at < shape.k; at += kPiece) {
        const std::int64_t count = std::min(kPiece, shape.k - at);
        reader.read(column * shape.k + at, count, piece);
        dot_rows<kGroup, false>(piece, count, product.a + at, shape.m, shape.k, sums);
      }
    }
    put_dots(product, column, sums);
  }
}

// sums[row][column] += a[row] . w[column] over kAll rows of W, one after another. kFetch: prefetches the next rows.
template <int kAll, bool kFetch, class T>
HWY_INLINE void add_rows(const T* HWY_RESTRICT w, std::int64_t w_stride, std::int64_t columns, const float* a, std::int64_t rows,
                         std::int64_t a_stride, float* sums) {
  for (std::int64_t row = 0; row < rows; ++row, a += a_stride, sums += kStrip) {
    float* HWY_RESTRICT to = sums;
    Floats factor[kAll];
    for (int j = 0; j < kAll; ++j) factor[j] = hn::Set(F32(), a[j]);
    std::int64_t i = 0;
    for (; i + kLanes <= columns; i += kLanes) {
      Floats sum = hn::Load(F32(), to + i);
      for (int j = 0; j < kAll; ++j) {
        if (kFetch && row == 0) hwy::Prefetch(w + (kAll + j) * w_stride + i);
        sum = hn::MulAdd(factor[j], load(w + j * w_stride + i), sum);
      }
      hn::Store(sum, F32(), to + i);
    }
    if (i == columns) continue;
    Floats sum = hn::Load(F32(), to + i);
    for (int j = 0; j < kAll; ++j) sum = hn::MulAdd(factor[j], load_part(w + j * w_stride + i, columns - i), sum);
    hn::Store(sum, F32(), to + i);
  }
}

HWY_INLINE void put_sums(const Product& product, std::int64_t column, std::int64_t columns, const float* sums) {
  for (std::int64_t row = 0; row < product.shape.m; ++row, sums += kStrip) {
    float* const to = product.c + row * product.shape.stride + column;
    for (std::int64_t i = 0; i < columns; ++i) to[i] = product.bias == nullptr ? sums[i] : sums[i] + product.bias[column + i];
  }
}

// Columns [begin, end) of C for a W [k, n] of numbers.
template <class T>
HWY_INLINE void add_columns(const Product& product, std::int64_t begin, std::int64_t end) {
  const FewRows& shape = product.shape;
  alignas(64) float sums[kFewRows * kStrip];
  for (std::int64_t column = begin; column < end; column += kStrip) {
    const std::int64_t columns = std::min(kStrip, end - column);
    std::fill(sums, sums + shape.m * kStrip, 0.0F);
    const T* w = reinterpret_cast<const T*>(product.w) + column;
    std::int64_t k = 0;
    for (; k + kSteps <= shape.k; k += kSteps) {
      add_rows<kSteps, true>(w + k * shape.n, shape.n, columns, product.a + k, shape.m, shape.k, sums);
    }
    for (; k < shape.k; ++k) add_rows<1, true>(w + k * shape.n, shape.n, columns, product.a + k, shape.m, shape.k, sums);
    put_sums(product, column, columns, sums);
  }
}

HWY_INLINE void add_block_columns(const Product& product, std::int64_t begin, std::int64_t end) {
  const FewRows& shape = product.shape;
  const BlockReader reader(shape.matrix, product.w);
  alignas(64) float sums[kFewRows * kStrip], rows[kSteps * kStrip];
  for (std::int64_t column = begin; column < end; column += kStrip) {
    const std::int64_t columns = std::min(kStrip, end - column);
    std::fill(sums, sums + shape.m * kStrip, 0.0F);
    for (std::int64_t k = 0; k < shape.k; k += kSteps) {
      const std::int64_t count = std::min(kSteps, shape.k - k);
      for (std::int64_t j = 0; j < count; ++j) reader.read((k + j) * shape.n + column, columns, rows + j * kStrip);
      if (count == kSteps) {
        add_rows<kSteps, false>(rows, kStrip, columns, product.a + k, shape.m, shape.k, sums);
        continue;
      }
      for (std::int64_t j = 0; j < count; ++j) {
        add_rows<1, false>(rows + j * kStrip, kStrip, columns, product.a + k + j, shape.m, shape.k, sums);
      }
    }
    put_sums(product, column, columns, sums);
  }
}

template <class T>
HWY_INLINE void multiply_numbers(const Product& product, std::int64_t begin, std::int64_t end) {
  if (product.shape.transposed) return dot_columns<T>(product, begin, end);
  add_columns<T>(product, begin, end);
}

void multiply_columns(const Product& product, std::int64_t begin, std::int64_t end) {
  const StoredMatrix& matrix = product.shape.matrix;
  if (matrix.blocks) {
    if (product.shape.transposed) return dot_block_columns(product, begin, end);
    return add_block_columns(product, begin, end);
  }
  if (matrix.dtype == DType::bf16) return multiply_numbers<std::uint16_t>(product, begin, end);
  if (matrix.dtype == DType::f16) return multiply_numbers<F16>(product, begin, end);
  multiply_numbers<float>(product, begin, end);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(multiply_columns);

std::int64_t bytes_of(const FewRows& shape) {
  return shape.matrix.blocks ? stored_bytes(*shape.matrix.blocks).n : shape.n * shape.k * size_of(shape.matrix.dtype);
}

// The columns of a task. Each thread gets several tasks, since other processes may delay a thread. No element depends on the cut.
std::int64_t columns_of_task(const FewRows& shape, int threads) {
  const std::int64_t bytes = bytes_of(shape), tasks = std::min<std::int64_t>(8 * threads, bytes / few_rows::kTaskBytes);
  if (tasks <= 1) return bytes < few_rows::kTaskBytes / 4 ? shape.n : ceil_div(shape.n, threads);
  if (shape.transposed) return ceil_div(shape.n, tasks);
  const std::int64_t step =
      shape.matrix.blocks ? std::max(few_rows::kColumnStep, block_elements(shape.matrix.blocks->format)) : few_rows::kColumnStep;
  return std::max(round_up(ceil_div(shape.n, tasks), step),
                  std::min(few_rows::kStrip, round_up(ceil_div(shape.n, threads), step)));
}

}  // namespace

bool has_few_rows(const GemmShape& shape) {
  const bool plain = shape.batch == 1 && !shape.transpose_a && !shape.accumulate;
  return plain && shape.m <= kFewRows && shape.operands == DType::f32 && shape.result == DType::f32;
}

FewRows::FewRows(const GemmShape& shape, const StoredMatrix& stored)
    : m(shape.m), n(shape.n), k(shape.k), transposed(shape.transpose_b), matrix(stored), stride(shape.n) {}

std::string few_rows_name(const StoredMatrix& matrix) { return fmt::format("plimsoll few rows of {}", name(matrix)); }

void multiply_few_rows(const FewRows& shape, const float* a, const std::byte* w, const float* bias, float* c) {
  const few_rows::Product product{shape, a, w, bias, c};
  const std::int64_t columns = columns_of_task(shape, thread_count());
  const auto run = &HWY_DYNAMIC_DISPATCH(multiply_columns);
  parallel_for(ceil_div(shape.n, columns),
               [&](std::int64_t task) { run(product, task * columns, std::min(shape.n, (task + 1) * columns)); });
}

}  // namespace plimsoll::cpu
#endif
