// Products of a GPT-2 124M step, of a small byte model and of a vocabulary head, as planned, against a bound of FLOPs alone. Each
// has the counter `GFLOP/s`, and the share of the peak in PEAK_GFLOPS (default 537: two Zen 5 cores).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "device/cpu/gemm.h"
#include "device/cpu/gemm_tiled.h"
#include "device/cpu/parallel.h"
#include "ops/loss/kernels.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::cpu;
using bench::Buffer;
using bench::numbers;

double peak() {
  const char* text = std::getenv("PEAK_GFLOPS");
  return text != nullptr ? std::atof(text) : 537.0;
}

void report(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["of peak"] = benchmark::Counter(flops * 1e-9 / peak(), benchmark::Counter::kIsIterationInvariantRate);
}

void product(benchmark::State& state, const GemmShape& shape, bool tiled) {
  const Gemm gemm(shape, thread_count());
  const Buffer a = numbers(shape.m * shape.k), b = numbers(shape.k * shape.n), c(shape.m * shape.n);
  const Buffer scratch(tiled ? tiled_gemm_scratch(shape, thread_count()) : gemm.plan().scratch);
  for (auto _ : state) {
    if (tiled) {
      run_tiled_gemm(shape, thread_count(), a.get(), b.get(), nullptr, c.get(), scratch.bytes());
    } else {
      gemm.run(a.get(), b.get(), nullptr, c.get(), scratch.bytes());
    }
  }
  report(state, 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k));
  state.SetLabel(tiled ? "tiled" : gemm.plan().implementation);
}

// The same with a matrix B that is decoded during packing.
void decoding(benchmark::State& state, const GemmShape& shape, const StoredMatrix& matrix) {
  const Bytes bytes = matrix.blocks ? stored_bytes(*matrix.blocks) : Bytes{shape.k * shape.n * size_of(matrix.dtype)};
  const Buffer a = numbers(shape.m * shape.k), c(shape.m * shape.n), scratch(decoding_gemm_scratch(shape, thread_count()));
  std::vector<std::byte> b(static_cast<std::size_t>(bytes.n), std::byte{0x31});
  for (auto _ : state) {
    run_decoding_gemm(shape, thread_count(), a.get(), matrix, b.data(), nullptr, c.get(), scratch.bytes());
  }
  report(state, 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k));
  state.SetLabel(name(matrix));
}

// Forward and input gradient of a frozen layer in each format, compared with our fp32 product of the same shape.
void add_frozen(std::int64_t rows, std::int64_t in, std::int64_t out) {
  for (const bool backward : {false, true}) {
    const GemmShape shape{.m = rows, .n = backward ? in : out, .k = backward ? out : in, .transpose_b = !backward};
    const std::string size =
        std::string(backward ? "dx/" : "forward/") + std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out);
    const auto add = [&](const std::string& what, auto function, auto... more) {
      benchmark::RegisterBenchmark(("frozen/" + size + "/" + what).c_str(), function, shape, more...)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    };
    add("fp32", product, /*tiled=*/true);
    add("bf16", decoding, StoredMatrix{DType::bf16, {}});
    for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4_nested, BlockFormat::q4_1, BlockFormat::q4_k}) {
      add(std::string(name(format)), decoding, StoredMatrix{DType::u8, BlockMatrix{format, out, in}});
    }
  }
}

void head(benchmark::State& state, LossShape shape) {
  shape.chunks = static_cast<int>(state.range(0));
  const LinearCrossEntropy loss(shape, true, thread_count());
  const Buffer h = numbers(shape.tokens * shape.width), w = numbers(shape.vocab * shape.width), dh(shape.tokens * shape.width);
  const Buffer dw(shape.vocab * shape.width), losses(shape.tokens), scratch(loss.plan().scratch);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < shape.tokens; ++i) targets.push_back(static_cast<std::int32_t>(i * 7919 % shape.vocab));
  for (auto _ : state) {
    loss.backward(h.get(), w.get(), targets.data(), 1e-3F, losses.get(), dh.get(), dw.get(), false, scratch.bytes());
  }
  report(state, 6.0 * static_cast<double>(shape.tokens) * static_cast<double>(shape.width) * static_cast<double>(shape.vocab));
  state.SetLabel(to_text(loss.plan().scratch) + " scratch");
}

void add(const std::string& name, const GemmShape& shape) {
  for (const bool tiled : {false, true}) {
    benchmark::RegisterBenchmark(((tiled ? "tiled/" : "gemm/") + name).c_str(), product, shape, tiled)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

void add_layer(std::int64_t rows, std::int64_t in, std::int64_t out) {
  const std::string size = std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out);
  add("forward/" + size, {.m = rows, .n = out, .k = in});
  add("dx/" + size, {.m = rows, .n = in, .k = out, .transpose_b = true});
  add("dw/" + size, {.m = in, .n = out, .k = rows, .transpose_a = true, .accumulate = true});
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::int64_t rows : {256, 1024}) {
    add_layer(rows, 768, 768);
    add_layer(rows, 768, 2304);
    add_layer(rows, 768, 3072);
    add_layer(rows, 3072, 768);
  }
  add_layer(4096, 384, 1536);
  for (const std::int64_t rows : {1, 128, 1024}) add_frozen(rows, 1536, 8960);
  add("head/logits", {.m = 256, .n = kLossVocabTile, .k = 768, .transpose_b = true});
  add("head/dh", {.m = 256, .n = 768, .k = kLossVocabTile, .accumulate = true});
  add("head/dw", {.m = kLossVocabTile, .n = 768, .k = 256, .transpose_a = true, .accumulate = true});
  const auto gpt2 = benchmark::RegisterBenchmark("loss/gpt2", head, LossShape{.tokens = 1024, .width = 768, .vocab = 50257});
  gpt2->Unit(benchmark::kMillisecond)->UseRealTime()->Arg(1)->Arg(4)->Arg(28)->Arg(200);
  const auto bytes = benchmark::RegisterBenchmark("loss/bytes", head, LossShape{.tokens = 16384, .width = 384, .vocab = 256});
  bytes->Unit(benchmark::kMillisecond)->UseRealTime()->Arg(1)->Arg(2);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
