#include "ops/kernel.h"
#include "ops/loss/kernels.h"
#include "ops/loss/loss.h"

namespace plimsoll {
namespace {

cpu::LossShape shape_of(const KernelRequest& request) {
  const Shape& h = request.inputs[0].shape;
  const auto& attributes = request.attributes->as<ops::LossAttributes>();
  return {h[0] * h[1],
          h[2],
          attributes.blocks ? attributes.blocks->rows : request.inputs[1].shape[0],
          request.chunks,
          request.in_ranges,
          request.inputs[0].dtype,
          {request.inputs[1].dtype, attributes.blocks},
          attributes.h,
          attributes.w};
}

cpu::LossTerms terms_of(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::LossAttributes>();
  return {attributes.label_smoothing, attributes.z_loss};
}

// The first pass over the ranges computes the losses, the second one the gradients.
cpu::VocabRange range_of(const NodeRange& range, const cpu::LossShape& shape) {
  if (range.whole()) return {.rows = shape.vocab};
  return {range.begin / shape.width, range.elements / shape.width, range.pass == 0, range.pass == 1};
}

template <bool kBackward>
KernelChoice choose(const KernelRequest& request) {
  const cpu::LossPlan plan = cpu::plan_loss(shape_of(request), kBackward, request.threads, request.with_library);
  KernelChoice choice;
  choice.implementation = plan.implementation;
  choice.scratch = plan.scratch;
  choice.primitives = plan.primitives;
  choice.work = plan.work;
  return choice;
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const cpu::LossShape shape = shape_of(request);
  return make_kernel(
      [loss = cpu::LinearCrossEntropy(shape, false, request.threads, terms_of(request)), shape](const KernelCall& call) {
        loss.forward(call.in<void>(0), call.in<void>(1), call.in<std::int32_t>(2), call.out(0), call.scratch,
                     range_of(call.range, shape));
      });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const bool overwrite = !accumulates<ops::LossAttributes>(request);
  const cpu::LossShape shape = shape_of(request);
  const std::size_t of_w = request.attributes->as<ops::LossAttributes>().of_w();
  return make_kernel([loss = cpu::LinearCrossEntropy(shape, true, request.threads, terms_of(request)), shape, overwrite,
                      of_w](const KernelCall& call) {
    loss.backward(call.in<void>(0), call.in<void>(1), call.in<std::int32_t>(2), *call.in(3), call.out(0),
                  shape.dh ? call.out(1) : nullptr, shape.dw ? call.out(of_w) : nullptr, overwrite, call.scratch,
                  range_of(call.range, shape));
  });
}

}  // namespace

CpuKernels loss_cpu_kernels() {
  return {{&ops::kLinearCrossEntropy, choose<false>, bind}, {&ops::kLinearCrossEntropyBackward, choose<true>, bind_backward}};
}

}  // namespace plimsoll
