// Attention kernels in GFLOP/s. The unmasked half alone counts: 4 * head_size FLOPs for each visible (query, key) pair in
// forward, 10 * head_size in backward. The bound is the fp32 peak of the machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "base/philox.h"
#include "bench/buffer.h"
#include "device/cpu/parallel.h"
#include "ops/attention/kernels.h"

namespace plimsoll::cpu {
namespace {

using bench::Buffer;

Buffer random_buffer(std::int64_t floats, std::uint32_t stream) {
  Buffer b(floats);
  for (std::int64_t i = 0; i < floats; ++i) {
    b[i] = 2 * unit_float(philox4x32({stream, 1}, {static_cast<std::uint32_t>(i), 0, 0, 0})[0]) - 1;
  }
  return b;
}

struct Case {
  AttentionShape shape;
  AttentionDropout dropout;
  std::unique_ptr<std::uint32_t[]> ids;
  Buffer qkv, out, lse, d_out, d_qkv, scratch;

  explicit Case(const benchmark::State& state)
      : shape{state.range(0), state.range(1), state.range(2),
              state.range(2), state.range(3), 1.0f / std::sqrt(static_cast<float>(state.range(3)))},
        ids(new std::uint32_t[2 * shape.batch]()) {
    dropout = {static_cast<float>(state.range(4)) / 100, {1, 2}, ids.get()};
    const std::int64_t floats = shape.batch * shape.tokens * shape.heads * shape.head_size;
    qkv = random_buffer(3 * floats, 1);
    d_out = random_buffer(floats, 2);
    out = Buffer(floats);
    d_qkv = Buffer(3 * floats);
    lse = Buffer(shape.batch * shape.tokens * shape.heads);
    const int threads = thread_count();
    scratch = Buffer(std::max(attention_forward_scratch(shape, threads), attention_backward_scratch(shape, DType::f32, threads)));
    forward();
  }
  AttentionRows<ConstElements> rows() { return packed_rows(shape, ConstElements(qkv.get())); }
  void forward() { attention_forward(shape, dropout, rows(), out.get(), lse.get(), thread_count(), scratch.bytes()); }
  void backward() {
    attention_backward(shape, dropout, rows(), out.get(), lse.get(), d_out.get(), packed_rows(shape, Elements(d_qkv.get())),
                       thread_count(), scratch.bytes());
  }
  double pairs() const {
    return static_cast<double>(shape.batch * shape.heads) * static_cast<double>(shape.tokens * (shape.tokens + 1) / 2);
  }
};

void report(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void forward(benchmark::State& state) {
  Case c(state);
  for (auto _ : state) c.forward();
  report(state, 4 * static_cast<double>(c.shape.head_size) * c.pairs());
}

void backward(benchmark::State& state) {
  Case c(state);
  for (auto _ : state) c.backward();
  report(state, 10 * static_cast<double>(c.shape.head_size) * c.pairs());
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"batch", "tokens", "heads", "head_size", "dropout%"});
  for (const int dropout : {0, 10}) {
    b->Args({4, 256, 12, 64, dropout})->Args({1, 1024, 12, 64, dropout});
  }
  b->Args({1, 1024, 12, 32, 0})->Args({1, 1024, 12, 80, 0})->Args({1, 1024, 12, 128, 0})->Args({4, 256, 6, 16, 0});
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(forward)->Apply(shapes);
BENCHMARK(backward)->Apply(shapes);

}  // namespace
}  // namespace plimsoll::cpu

BENCHMARK_MAIN();
