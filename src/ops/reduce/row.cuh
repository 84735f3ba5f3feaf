// A row that the threads of a warp or of a block share, of fp32 or of a type that is widened to it. A row that fits into their
// registers is read once for any number of passes; any other row is read again in each pass, mostly from the cache.
#pragma once

#include <type_traits>

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

template <int kElements>
__device__ __forceinline__ void add_elements(const Pack<float, kElements>& more, Pack<float, kElements>& sum) {
#pragma unroll
  for (int e = 0; e < kElements; ++e) sum.at[e] += more.at[e];
}

// Elements of memory as fp32, and back.
template <int kElements, class T>
__device__ __forceinline__ Pack<float, kElements> load_floats(const T* from) {
  const Pack<T, kElements> pack = load_pack<kElements>(from);
  Pack<float, kElements> floats;
#pragma unroll
  for (int e = 0; e < kElements; ++e) floats.at[e] = widen(pack.at[e]);
  return floats;
}
template <class T, int kElements>
__device__ __forceinline__ void store_floats(const Pack<float, kElements>& floats, T* to) {
  Pack<T, kElements> pack;
#pragma unroll
  for (int e = 0; e < kElements; ++e) pack.at[e] = narrow<T>(floats.at[e]);
  store_pack(pack, to);
}

// Calls use(i, load(i)) for i = begin, begin + step ... below end, in this order, with kAhead loads in flight.
template <int kAhead, class Index, class Load, class Use>
__device__ __forceinline__ void load_ahead(Index begin, Index end, Index step, Load load, Use use) {
#pragma unroll 1
  for (Index first = begin; first < end; first += kAhead * step) {
    decltype(load(first)) ahead[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k * step < end) ahead[k] = load(first + k * step);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k * step < end) use(first + k * step, ahead[k]);
    }
  }
}

template <int kWarpsOfRow>
struct RowThreads {
  static constexpr int kWarps = kWarpsOfRow, kThreads = kWarps * kWarp;
  static constexpr int kBlock = kWarps == 1 ? 128 : kThreads;  // threads: of several rows, or of one
  static constexpr int kAtOnce = kBlock / kThreads;
};

// A row in registers, of up to kWarps * 32 * kPacks * 4 numbers, a multiple of 4.
template <int kWarpsOfRow, int kPacks>
class HeldRow : public RowThreads<kWarpsOfRow> {
 public:
  static constexpr bool kHeld = true;
  static constexpr int kElements = 4;

  template <class T>
  __device__ __forceinline__ HeldRow(const T* x, std::int64_t width) {
    for_each(width, [&](int p, int column) { at_[p] = load_floats<kElements>(x + column); });
  }

  // Calls f(p, column) for each pack of the thread, with its first column.
  template <class F>
  static __device__ __forceinline__ void for_each(std::int64_t width, F f) {
    const int thread = static_cast<int>(threadIdx.x) % HeldRow::kThreads, end = static_cast<int>(width);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = (p * HeldRow::kThreads + thread) * kElements;
      if (column < end) f(p, column);
    }
  }
  __device__ __forceinline__ const Pack<float, kElements>& at(int p, std::int64_t) const { return at_[p]; }
  __device__ __forceinline__ void set(int p, const Pack<float, kElements>& pack) { at_[p] = pack; }

 private:
  Pack<float, kElements> at_[kPacks];
};

// A row in memory, of any width that is a multiple of kElementsOfPack.
template <int kWarpsOfRow, int kElementsOfPack = 1, class T = float>
class PassedRow : public RowThreads<kWarpsOfRow> {
 public:
  static constexpr bool kHeld = false;
  static constexpr int kElements = kElementsOfPack;

  __device__ __forceinline__ PassedRow(const T* x, std::int64_t) : x_(x) {}

  template <class F>
  static __device__ __forceinline__ void for_each(std::int64_t width, F f) {
#pragma unroll 4
    for (std::int64_t column = threadIdx.x % PassedRow::kThreads * kElements; column < width;
         column += PassedRow::kThreads * kElements) {
      f(0, column);
    }
  }
  __device__ __forceinline__ Pack<float, kElements> at(int, std::int64_t column) const {
    return load_floats<kElements>(x_ + column);
  }

 private:
  const T* x_;
};

// The sum over the threads of a row, in all of them.
template <class Row, class T>
__device__ __forceinline__ T sum_of_threads(T value) {
  if constexpr (Row::kWarps == 1) return warp_sum(value);
  return block_sum(value);
}

// The sum of f(element) over a row, in all of its threads.
template <class Row, class F>
__device__ __forceinline__ auto sum_over(std::int64_t width, const Row& x, F f) {
  decltype(f(0.0f)) sum = 0;
  Row::for_each(width, [&](int p, std::int64_t column) {
    const Pack<float, Row::kElements> pack = x.at(p, column);
#pragma unroll
    for (int e = 0; e < Row::kElements; ++e) sum += f(pack.at[e]);
  });
  return sum_of_threads<Row>(sum);
}

template <class Row>
__device__ __forceinline__ float max_over(std::int64_t width, const Row& x) {
  float most = -INFINITY;
  Row::for_each(width, [&](int p, std::int64_t column) {
    const Pack<float, Row::kElements> pack = x.at(p, column);
#pragma unroll
    for (int e = 0; e < Row::kElements; ++e) most = pack.at[e] > most ? pack.at[e] : most;
  });
  if constexpr (Row::kWarps == 1) return warp_max(most);
  return block_max(most);
}

template <class Row, class F>
__device__ __forceinline__ void for_rows(std::int64_t rows, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * Row::kAtOnce;
  for (std::int64_t row = blockIdx.x * Row::kAtOnce + threadIdx.x / Row::kThreads; row < rows; row += step) f(row);
}

template <class Row>
Grid grid_of_rows(std::int64_t rows) {
  return grid_over(rows, Row::kBlock, Row::kAtOnce);
}

// Calls f with the std::type_identity of the row type for a width: that of a warp if a warp has room for the row. T: the type of
// the elements.
template <class T = float, class F>
auto with_row(std::int64_t width, F f) {
  const bool held = width % 4 == 0 && width <= 8192;
  if (!held && width <= 1024) return f(std::type_identity<PassedRow<1, 1, T>>{});
  if (!held) return f(std::type_identity<PassedRow<8, 1, T>>{});
  if (width <= 256) return f(std::type_identity<HeldRow<1, 2>>{});
  if (width <= 512) return f(std::type_identity<HeldRow<1, 4>>{});
  if (width <= 768) return f(std::type_identity<HeldRow<1, 6>>{});
  if (width <= 1024) return f(std::type_identity<HeldRow<1, 8>>{});
  if (width <= 1664) return f(std::type_identity<HeldRow<1, 13>>{});
  if (width <= 4096) return f(std::type_identity<HeldRow<8, 4>>{});
  return f(std::type_identity<HeldRow<16, 4>>{});
}

}  // namespace plimsoll::cuda
