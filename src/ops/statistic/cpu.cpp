#include <cmath>

#include "ops/kernel.h"
#include "ops/statistic/kernels.h"
#include "ops/statistic/statistic.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

cpu::StatisticRows rows_of(const KernelRequest& request) {
  const Rows x(request.inputs[0]);
  return {x.rows, x.width};
}

std::unique_ptr<Kernel> bind_subtract(const KernelRequest& request) {
  return make_kernel(
      [shape = rows_of(request)](const KernelCall& call) { cpu::subtract_mean(shape, call.in(0), call.in(1), call.out(0)); });
}

std::unique_ptr<Kernel> bind_deviations(const KernelRequest& request) {
  return make_kernel(
      [shape = rows_of(request), type = request.inputs[0].dtype, add = !request.overwrite](const KernelCall& call) {
        cpu::add_deviations(shape, {call.inputs[0], type}, call.in(1), add, call.out<double>(0));
      });
}

std::unique_ptr<Kernel> bind_moving_mean(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), guarded = request.inputs.size() > 2,
                      blend = request.attributes->as<ops::MovingMeanAttributes>().blend](const KernelCall& call) {
    if (guarded && !std::isfinite(*call.in(2))) return;
    cpu::move_mean(n, call.in<double>(1), blend, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_average(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), guarded = request.inputs.size() > 3,
                      blend = request.attributes->as<ops::AverageAttributes>().blend](const KernelCall& call) {
    if (guarded && !std::isfinite(*call.in(3))) return;
    cpu::move_average(n, call.in(1), blend, call.in<double>(2)[ops::kUpdate] == 1, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_magnitude(const KernelRequest& request) {
  return make_kernel([shape = rows_of(request), type = request.inputs[0].dtype](const KernelCall& call) {
    cpu::largest_magnitude(shape, {call.inputs[0], type}, call.out(0));
  });
}

}  // namespace

CpuKernels statistic_cpu_kernels() {
  return {{&ops::kSubtractMean, nullptr, bind_subtract},
          {&ops::kDeviations, nullptr, bind_deviations},
          {&ops::kMovingMean, nullptr, bind_moving_mean},
          {&ops::kLargestMagnitude, nullptr, bind_magnitude},
          {&ops::kAverageStatistic, nullptr, bind_average}};
}

}  // namespace plimsoll
