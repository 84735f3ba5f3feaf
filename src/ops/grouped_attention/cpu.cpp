#include <cmath>

#include "ops/attention/kernels.h"
#include "ops/check.h"
#include "ops/grouped_attention/grouped_attention.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

using Forward = ops::GroupedAttentionAttributes;
using Backward = ops::GroupedAttentionBackwardAttributes;

const Forward& forward_of(const KernelRequest& request) { return request.attributes->as<Forward>(); }
const Forward& backward_of(const KernelRequest& request) { return request.attributes->as<Backward>().forward; }

cpu::GroupedShape shape_of(const KernelRequest& request, const Forward& a) {
  const Shape& q = request.inputs[0].shape;
  cpu::GroupedShape shape{.batch = q[0],
                          .tokens = q[1],
                          .heads = a.heads,
                          .kv_heads = a.kv_heads,
                          .head_size = q[2] / a.heads,
                          .scale = static_cast<float>(a.scale),
                          .window = a.window};
  if (a.scale == 0) shape.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  if (shape.window >= shape.tokens) shape.window = 0;
  return shape;
}

// What a call brings is added to what its shape says.
struct Bound {
  cpu::GroupedShape shape;
  cpu::AttentionDropout dropout;
  bool segments;
  DType q, k, v;

  Bound(const KernelRequest& request, const Forward& a)
      : shape(shape_of(request, a)), q(request.inputs[0].dtype), k(request.inputs[1].dtype), v(request.inputs[2].dtype) {
    segments = a.segments;
    dropout = {static_cast<float>(a.dropout), a.key, nullptr, ops::name_tokens(request.inputs[3].shape)};
  }

  cpu::GroupedShape shape_in(const KernelCall& call, std::size_t segments_input) const {
    cpu::GroupedShape result = shape;
    if (segments) result.segments = call.in<std::int32_t>(segments_input);
    return result;
  }
  cpu::AttentionDropout dropout_of(const KernelCall& call) const {
    cpu::AttentionDropout result = dropout;
    result.sample_ids = call.in<std::uint32_t>(3);
    return result;
  }
  std::int64_t width() const { return shape.heads * shape.head_size; }
  std::int64_t kv_width() const { return shape.kv_heads * shape.head_size; }
  cpu::AttentionRows<cpu::ConstElements> rows(const KernelCall& call) const {
    return {{call.in<std::byte>(0), q}, {call.in<std::byte>(1), k}, {call.in<std::byte>(2), v}, width(), kv_width()};
  }
};

KernelChoice choose(const KernelRequest& request) {
  return own_kernel(cpu::grouped_attention_forward_scratch(shape_of(request, forward_of(request)), request.threads));
}

KernelChoice choose_backward(const KernelRequest& request) {
  return own_kernel(cpu::grouped_attention_backward_scratch(shape_of(request, backward_of(request)), request.outputs[0].dtype,
                                                            request.threads));
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([bound = Bound(request, forward_of(request)), threads = request.threads,
                      out = request.outputs[0].dtype](const KernelCall& call) {
    cpu::grouped_attention_forward(bound.shape_in(call, 4), bound.dropout_of(call), bound.rows(call),
                                   {call.out<std::byte>(0), out}, call.out(1), threads, call.scratch);
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([bound = Bound(request, backward_of(request)), threads = request.threads, out = request.inputs[4].dtype,
                      d_out = request.inputs[6].dtype, type = request.outputs[0].dtype,
                      made = request.attributes->as<Backward>()](const KernelCall& call) {
    std::size_t output = 0;
    const auto gradient = [&](std::size_t input) {
      return cpu::Elements(made.makes(input) ? call.out<std::byte>(output++) : nullptr, type);
    };
    const cpu::AttentionRows<cpu::Elements> gradients{gradient(0), gradient(1), gradient(2), bound.width(), bound.kv_width()};
    cpu::grouped_attention_backward(bound.shape_in(call, 7), bound.dropout_of(call), bound.rows(call),
                                    {call.in<std::byte>(4), out}, call.in(5), {call.in<std::byte>(6), d_out}, gradients, threads,
                                    call.scratch);
  });
}

}  // namespace

CpuKernels grouped_attention_cpu_kernels() {
  return {{&ops::kGroupedAttention, choose, bind}, {&ops::kGroupedAttentionBackward, choose_backward, bind_backward}};
}

}  // namespace plimsoll
