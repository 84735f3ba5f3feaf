// The kernel that decodes rows of a frozen matrix. A warp has a segment of a row; a lane takes eight elements at once where rows
// and columns are multiples of eight, as they are in all GGUF formats.
#pragma once

#include "device/cuda/decode_blocks.cuh"

namespace plimsoll::cuda {

inline constexpr int kDecodeThreads = 256;

struct DecodedRows {
  const std::int32_t* which;  // the rows; null: all from `row` on
  std::int64_t all;           // rows of the matrix
  std::int64_t row, rows, column, columns;
  std::int64_t width;  // columns of the matrix

  __device__ __forceinline__ std::int64_t at(std::int64_t i) const { return which == nullptr ? row + i : which[i]; }
  template <int kElements>
  bool in_packs() const {
    return column % kElements == 0 && columns % kElements == 0 && width % kElements == 0;
  }
};

// Columns of a warp.
template <int kElements>
inline constexpr std::int64_t kDecodeSegment = std::int64_t{4} * kWarp* kElements;

// Two elements of 16 bits, as narrow<T> rounds them.
template <class T>
__device__ __forceinline__ std::uint32_t narrow_word(float low, float high) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
#else
  return static_cast<std::uint32_t>(narrow<T>(low)) | static_cast<std::uint32_t>(narrow<T>(high)) << 16;
#endif
}

__device__ __forceinline__ void store_words(const std::uint32_t* words, void* to) {
#ifdef __CUDA_ARCH__
  __stwb(static_cast<uint4*>(to), make_uint4(words[0], words[1], words[2], words[3]));
#else
  std::memcpy(to, words, 16);
#endif
}

// Stores one element, or eight as words of 32 bits. nvcc would store the elements of a pack, or the words, one by one.
template <class T, int kElements>
__device__ __forceinline__ void store_elements(const float (&elements)[kElements], T* to) {
  if constexpr (kElements == 1) {
    *to = narrow<T>(elements[0]);
  } else {
    constexpr int kOfWord = 4 / sizeof(T), kWords = kElements / kOfWord;
    std::uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kOfWord == 1) std::memcpy(&words[i], &elements[i], 4);
      if constexpr (kOfWord == 2) words[i] = narrow_word<T>(elements[2 * i], elements[2 * i + 1]);
    }
#pragma unroll
    for (int i = 0; i < kWords; i += 4) store_words(words + i, to + i * kOfWord);
  }
}

template <class Decoder, int kElements, class T>
__global__ void __launch_bounds__(kDecodeThreads) decode_kernel(StoredParts parts, DecodedRows rows, T* out) {
  __shared__ float table[16];
  if constexpr (Decoder::kTable) {
    if (threadIdx.x < 16) table[threadIdx.x] = nf4_number(threadIdx.x);
    __syncthreads();
  }
  const std::int64_t begin = blockIdx.y * kDecodeSegment<kElements> + lane_of_warp() * kElements,
                     end = (blockIdx.y + std::int64_t{1}) * kDecodeSegment<kElements>;
  for (std::int64_t i = thread_of_grid() / kWarp; i < rows.rows; i += threads_of_grid() / kWarp) {
    const std::int64_t row = rows.at(i), first = row * rows.width + rows.column;
    if (row < 0 || row >= rows.all) continue;
    for (std::int64_t column = begin; column < end && column < rows.columns; column += kWarp * kElements) {
      float elements[kElements];
      Decoder::template decode<kElements>(parts, {row, first + column}, table, elements);
      store_elements(elements, out + i * rows.columns + column);
    }
  }
}

template <class Decoder, class T>
void launch_decoder(void* stream, const StoredParts& parts, const DecodedRows& rows, T* out) {
  const auto go = [&]<int kElements>(std::integral_constant<int, kElements>) {
    Grid grid = grid_over(rows.rows, kDecodeThreads, kDecodeThreads / kWarp);
    grid.blocks.y = static_cast<unsigned>(ceil_div(rows.columns, kDecodeSegment<kElements>));
    launch(decode_kernel<Decoder, kElements, T>, grid, stream, parts, rows, out);
  };
  if (rows.template in_packs<8>()) return go(std::integral_constant<int, 8>{});
  if constexpr (Decoder::kSingle) return go(std::integral_constant<int, 1>{});
  throw internal_error("decode", "rows that are no whole blocks");
}

}  // namespace plimsoll::cuda
