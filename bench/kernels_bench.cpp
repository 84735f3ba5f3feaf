// Memory-bound kernels in bytes per second (bytes read and written, without write-allocation), compared with a copy of the same
// memory. Arguments: elements of each array.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "bench/buffer.h"
#include "device/cpu/cast.h"
#include "device/cpu/parallel.h"
#include "ops/dropout/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/embedding/kernels.h"
#include "ops/reduce/kernels.h"
#include "ops/shape/kernels.h"
#include "ops/update/kernels.h"

namespace plimsoll::cpu {
namespace {

using bench::Buffer;
using bench::numbers;

constexpr std::int64_t kWidth = 768;
constexpr std::int64_t kLarge = 32 << 20, kCached = 1 << 20;  // larger than every cache; within the last-level cache

// Runs body() and reports the bytes that one call moves.
template <class Body>
void measure(benchmark::State& state, std::int64_t bytes, Body body) {
  body();
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void bench_copy(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), y = numbers(n);
  measure(state, 8 * n, [&] { copy(Bytes{4 * n}, x.get(), y.get()); });
}

void bench_fill(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer y = numbers(n);
  measure(state, 4 * n, [&] { fill(n, 0, y.get()); });
}

void bench_add(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), y = numbers(n), z = numbers(n);
  measure(state, 12 * n, [&] { add(n, x.get(), y.get(), z.get()); });
}

void bench_gelu(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), y = numbers(n);
  measure(state, 8 * n, [&] { gelu_tanh_forward(n, x.get(), y.get()); });
}

void bench_gelu_backward(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), dy = numbers(n), dx = numbers(n);
  measure(state, 12 * n, [&] { gelu_tanh_backward(n, dy.get(), x.get(), dx.get()); });
}

void bench_dropout(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), y = numbers(n);
  const std::vector<std::uint32_t> ids(16, 1);
  measure(state, 8 * n, [&] { dropout(8, n / 8, {0.1f, {1, 2}, ids.data()}, x.get(), y.get()); });
}

void bench_sum_rows(benchmark::State& state) {
  const std::int64_t n = state.range(0) / kWidth * kWidth;
  const Buffer x = numbers(n), out = numbers(kWidth), scratch(sum_rows_scratch(n / kWidth, kWidth));
  measure(state, 4 * n, [&] { sum_rows(n / kWidth, kWidth, x.get(), false, out.get(), scratch.bytes()); });
}

void bench_sum_of_squares(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), scratch(sum_scratch(n));
  double out;
  measure(state, 4 * n, [&] { out = sum_of_squares(n, x.get(), 0, scratch.bytes()); });
}

void bench_to_bf16(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer x = numbers(n), y = numbers(n / 2);
  measure(state, 6 * n, [&] { cast(n, x.get(), reinterpret_cast<std::uint16_t*>(y.get())); });
}

void bench_transpose(benchmark::State& state) {
  const std::int64_t columns = 1024, rows = state.range(0) / columns;
  const Buffer x = numbers(rows * columns), y = numbers(rows * columns);
  measure(state, 8 * rows * columns, [&] { transpose(1, rows, columns, x.get(), y.get()); });
}

constexpr std::int64_t kVocabulary = 50257;

struct Lookup {
  EmbeddingShape shape{8, 1024, kWidth};
  Buffer table = numbers(kVocabulary * kWidth), positions = numbers(1024 * kWidth), rows = numbers(8 * 1024 * kWidth);
  std::vector<std::int32_t> tokens;

  Lookup() {
    for (std::uint32_t i = 0; i < 8 * 1024; ++i) {
      tokens.push_back(static_cast<std::int32_t>(philox4x32({1, 2}, {i, 0, 0, 0})[0] % kVocabulary));
    }
  }
  std::int64_t elements() const { return shape.batch * shape.tokens * shape.width; }
};

void bench_embedding(benchmark::State& state) {
  const Lookup l;
  measure(state, 12 * l.elements(), [&] {
    embedding_forward(l.shape, {0, kVocabulary}, l.tokens.data(), l.table.get(), {l.positions.get()}, l.rows.get());
  });
}

void bench_token_gradient(benchmark::State& state) {
  const Lookup l;
  measure(state, 12 * l.elements(), [&] {
    embedding_token_gradient(l.shape, {0, kVocabulary}, l.tokens.data(), l.rows.get(), true, l.table.get());
  });
}

void bench_adamw(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer p = numbers(n), m = numbers(n), v = numbers(n), g = numbers(n);
  fill(n, 1, v.get());
  measure(state, 28 * n, [&] { adamw(n, p.get(), m.get(), v.get(), g.get(), {.weight_decay = 0.1}); });
}

void bench_sgd(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Buffer p = numbers(n), m = numbers(n), g = numbers(n);
  measure(state, 20 * n, [&] { sgd(n, p.get(), m.get(), g.get(), {.lr = 1e-6, .momentum = 0.9}); });
}

void both_sizes(benchmark::internal::Benchmark* b) { b->Arg(kCached)->Arg(kLarge)->UseRealTime()->Unit(benchmark::kMicrosecond); }

BENCHMARK(bench_copy)->Apply(both_sizes);
BENCHMARK(bench_fill)->Apply(both_sizes);
BENCHMARK(bench_add)->Apply(both_sizes);
BENCHMARK(bench_gelu)->Apply(both_sizes);
BENCHMARK(bench_gelu_backward)->Apply(both_sizes);
BENCHMARK(bench_dropout)->Apply(both_sizes);
BENCHMARK(bench_sum_rows)->Apply(both_sizes);
BENCHMARK(bench_sum_of_squares)->Apply(both_sizes);
BENCHMARK(bench_to_bf16)->Apply(both_sizes);
BENCHMARK(bench_transpose)->Apply(both_sizes);
BENCHMARK(bench_embedding)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bench_token_gradient)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bench_adamw)->Apply(both_sizes);
BENCHMARK(bench_sgd)->Apply(both_sizes);

}  // namespace
}  // namespace plimsoll::cpu

BENCHMARK_MAIN();
