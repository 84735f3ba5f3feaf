#include "ops/adapter/adapter.h"
#include "ops/adapter/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::ConstElements input(const KernelCall& call, std::size_t i, DType type) { return {call.in<std::byte>(i), type}; }

std::unique_ptr<Kernel> bind_sum(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), type = request.inputs[0].dtype](const KernelCall& call) {
    cpu::sum_paths(n, input(call, 0, type), input(call, 1, type), {call.out<std::byte>(0), type});
  });
}

std::unique_ptr<Kernel> bind_magnitude(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::MagnitudeAttributes>().bias;
  return make_kernel([x = Rows(request.inputs[0]), type = request.inputs[0].dtype, bias](const KernelCall& call) {
    const cpu::MagnitudeRows shape{x.rows, x.width, call.in(2), bias ? call.in(3) : nullptr};
    cpu::magnitude(shape, input(call, 0, type), call.in(1), {call.out<std::byte>(0), type});
  });
}

std::unique_ptr<Kernel> bind_magnitude_backward(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::MagnitudeAttributes>().bias;
  const bool accumulate = accumulates<ops::MagnitudeAttributes>(request);
  const DType dy = request.inputs[0].dtype, type = request.inputs[1].dtype;
  return make_kernel([x = Rows(request.inputs[1]), dy, type, bias, accumulate](const KernelCall& call) {
    const cpu::MagnitudeRows shape{x.rows, x.width, call.in(2), bias ? call.in(3) : nullptr};
    cpu::magnitude_backward(shape, input(call, 0, dy), input(call, 1, type), accumulate, call.out(0));
  });
}

cpu::RowNorms row_norms_of(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::RowNormAttributes>();
  const Shape &a = request.inputs[2].shape, &b = request.inputs[3].shape;
  return {b[0], a[1], a[0], attributes.scale, attributes.inputs_first, {request.inputs[1].dtype, attributes.blocks}};
}

// Ranges of a W of numbers are whole tiles.
KernelChoice choose_row_norms(const KernelRequest& request) {
  const cpu::RowNorms norms = row_norms_of(request);
  return own_kernel(norms.scratch(request.in_ranges && norms.w.blocks));
}

std::unique_ptr<Kernel> bind_row_norms(const KernelRequest& request) {
  const std::int64_t all = request.inputs[1].shape.elements(), size = size_of(request.inputs[1].dtype);
  return make_kernel([shape = row_norms_of(request), all, size](const KernelCall& call) {
    cpu::RowNorms norms = shape;
    norms.a = call.in(2), norms.b = call.in(3);
    const NodeRange& range = call.range;
    const std::byte* w = call.in<std::byte>(1);
    if (range.first()) norms.begin(call.scratch);
    if (range.whole()) {
      norms.add(w, call.scratch);
    } else {
      const std::int64_t count = std::min(range.elements, all - range.begin);
      norms.add_part(range.pass, range.begin * size, {w, static_cast<std::size_t>(count * size)}, call.scratch);
      if (range.begin + count < all || range.pass + 1 < norms.passes()) return;
    }
    norms.end(call.scratch, call.out(0));
  });
}

}  // namespace

CpuKernels adapter_cpu_kernels() {
  return {{&ops::kSumPaths, nullptr, bind_sum},
          {&ops::kMagnitude, nullptr, bind_magnitude},
          {&ops::kMagnitudeBackward, nullptr, bind_magnitude_backward},
          {&ops::kRowNorms, choose_row_norms, bind_row_norms}};
}

}  // namespace plimsoll
