// The benchmark cases of every op, each with its bound: `of bound` is the roofline of the op's cost (its FLOPs at the rate of a
// large matrix product, its bytes at the rate of a copy, both measured at the start) divided by the measured time. Above 1 the op
// works in the caches.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "device/cpu/parallel.h"
#include "ops/cases/bound_case.h"
#include "ops/matmul/matmul.h"
#include "ops/op_catalogue.h"
#include "ops/shape/shape_ops.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::test;

template <class Body>
double best_seconds(Body body) {
  double best = 1e9, total = 0;
  while (total < 0.5) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds), total += seconds;
  }
  return best;
}

Cost cost_of(const OpDef& op, const OpCase& a_case) {
  return op.cost(a_case.attributes, input_types(a_case), output_types(op, a_case));
}

double best_seconds(const OpDef& op, const OpCase& a_case) {
  BoundCase bound(op, a_case, fill_inputs(a_case, 1), {.threads = cpu::thread_count()});
  return best_seconds([&] { bound.run(); });
}

Roofline measured_roofline() {
  const OpCase product{ops::MatmulAttributes{}, {f32({1024, 1024}), f32({1024, 1024})}, false, 1, true};
  const OpCase copy{ops::ReshapeAttributes{{16 << 20}}, {f32({16 << 20})}, false, 1, true};
  Roofline roofline;
  const OpCase narrow = with_inputs_of(DType::bf16, {0, 1}, product);
  const auto rate = [](const OpCase& a_case) { return cost_of(ops::kMatmul, a_case).flops / best_seconds(ops::kMatmul, a_case); };
  roofline.flops_per_second = rate(product);
  roofline.bf16_flops_per_second = rate(narrow);
  roofline.bytes_per_second = 2 * 4.0 * (16 << 20) / best_seconds(ops::kReshape, copy);
  return roofline;
}

void run_case(benchmark::State& state, const OpDef& op, const OpCase& a_case, const Roofline& roofline) {
  BoundCase bound(op, a_case, fill_inputs(a_case, 1), {.threads = cpu::thread_count()});
  bound.run();
  for (auto _ : state) bound.run();
  const Cost cost = cost_of(op, a_case);
  const auto rate = [](double amount) { return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate); };
  state.counters["GFLOP/s"] = rate(cost.flops * 1e-9);
  state.counters["GB/s"] = rate(cost.bytes * 1e-9);
  state.counters["of bound"] = rate(roofline_seconds(roofline, cost));
  state.SetLabel(bound.choice().implementation + ", " + to_text(bound.choice().scratch) + " scratch");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const Roofline roofline = measured_roofline();
  std::printf("measured on %d threads: product %.1f GFLOP/s, copy %.1f GB/s\n", cpu::thread_count(),
              roofline.flops_per_second * 1e-9, roofline.bytes_per_second * 1e-9);
  for (const OpCases& cases : all_cases()) {
    for (const OpCase& a_case : cases.cases) {
      if (!a_case.benchmark) continue;
      const auto run = [&](benchmark::State& state) { run_case(state, *cases.op, a_case, roofline); };
      benchmark::RegisterBenchmark(describe(*cases.op, a_case).c_str(), run)->UseRealTime()->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
