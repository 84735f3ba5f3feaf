#include "device/cuda/rates.h"

#include <algorithm>
#include <functional>

#include "base/ceil_div.h"
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
constexpr std::int64_t kProduct = 8192, kTried = 1024, kElements = 1 << 28, kPinned = 1 << 28;
constexpr int kLaunches = 20'000;
#else
constexpr std::int64_t kProduct = 8, kTried = 4, kElements = 1 << 10, kPinned = 1 << 12;
constexpr int kLaunches = 20;
#endif
constexpr Bytes kWorkspace{32 << 20};
constexpr int kThreads = 256, kRounds = 5;

__global__ void __launch_bounds__(kThreads) copy_kernel(std::int64_t packs, const float* from, float* to) {
  for (std::int64_t i = thread_of_grid(); i < packs; i += threads_of_grid()) store_pack(load_pack(from + 4 * i), to + 4 * i);
}

// Traffic like an update's: three arrays are read and two of them written.
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

// The size of the largest parameters of our kernels.
struct Parameters {
  std::uint64_t words[32];
};
__global__ void nothing_kernel(Parameters) {}

// Writes words that are numbers between 1/4 and 2 of either sign, both as fp32 and as two bf16 halves.
__global__ void __launch_bounds__(kThreads) fill_kernel(std::int64_t words, std::uint32_t* to) {
  for (std::int64_t i = thread_of_grid(); i < words; i += threads_of_grid()) {
    const PhiloxWords drawn = philox4x32({1, 2}, {static_cast<std::uint32_t>(i), 0, 0, 0});
    to[i] = (drawn[0] & 0x80FF80FFu) | 0x3F003F00u;
  }
}

// The least seconds of a few rounds after a warm-up.
double seconds_of(const Stream& stream, const std::function<void()>& work) {
  double least = 0;
  for (int round = 0; round <= kRounds; ++round) {
    TimedEvent begin, end;
    begin.record(stream);
    work();
    end.record(stream);
    const double taken = end.seconds_since(begin);
    if (round > 0) least = round == 1 ? taken : std::min(least, taken);
  }
  return std::max(least, 1e-9);
}

class Products {
 public:
  explicit Products(DType operands)
      : gemm_({.m = kProduct, .n = kProduct, .k = kProduct, .operands = operands, .result = operands}, kWorkspace),
        memory_(Bytes{3 * kMatrix} + kWorkspace) {
    // Products of zeros take less power and run faster.
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
  constexpr Bytes kLeastNode{512};  // lower bound, if the driver puts all nodes into memory that it already held
  const Stream stream;
  const auto nothing = [&] { launch(nothing_kernel, Grid{{1}, {kWarp}}, stream.handle(), Parameters{}); };
  nothing();
  stream.synchronize();
  const Bytes before = process_memory();
  const Graph graph(stream, [&] {
    for (int i = 0; i < kLaunches; ++i) nothing();
  });
  stream.synchronize();
  rates.graph_node = std::max(kLeastNode, Bytes{ceil_div((process_memory() - before).n, std::int64_t{kLaunches})});
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
  // Enough products to outlast all copies.
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
  synchronize_device();
  rates.outside = process_memory();  // before the graph, whose memory the driver keeps
  measure_launches(rates);
  measure_link(rates);
  return rates;
}

void try_products() {
  constexpr std::int64_t kMatrix = (kTried * kTried * 4 + 255) / 256 * 256;
  const DeviceMemory memory(Bytes{3 * kMatrix} + kWorkspace);
  std::byte* const a = memory.data();
  const Stream stream;
  const auto run = [&](const GemmShape& shape) {
    const Gemm gemm(shape, kWorkspace);
    const auto once = [&] {
      gemm.run(stream.handle(), a, a + kMatrix, shape.bias ? a : nullptr, a + 2 * kMatrix, a + 3 * kMatrix);
    };
    once();
    const Graph graph(stream, once);
    graph.launch(stream);
    stream.synchronize();
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    GemmShape shape{.m = kTried, .n = kTried, .k = kTried, .operands = dtype, .result = dtype};
    run(shape);
    shape.bias = true;
    run(shape);
    shape.bias = false;
    shape.transpose_b = true;
    run(shape);
    shape.transpose_b = false;
    shape.transpose_a = shape.accumulate = true;
    shape.result = DType::f32;
    run(shape);
  }
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
