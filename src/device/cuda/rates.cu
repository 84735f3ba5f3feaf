#include "device/cuda/rates.h"

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "device/arena.h"
#include "device/cuda/cublas_gemm.h"
#include "device/cuda/kernels.cuh"
#include "device/cuda/runtime.h"

#ifdef __CUDACC__
#include <cublasLt.h>
#endif

namespace plimsoll::cuda {
namespace {

#ifdef __CUDACC__
constexpr std::int64_t kProduct = 8192, kElements = 1 << 28, kPinned = 1 << 28;
#else
constexpr std::int64_t kProduct = 8, kElements = 1 << 10, kPinned = 1 << 12;
#endif
constexpr Bytes kWorkspace{32 << 20};
constexpr int kThreads = 256, kRounds = 5;

__global__ void __launch_bounds__(kThreads) copy_kernel(std::int64_t packs, const float* from, float* to) {
  for (std::int64_t i = thread_of_grid(); i < packs; i += threads_of_grid()) store_pack(load_pack(from + 4 * i), to + 4 * i);
}

// As an update: three streams in, two of them out again.
__global__ void __launch_bounds__(kThreads) pass_kernel(std::int64_t packs, const float* g, float* m, float* w) {
  for (std::int64_t i = thread_of_grid(); i < packs; i += threads_of_grid()) {
    const Pack<float> gradient = load_pack(g + 4 * i);
    Pack<float> moment = load_pack(m + 4 * i), weight = load_pack(w + 4 * i);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      moment.at[e] = 0.9f * moment.at[e] + 0.1f * gradient.at[e];
      weight.at[e] -= 1e-3f * moment.at[e];
    }
    store_pack(moment, m + 4 * i);
    store_pack(weight, w + 4 * i);
  }
}

__global__ void nothing_kernel(std::int64_t) {}

// Words whose halves, and which themselves, are floats between 1/4 and 2, of either sign.
__global__ void __launch_bounds__(kThreads) fill_kernel(std::int64_t words, std::uint32_t* to) {
  for (std::int64_t i = thread_of_grid(); i < words; i += threads_of_grid()) {
    const PhiloxWords drawn = philox4x32({1, 2}, {static_cast<std::uint32_t>(i), 0, 0, 0});
    to[i] = (drawn[0] & 0x80FF80FFu) | 0x3F003F00u;
  }
}

// The least of a few rounds behind one that warms up.
double seconds_of(const Stream& stream, const std::function<void()>& work) {
  double least = 0;
  for (int round = 0; round <= kRounds; ++round) {
    stream.synchronize();
    const double begin = seconds_now();
    work();
    stream.synchronize();
    const double taken = seconds_now() - begin;
    if (round > 0) least = round == 1 ? taken : std::min(least, taken);
  }
  return std::max(least, 1e-9);
}

class Products {
 public:
  explicit Products(DType operands)
      : gemm_({.m = kProduct, .n = kProduct, .k = kProduct, .operands = operands, .result = operands}, kWorkspace),
        memory_(Bytes{3 * kMatrix} + kWorkspace) {
    // Zeros would take less power than numbers do, and run faster.
    launch(fill_kernel, grid_over(kMatrix, kThreads, 4 * kThreads), nullptr, 2 * kMatrix / 4,
           reinterpret_cast<std::uint32_t*>(memory_.data()));
    synchronize_device();
  }

  void run(const Stream& stream) const {
    std::byte* const a = memory_.data();
    gemm_.run(stream.handle(), a, a + kMatrix, nullptr, a + 2 * kMatrix, a + 3 * kMatrix);
  }
  static double flops() { return 2.0 * kProduct * kProduct * kProduct; }

 private:
  static constexpr std::int64_t kMatrix = (kProduct * kProduct * 4 + 255) / 256 * 256;
  Gemm gemm_;
  DeviceMemory memory_;
};

void measure_products(Rates& rates) {
  const Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Products products(dtype);
    (dtype == DType::f32 ? rates.fp32_flops : rates.bf16_flops) =
        Products::flops() / seconds_of(stream, [&] { products.run(stream); });
  }
}

void measure_passes(Rates& rates) {
  constexpr std::int64_t kPacks = kElements / 4;
  const Stream stream;
  const DeviceMemory memory(Bytes{3 * 4 * kElements});
  auto* const floats = reinterpret_cast<float*>(memory.data());
  const Grid grid = grid_over(kPacks, kThreads, kThreads);
  rates.copy_bytes = 8.0 * kElements /
                     seconds_of(stream, [&] { launch(copy_kernel, grid, stream.handle(), kPacks, floats, floats + kElements); });
  rates.pass_bytes = 20.0 * kElements / seconds_of(stream, [&] {
                       launch(pass_kernel, grid, stream.handle(), kPacks, floats, floats + kElements, floats + 2 * kElements);
                     });
}

void measure_launches(Rates& rates) {
  constexpr int kLaunches = 1000;
  const Stream stream;
  launch(nothing_kernel, Grid{{1}, {kWarp}}, stream.handle(), 0);
  stream.synchronize();
  const Bytes before = process_memory();
  const Graph graph(stream, [&] {
    for (int i = 0; i < kLaunches; ++i) launch(nothing_kernel, Grid{{1}, {kWarp}}, stream.handle(), 0);
  });
  stream.synchronize();
  rates.graph_node = Bytes{(process_memory() - before).n / kLaunches};
  rates.launch_seconds = seconds_of(stream, [&] { graph.launch(stream); }) / kLaunches;
}

void measure_link(Rates& rates) {
  const Arena held(Bytes{2 * kPinned});
  const PinnedMemory pinned(held.all());
  const DeviceMemory memory(Bytes{2 * kPinned});
  const Products products(DType::bf16);
  const Stream compute, in, out;
  const auto bring = [&] { in.copy(memory.data(), held.base(), kPinned); };
  const auto take = [&] { out.copy(held.base() + kPinned, memory.data() + kPinned, kPinned); };
  rates.in_alone_bytes = kPinned / seconds_of(in, bring);
  rates.out_alone_bytes = kPinned / seconds_of(out, take);
  // So many products that all copies are over before them.
  const double one = seconds_of(compute, [&] { products.run(compute); });
  const double both = kPinned / std::min(rates.in_alone_bytes, rates.out_alone_bytes);
  const int beside = std::clamp(static_cast<int>(8 * both / one), 1, 10'000);
  const auto while_computing = [&](const Stream& timed, const auto& move, const auto& other) {
    double least = 0;
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < beside; ++i) products.run(compute);
      other(), other();
      TimedEvent begin, end;
      begin.record(timed);
      move();
      end.record(timed);
      const double taken = std::max(end.seconds_since(begin), 1e-9);
      least = round == 0 ? taken : std::min(least, taken);
      synchronize_device();
    }
    return kPinned / least;
  };
  rates.in_bytes = while_computing(in, bring, take);
  rates.out_bytes = while_computing(out, take, bring);
}

}  // namespace

Rates measure_rates() {
  Rates rates;
  measure_products(rates);
  measure_passes(rates);
  measure_launches(rates);
  measure_link(rates);
  synchronize_device();
  rates.outside = process_memory();
  return rates;
}

void try_product() {
  constexpr std::int64_t kSmall = 64;
  const Gemm gemm({.m = kSmall, .n = kSmall, .k = kSmall}, kWorkspace);
  const DeviceMemory memory(Bytes{3 * kSmall * kSmall * 4} + kWorkspace);
  std::byte* const a = memory.data();
  const Stream stream;
  gemm.run(stream.handle(), a, a + kSmall * kSmall * 4, nullptr, a + 2 * kSmall * kSmall * 4, a + 3 * kSmall * kSmall * 4);
  stream.synchronize();
}

std::string products_library() {
#ifdef __CUDACC__
  const std::size_t version = cublasLtGetVersion();  // 130100: 13.1.0
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
#else
  return "emulated products";
#endif
}

}  // namespace plimsoll::cuda
