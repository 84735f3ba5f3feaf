#include <cmath>

#include "ops/kernel.h"
#include "ops/statistic/kernels.h"
#include "ops/statistic/statistic.h"

namespace plimsoll {
namespace {

cpu::StatisticRows rows_of(const KernelRequest& request) {
  const Rows x(request.inputs[0]);
  return {x.rows, x.width};
}

// Calls body with a number of the type in which x lies in memory.
template <class Body>
std::unique_ptr<Kernel> with_type_of_x(const KernelRequest& request, Body body) {
  switch (request.inputs[0].dtype) {
    case DType::bf16: return body(std::uint16_t{});
    case DType::f16: return body(F16{});
    default: return body(0.0F);
  }
}

std::unique_ptr<Kernel> bind_subtract(const KernelRequest& request) {
  return make_kernel(
      [shape = rows_of(request)](const KernelCall& call) { cpu::subtract_mean(shape, call.in(0), call.in(1), call.out(0)); });
}

std::unique_ptr<Kernel> bind_deviations(const KernelRequest& request) {
  return with_type_of_x(request, [&]<class T>(T) {
    return make_kernel([shape = rows_of(request), add = !request.overwrite](const KernelCall& call) {
      cpu::add_deviations(shape, call.in<T>(0), call.in(1), add, call.out<double>(0));
    });
  });
}

std::unique_ptr<Kernel> bind_moving_mean(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), guarded = request.inputs.size() > 2,
                      blend = request.attributes->as<ops::MovingMeanAttributes>().blend](const KernelCall& call) {
    if (guarded && !std::isfinite(*call.in(2))) return;
    cpu::move_mean(n, call.in<double>(1), blend, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_magnitude(const KernelRequest& request) {
  return with_type_of_x(request, [&]<class T>(T) {
    return make_kernel(
        [shape = rows_of(request)](const KernelCall& call) { cpu::largest_magnitude(shape, call.in<T>(0), call.out(0)); });
  });
}

}  // namespace

CpuKernels statistic_cpu_kernels() {
  return {{&ops::kSubtractMean, nullptr, bind_subtract},
          {&ops::kDeviations, nullptr, bind_deviations},
          {&ops::kMovingMean, nullptr, bind_moving_mean},
          {&ops::kLargestMagnitude, nullptr, bind_magnitude}};
}

}  // namespace plimsoll
