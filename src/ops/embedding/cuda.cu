#include "ops/embedding/cuda.h"

#include <type_traits>

#include "device/cuda/decode_blocks.h"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/map.cuh"
#include "ops/embedding/token_gradient.cuh"
#include "ops/embedding/token_slots.cuh"
#include "ops/update/tile_sums.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct Lookup {
  std::int64_t all, tokens, width;  // positions of the batch, and of a sample
  TableRange rows;
  const std::int32_t *which,
      *given;  // by position of the batch: row of the table; row of the learned positions, null: the place in the sample

  __device__ __forceinline__ std::int64_t position(std::int64_t i) const { return given == nullptr ? i % tokens : given[i]; }
};

struct NoPositions {};

// A warp computes a position of the batch. P: the type of learned positions, or NoPositions.
template <int kElements, class T, class P>
__global__ void __launch_bounds__(kTableThreads) embedding_kernel(Lookup look, const T* table, const P* positions, float* out) {
  constexpr bool kPositions = !std::is_same_v<P, NoPositions>;
  struct Both {
    Pack<T, kElements> entry;
    Pack<std::conditional_t<kPositions, P, float>, kPositions ? kElements : 1> position;
  };
  for_items_of_warps(look.all, [&](std::int64_t i) {
    const std::int32_t token = look.which[i];
    if (!look.rows.contains(token)) return;
    const T* entry = table + (token - look.rows.begin) * look.width;
    [[maybe_unused]] std::int64_t position = 0;
    if constexpr (kPositions) position = look.position(i) * look.width;
    load_ahead<4>(
        static_cast<std::int64_t>(lane_of_warp() * kElements), look.width, std::int64_t{kWarp * kElements},
        [&](std::int64_t column) {
          Both both;
          both.entry = load_pack<kElements>(entry + column);
          if constexpr (kPositions) both.position = load_pack<kElements>(positions + position + column);
          return both;
        },
        [&](std::int64_t column, const Both& both) {
          Pack<float, kElements> sum;
#pragma unroll
          for (int e = 0; e < kElements; ++e) {
            sum.at[e] = widen(both.entry.at[e]);
            if constexpr (kPositions) sum.at[e] += widen(both.position.at[e]);
          }
          store_pack(sum, out + i * look.width + column);
        });
  });
}

// A thread adds up its elements of all samples. Elements past the sequence get zero.
template <int kElements>
__global__ void __launch_bounds__(kTableThreads)
    position_gradient_kernel(std::int64_t batch, std::int64_t sample, std::int64_t all, bool add, const float* dy, float* sums) {
  for_items(all / kElements, [&](std::int64_t pack) {
    const std::int64_t i = pack * kElements;
    Pack<float, kElements> sum{};
    if (i < sample) {
      load_ahead<4>(
          std::int64_t{0}, batch, std::int64_t{1}, [&](std::int64_t b) { return load_pack<kElements>(dy + b * sample + i); },
          [&](std::int64_t, const Pack<float, kElements>& more) { add_elements(more, sum); });
    }
    if (add) add_elements(load_pack<kElements>(sums + i), sum);
    store_pack(sum, sums + i);
  });
}

// The elements [begin, end) of a table; `sum` points to the first. A warp has a row; the range may begin or end within it.
template <int kElements>
__global__ void __launch_bounds__(kTableThreads) add_rows_kernel(std::int64_t begin, std::int64_t end, std::int64_t width,
                                                                 const float* rows, const std::int32_t* map, float* sum) {
  struct Both {
    Pack<float, kElements> sum, more;
  };
  const std::int64_t first = begin / width, last = (end + width - 1) / width;
  for_items_of_warps(last - first, [&](std::int64_t item) {
    const std::int64_t row = first + item;
    const std::int32_t slot = map[row];
    if (slot == 0) return;
    const std::int64_t left = begin > row * width ? begin : row * width;
    const std::int64_t right = end < (row + 1) * width ? end : (row + 1) * width;
    const std::int64_t apart = (slot - 1 - row) * width;
    load_ahead<4>(
        left + lane_of_warp() * kElements, right, std::int64_t{kWarp * kElements},
        [&](std::int64_t i) {
          return Both{load_pack<kElements>(sum + (i - begin)), load_pack<kElements>(rows + (i + apart))};
        },
        [&](std::int64_t i, Both& both) {
          add_elements(both.more, both.sum);
          store_pack(both.sum, sum + (i - begin));
        });
  });
}

// A table with rows, from element `begin` of the table on. Without a map, `rows` points to the elements for those of `table`.
struct WithRows {
  std::int64_t begin, width;
  const float *table, *rows;
  const std::int32_t* map;

  __device__ __forceinline__ float at(std::int64_t i) const {
    if (map == nullptr) return table[i] + rows[i];
    const std::int64_t row = (begin + i) / width;
    const std::int32_t slot = map[row];
    return slot == 0 ? table[i] : table[i] + rows[(slot - 1) * width + (begin + i - row * width)];
  }
};

__global__ void __launch_bounds__(kTileThreads) squares_with_rows_kernel(std::int64_t n, WithRows sums, Sums<1>* of_tiles) {
  const std::int64_t tile = blockIdx.x * kCudaSquaresTile, end = tile + kCudaSquaresTile < n ? tile + kCudaSquaresTile : n;
  double sum[1]{};
  for (std::int64_t i = tile + threadIdx.x; i < end; i += kTileThreads) {
    const double value = sums.at(i);
    sum[0] = fma(value, value, sum[0]);
  }
  const Sums<1> all = sums_of_block<1>(sum);
  if (threadIdx.x == 0) of_tiles[blockIdx.x] = all;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace
}  // namespace cuda

namespace {

constexpr std::int64_t kPack = 4;  // elements of a lane where a row is a multiple of them

cuda::TableRange rows_of(const NodeRange& range, std::int64_t all, std::int64_t width) {
  if (range.whole()) return {0, all};
  return {range.begin / width, range.elements / width};
}

// Calls f with a number of the table's type.
template <class F>
auto with_type(DType dtype, F f) {
  return dtype == DType::bf16 ? f(cuda::Bf16{}) : f(0.0f);
}

template <class T, class P>
std::unique_ptr<Kernel> bind_tables(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const std::int64_t all = request.inputs[1].shape[0], tokens = y[1], width = y[2];
  const bool learned = request.inputs.size() > 2, given = request.inputs.size() > 3;
  const auto kernel = width % kPack == 0 ? cuda::embedding_kernel<kPack, T, P> : cuda::embedding_kernel<1, T, P>;
  return make_kernel([=, positions = y[0] * y[1]](const KernelCall& call) {
    const cuda::Lookup look{positions,
                            tokens,
                            width,
                            rows_of(call.range, all, width),
                            call.in<std::int32_t>(0),
                            given ? call.in<std::int32_t>(3) : nullptr};
    cuda::launch(kernel, cuda::table_grid_of_warps(positions), call.stream, look, call.in<T>(1),
                 learned ? call.in<P>(2) : nullptr, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_blocks(const KernelRequest& request, const BlockMatrix& blocks) {
  const cuda::FrozenMatrix table{request.inputs[1].dtype, blocks, blocks.rows, blocks.columns};
  return make_kernel([table, tokens = request.inputs[0].shape.elements()](const KernelCall& call) {
    cuda::decode_rows(call.stream, table, call.in<std::byte>(1), call.in<std::int32_t>(0), tokens, call.out(0));
  });
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  if (const auto& blocks = request.attributes->as<ops::EmbeddingAttributes>().blocks) return bind_blocks(request, *blocks);
  return with_type(request.inputs[1].dtype, [&]<class T>(T) {
    if (request.inputs.size() == 2) return bind_tables<T, cuda::NoPositions>(request);
    return with_type(request.inputs[2].dtype, [&]<class P>(P) { return bind_tables<T, P>(request); });
  });
}

std::unique_ptr<Kernel> bind_tokens(const KernelRequest& request) {
  const bool add = accumulates<ops::EmbeddingBackwardAttributes>(request);
  return make_kernel([layout = CudaTokenGradientLayout(request), add](const KernelCall& call) {
    const cuda::TokenLists lists(layout, rows_of(call.range, layout.rows, layout.width), add, call);
    if (layout.width % kPack == 0) return cuda::add_tokens<kPack>(lists, call.stream);
    cuda::add_tokens<1>(lists, call.stream);
  });
}

std::unique_ptr<Kernel> bind_positions(const KernelRequest& request) {
  const Shape& dy = request.inputs[0].shape;
  const bool add = accumulates<ops::EmbeddingBackwardAttributes>(request);
  const std::int64_t batch = dy[0], sample = dy[1] * dy[2];
  const std::int64_t all = add ? sample : request.attributes->as<ops::EmbeddingBackwardAttributes>().rows * dy[2];
  const bool packs = dy[2] % kPack == 0;
  const auto kernel = packs ? cuda::position_gradient_kernel<kPack> : cuda::position_gradient_kernel<1>;
  return make_kernel([=](const KernelCall& call) {
    cuda::launch(kernel, cuda::table_grid(packs ? all / kPack : all), call.stream, batch, sample, all, add, call.in(0),
                 call.out(0));
  });
}

std::unique_ptr<Kernel> bind_slots(const KernelRequest& request) {
  const std::int64_t tokens = request.inputs[0].shape.elements(), rows = request.inputs[1].shape.elements() - 1;
  const auto attributes = request.attributes->as<ops::TokenSlotsAttributes>();
  return make_kernel(
      [tokens, rows, slots = attributes.slots, padding = attributes.padding, begins = request.overwrite](const KernelCall& call) {
        cuda::give_slots({tokens, rows, slots, padding, call.in<std::int32_t>(0), reinterpret_cast<std::int32_t*>(call.scratch),
                          call.out<std::int32_t>(1), call.out<std::int32_t>(0)},
                         begins, call.stream);
      });
}

// Ranges may begin anywhere, also within a row.
void add_slots(const KernelCall& call, std::int64_t begin, std::int64_t end, std::int64_t width) {
  const bool packs = width % kPack == 0 && begin % kPack == 0 && end % kPack == 0 && cuda::begins_a_pack<kPack>(call.out(0));
  cuda::launch(packs ? cuda::add_rows_kernel<kPack> : cuda::add_rows_kernel<1>,
               cuda::table_grid_of_warps((end + width - 1) / width - begin / width), call.stream, begin, end, width, call.in(1),
               call.in<std::int32_t>(2), call.out(0));
}

std::unique_ptr<Kernel> bind_add_rows(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const bool slots = request.attributes->as<ops::AddRowsAttributes>().slots;
  return make_kernel([all = shape.elements(), width = shape.last(), slots](const KernelCall& call) {
    const std::int64_t begin = call.range.begin, count = call.range.whole() ? all : call.range.elements;
    if (slots) return add_slots(call, begin, begin + count, width);
    cuda::map(count, cuda::Sum{}, call.stream, call.out(0), call.in(0), call.in(1));
  });
}

std::unique_ptr<Kernel> bind_squares(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const bool slots = request.attributes->as<ops::AddRowsAttributes>().slots;
  return make_kernel(
      [sums = cuda::TileSums<1>(shape.elements(), kCudaSquaresTile), width = shape.last(), slots](const KernelCall& call) {
        const cuda::WithRows table{call.range.begin, width, call.in(0), call.in(1), slots ? call.in<std::int32_t>(2) : nullptr};
        cuda::launch(cuda::squares_with_rows_kernel, sums.grid(call), call.stream, sums.count(call), table,
                     sums.of_tiles(call, call.scratch, call.out<double>(0)));
        sums.add(call, call.scratch, call.out<double>(0));
      });
}

}  // namespace

CudaKernels embedding_cuda_kernels() {
  return {{&ops::kEmbedding, bind},        {&ops::kTokenGradient, bind_tokens}, {&ops::kPositionGradient, bind_positions},
          {&ops::kTokenSlots, bind_slots}, {&ops::kAddRows, bind_add_rows},     {&ops::kSquaresWithRows, bind_squares}};
}

}  // namespace plimsoll
