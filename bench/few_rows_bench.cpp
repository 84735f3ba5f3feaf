// Products of few rows with matrices in memory, as in generation: GB/s of W, and the share of the rate of a copy (bytes read and
// written) that is timed in turn. The matrices of a benchmark exceed the caches.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/ceil_div.h"
#include "bench/buffer.h"
#include "device/cpu/few_rows.h"
#include "device/cpu/parallel.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::cpu;
using bench::Buffer;
using bench::numbers;

constexpr std::int64_t kAll = std::int64_t{192} << 20;  // bytes of all matrices, and of each side of the copy

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Both sides of the copy, shared by the benchmarks.
double copy_rate() {
  static const Buffer from{Bytes{kAll}}, to{Bytes{kAll}};
  constexpr std::int64_t kTask = 1 << 20;
  const double begin = seconds();
  parallel_for(kAll / kTask, [&](std::int64_t task) {
    std::memcpy(to.bytes() + task * kTask, from.bytes() + task * kTask, static_cast<std::size_t>(kTask));
  });
  return 2.0 * static_cast<double>(kAll) / (seconds() - begin);
}

std::int64_t bytes_of(const StoredMatrix& matrix, std::int64_t elements) {
  return matrix.blocks ? stored_bytes(*matrix.blocks).n : elements * size_of(matrix.dtype);
}

void product(benchmark::State& state, const GemmShape& shape, const StoredMatrix& matrix) {
  const std::int64_t each = bytes_of(matrix, shape.n * shape.k), step = round_up(each, 64), count = kAll / step;
  const Buffer a = numbers(shape.m * shape.k), c(shape.m * shape.n), w{Bytes{step * count}};
  std::memset(w.bytes(), 0x31, static_cast<std::size_t>(step * count));
  const FewRows rows(shape, matrix);
  double copied = 0, busy = 0, passes = 0;
  for (auto _ : state) {
    copied += copy_rate();
    const double begin = seconds();
    for (std::int64_t i = 0; i < count; ++i) multiply_few_rows(rows, a.get(), w.bytes() + i * step, nullptr, c.get());
    const double taken = seconds() - begin;
    state.SetIterationTime(taken);
    busy += taken, passes += 1;
  }
  const double rate = static_cast<double>(each * count) * passes / busy;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["copy GB/s"] = copied / passes * 1e-9;
  state.counters["of copy"] = rate / (copied / passes);
}

// A layer with `in` inputs and `out` outputs; its matrix is [outputs, inputs] or transposed.
void add_layer(std::int64_t rows, std::int64_t in, std::int64_t out, bool transposed) {
  std::vector<StoredMatrix> matrices{{DType::f32, {}}, {DType::bf16, {}}};
  for (const BlockFormat format : kBlockFormats) {
    if ((transposed ? in : out) % block_elements(format) != 0) continue;
    matrices.push_back({DType::u8, transposed ? BlockMatrix{format, out, in} : BlockMatrix{format, in, out}});
  }
  for (const StoredMatrix& matrix : matrices) {
    const std::string label = std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) +
                              (transposed ? "/outputs_first/" : "/inputs_first/") + name(matrix);
    const GemmShape shape{.m = rows, .n = out, .k = in, .transpose_b = transposed};
    benchmark::RegisterBenchmark(label.c_str(), product, shape, matrix)->Unit(benchmark::kMillisecond)->UseManualTime();
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::int64_t rows : {1, 8}) {
    add_layer(rows, 576, 1536, true);
    add_layer(rows, 1536, 576, true);
    add_layer(rows, 2048, 8192, true);
    add_layer(rows, 768, 3072, false);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
