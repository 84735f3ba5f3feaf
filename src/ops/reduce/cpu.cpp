#include <algorithm>

#include "ops/elementwise/kernels.h"
#include "ops/kernel.h"
#include "ops/reduce/kernels.h"
#include "ops/reduce/reduce.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind_reduce(const KernelRequest& request) {
  const bool mean = request.attributes->as<ops::ReduceAttributes>().mean;
  return make_kernel([x = Rows(request.inputs[0]), mean](const KernelCall& call) {
    cpu::reduce_last_axis(x.rows, x.width, mean, call.in(0), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_broadcast(const KernelRequest& request) {
  const auto factor = static_cast<float>(request.attributes->as<ops::BroadcastLastAttributes>().factor);
  return make_kernel([y = Rows(request.outputs[0]), factor](const KernelCall& call) {
    cpu::broadcast_last(y.rows, y.width, factor, call.in(0), call.out(0));
  });
}

KernelChoice choose_sum_rows(const KernelRequest& request) {
  const Rows x(request.inputs[0]);
  return own_kernel(cpu::sum_rows_scratch(x.rows, x.width));
}

std::unique_ptr<Kernel> bind_sum_rows(const KernelRequest& request) {
  const bool accumulate = accumulates<ops::AccumulateAttributes>(request);
  const DType type = request.inputs[0].dtype;
  return make_kernel([x = Rows(request.inputs[0]), type, accumulate](const KernelCall& call) {
    cpu::sum_rows(x.rows, x.width, {call.inputs[0], type}, accumulate, call.out(0), call.scratch);
  });
}

std::unique_ptr<Kernel> bind_sum_losses(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), overwrite = request.overwrite](const KernelCall& call) {
    double* total = call.out<double>(0);
    if (overwrite) *total = 0;
    cpu::sum_in_order(n, call.in(0), total);
  });
}

KernelChoice choose_count_small(const KernelRequest& request) {
  return own_kernel(cpu::count_small_scratch(request.inputs[0].shape.elements()));
}

std::unique_ptr<Kernel> bind_count_small(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), overwrite = request.overwrite](const KernelCall& call) {
    double* counts = call.out<double>(0);
    if (overwrite) std::fill_n(counts, ops::kCounts, 0);
    const cpu::SmallNumbers small = cpu::count_small(n, call.in<F16>(0), call.scratch);
    counts[ops::kElements] += static_cast<double>(n);
    counts[ops::kZeros] += static_cast<double>(small.zeros);
    counts[ops::kSubnormals] += static_cast<double>(small.subnormals);
  });
}

}  // namespace

CpuKernels reduce_cpu_kernels() {
  return {{&ops::kReduce, nullptr, bind_reduce},
          {&ops::kBroadcastLast, nullptr, bind_broadcast},
          {&ops::kSumRows, choose_sum_rows, bind_sum_rows},
          {&ops::kSumLosses, nullptr, bind_sum_losses},
          {&ops::kCountSmall, choose_count_small, bind_count_small}};
}

}  // namespace plimsoll
