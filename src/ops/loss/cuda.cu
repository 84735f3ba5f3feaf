#include "ops/loss/cuda.h"

#include <optional>
#include <string>
#include <tuple>

#include "base/hash.h"
#include "device/cuda/cublas_gemm.h"
#include "device/cuda/decode_blocks.h"
#include "device/cuda/kernels.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kRowThreads = 512;

struct LossTerms {
  float of_target, of_each, z;  // 1 - s, s / vocabulary, z
};

// The largest of the logits so far, the sum of exponentials relative to it, and their plain sum.
struct RowSums {
  float most, exponentials, plain;
};

__device__ __forceinline__ RowSums join(const RowSums& a, const RowSums& b) {
  const float most = a.most > b.most ? a.most : b.most;
  if (most == -INFINITY) return {most, a.exponentials + b.exponentials, a.plain + b.plain};
  return {most, a.exponentials * __expf(a.most - most) + b.exponentials * __expf(b.most - most), a.plain + b.plain};
}

// The state of all threads, in all threads; its order depends on the number of threads alone.
__device__ __forceinline__ RowSums join_block(RowSums mine) {
  __shared__ RowSums of_warps[kRowThreads / kWarp];
#pragma unroll
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) {
    const RowSums other{__shfl_xor_sync(kAllLanes, mine.most, mask), __shfl_xor_sync(kAllLanes, mine.exponentials, mask),
                        __shfl_xor_sync(kAllLanes, mine.plain, mask)};
    mine = join(mine, other);
  }
  if (lane_of_warp() == 0) of_warps[warp_of_block()] = mine;
  __syncthreads();
  RowSums all = of_warps[0];
  for (int i = 1; i < kRowThreads / kWarp; ++i) all = join(all, of_warps[i]);
  return all;
}

// Adds the first `count` logits of a pack to a token's state.
template <class T, int kElements>
__device__ __forceinline__ void take(RowSums& sums, const Pack<T, kElements>& pack, int count) {
  float most = sums.most;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (e < count) most = widen(pack.at[e]) > most ? widen(pack.at[e]) : most;
  }
  sums.exponentials *= sums.most == most ? 1.0f : __expf(sums.most - most);
  sums.most = most;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (e >= count) continue;
    const float value = widen(pack.at[e]);
    sums.exponentials += __expf(value - most);
    sums.plain += value;
  }
}

// Loads the first `count` elements of a pack; the others are zero.
template <class T>
__device__ __forceinline__ Pack<T> load_some(const T* from, int count) {
  Pack<T> pack{};
#pragma unroll
  for (int e = 0; e < static_cast<int>(16 / sizeof(T)); ++e) {
    if (e < count) pack.at[e] = from[e];
  }
  return pack;
}

// A block has a token. It reads the logits for the sums, and again from the cache to turn them into their gradient. Rows are
// padded to whole packs; the last may end past the vocabulary.
template <class T, bool kGradient>
__global__ void __launch_bounds__(kRowThreads)
    loss_rows_kernel(int vocab, std::int64_t row, LossTerms terms, const std::int32_t* targets, const float* inverse_units,
                     T* logits, float* losses) {
  constexpr int kElements = 16 / sizeof(T);
  const std::int64_t token = blockIdx.x;
  const std::int32_t target = targets[token];
  T* x = logits + token * row;
  const int whole = vocab / kElements, packs = (vocab + kElements - 1) / kElements;
  if (target < 0) {
    if (threadIdx.x == 0) losses[token] = 0;
    const Pack<T> zeros{};
    for (int i = static_cast<int>(threadIdx.x); kGradient && i < packs; i += kRowThreads) store_pack(zeros, x + i * kElements);
    return;
  }
  RowSums mine{-INFINITY, 0, 0};
  int i = static_cast<int>(threadIdx.x);
  for (; i < whole; i += kRowThreads) take(mine, load_pack(x + i * kElements), kElements);
  if (i < packs) take(mine, load_some(x + i * kElements, vocab - i * kElements), vocab - i * kElements);
  const float at_target = target < vocab ? widen(x[target]) : NAN;
  const RowSums all = join_block(mine);
  const float log_sum = all.most + logf(all.exponentials);
  if (threadIdx.x == 0) {
    losses[token] = log_sum - terms.of_target * at_target - terms.of_each * all.plain + terms.z * log_sum * log_sum;
  }
  if constexpr (!kGradient) return;
  const float unit = *inverse_units, scale = unit * (1 + 2 * terms.z * log_sum) / all.exponentials;
  const float of_each = unit * terms.of_each, of_target = unit * terms.of_target;
  for (i = static_cast<int>(threadIdx.x); i < packs; i += kRowThreads) {
    const Pack<T> pack = i < whole ? load_pack(x + i * kElements) : load_some(x + i * kElements, vocab - i * kElements);
    float slopes[kElements];
#pragma unroll
    for (int e = 0; e < kElements; ++e) slopes[e] = __expf(widen(pack.at[e]) - all.most) * scale - of_each;
    if (i == target / kElements || i == whole) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int at = i * kElements + e;
        slopes[e] = at >= vocab ? 0.0f : at == target ? slopes[e] - of_target : slopes[e];
      }
    }
    Pack<T> result;
#pragma unroll
    for (int e = 0; e < kElements; ++e) result.at[e] = narrow<T>(slopes[e]);
    store_pack(result, x + i * kElements);
  }
}

}  // namespace
}  // namespace cuda

namespace {

// The addresses of the operands of a tile's products.
class Loss {
 public:
  Loss(const KernelRequest& request, bool backward)
      : layout_(request),
        backward_(backward),
        adds_(backward && accumulates<ops::LossAttributes>(request)),
        attributes_(request.attributes->as<ops::LossAttributes>()),
        table_{request.inputs[1].dtype, attributes_.blocks, layout_.vocab, layout_.width},
        terms_(terms_of(attributes_, layout_.vocab)),
        whole_(products(layout_.tile)),
        last_(layout_.tokens % layout_.tile == 0 ? whole_ : products(layout_.tokens % layout_.tile)) {}

  // The algorithms of all its products.
  std::string algorithm() const {
    std::string all;
    for (const Products* products : {&whole_, &last_}) {
      all += products->logits.algorithm();
      if (!backward_) continue;
      for (const auto* gemm : {&products->dh, &products->dw, &products->first_dw}) all += *gemm ? (*gemm)->algorithm() : "";
    }
    return hash_hex(all).substr(0, 16);
  }

  void run(const KernelCall& call) const {
    if (layout_.operands == DType::bf16) return run_tiles<cuda::Bf16>(call);
    if (layout_.operands == DType::f16) return run_tiles<F16>(call);
    run_tiles<float>(call);
  }

 private:
  struct Products {
    cuda::Gemm logits;
    std::optional<cuda::Gemm> dh, dw, first_dw;  // the products for the gradients that are made
  };

  static cuda::LossTerms terms_of(const ops::LossAttributes& a, std::int64_t vocab) {
    return {static_cast<float>(1 - a.label_smoothing), static_cast<float>(a.label_smoothing / static_cast<double>(vocab)),
            static_cast<float>(a.z_loss)};
  }

  Products products(std::int64_t rows) const {
    const auto [vocab, width, row, operands] = std::tuple(layout_.vocab, layout_.width, layout_.row, layout_.operands);
    Products of_rows{
        cuda::Gemm({.m = rows, .n = vocab, .k = width, .transpose_b = true, .operands = operands, .result = operands},
                   kGemmWorkspace, {.c = row}),
        {},
        {},
        {}};
    if (!backward_) return of_rows;
    const GemmShape dh{.m = rows, .n = width, .k = vocab, .operands = operands};
    if (attributes_.h) of_rows.dh.emplace(dh, kGemmWorkspace, cuda::GemmStrides{.a = row});
    if (!attributes_.w) return of_rows;
    GemmShape dw{.m = vocab, .n = width, .k = rows, .transpose_a = true, .operands = operands};
    of_rows.first_dw.emplace(dw, kGemmWorkspace, cuda::GemmStrides{.a = row});
    dw.accumulate = true;
    of_rows.dw.emplace(dw, kGemmWorkspace, cuda::GemmStrides{.a = row});
    return of_rows;
  }

  template <class T>
  const T* table(const KernelCall& call) const {
    if (!layout_.converts_table) return call.in<T>(1);
    T* converted = reinterpret_cast<T*>(call.scratch + layout_.logits.n);
    cuda::decode(call.stream, table_, call.in<std::byte>(1), {0, table_.rows, 0, table_.columns}, layout_.operands, converted);
    return converted;
  }

  template <class T>
  void run_tiles(const KernelCall& call) const {
    const T *h = call.in<T>(0), *w = table<T>(call);
    T* logits = reinterpret_cast<T*>(call.scratch);
    std::byte* workspace = call.scratch + (layout_.logits + layout_.table).n;
    for (std::int64_t token = 0; token < layout_.tokens; token += layout_.tile) {
      const std::int64_t rows = std::min(layout_.tile, layout_.tokens - token);
      const Products& products = rows == layout_.tile ? whole_ : last_;
      const T* of_tile = h + token * layout_.width;
      products.logits.run(call.stream, of_tile, w, nullptr, logits, workspace);
      const auto kernel = backward_ ? cuda::loss_rows_kernel<T, true> : cuda::loss_rows_kernel<T, false>;
      cuda::launch(kernel, {{static_cast<unsigned>(rows)}, {cuda::kRowThreads}}, call.stream, static_cast<int>(layout_.vocab),
                   layout_.row, terms_, call.in<std::int32_t>(2) + token, call.in(3), logits, call.out(0) + token);
      if (!backward_) continue;
      if (products.dh) products.dh->run(call.stream, logits, w, nullptr, call.out(1) + token * layout_.width, workspace);
      const std::optional<cuda::Gemm>& dw = token == 0 && !adds_ ? products.first_dw : products.dw;
      if (dw) dw->run(call.stream, logits, of_tile, nullptr, call.out(attributes_.of_w()), workspace);
    }
  }

  CudaLossLayout layout_;
  bool backward_, adds_;
  ops::LossAttributes attributes_;
  cuda::FrozenMatrix table_;
  cuda::LossTerms terms_;
  Products whole_, last_;
};

template <bool kBackward>
std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const Loss loss(request, kBackward);
  return make_kernel([loss](const KernelCall& call) { loss.run(call); }, loss.algorithm());
}

}  // namespace

CudaKernels loss_cuda_kernels() {
  return {{&ops::kLinearCrossEntropy, bind<false>}, {&ops::kLinearCrossEntropyBackward, bind<true>}};
}

}  // namespace plimsoll
