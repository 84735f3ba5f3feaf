#include <array>
#include <cmath>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/kernels.h"
#include "ops/check.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

using Forward = ops::AttentionAttributes;
using Backward = ops::AttentionBackwardAttributes;

const Forward& forward_of(const KernelRequest& request) { return request.attributes->as<Forward>(); }
const Backward& backward_of(const KernelRequest& request) { return request.attributes->as<Backward>(); }

cpu::AttentionShape shape_of(const KernelRequest& request, const Forward& a) {
  const Shape& first = request.inputs[0].shape;
  cpu::AttentionShape shape{.batch = first[0],
                            .tokens = first[1],
                            .heads = a.layout.heads,
                            .kv_heads = a.layout.kv_heads,
                            .head_size = a.layout.head_size(first),
                            .scale = static_cast<float>(a.scale),
                            .window = a.window,
                            .causal = a.causal};
  if (a.scale == 0) shape.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  if (shape.window >= shape.tokens) shape.window = 0;
  return shape;
}

// The rows of three separate arrays, or of a packed one.
template <class E, class ArrayOf>
cpu::AttentionRows<E> rows_of(const cpu::AttentionShape& shape, const ops::QkvLayout& layout, const ArrayOf& array) {
  if (!layout.separate) return cpu::packed_rows(shape, E(array(0)));
  return {array(0), array(1), array(2), shape.heads * shape.head_size, shape.kv_heads * shape.head_size};
}

// The part of a call that the request fixes, and the completion by a call's addresses.
struct Bound {
  Forward attributes;
  cpu::AttentionShape shape;
  cpu::AttentionDropout dropout;
  std::vector<DType> types;  // of the inputs

  Bound(const KernelRequest& request, const Forward& a) : attributes(a), shape(shape_of(request, a)) {
    const Shape& ids = request.inputs[a.layout.operands()].shape;
    dropout = {static_cast<float>(a.dropout), a.key, nullptr, ops::name_tokens(ids)};
    for (const ValueType& input : request.inputs) types.push_back(input.dtype);
  }

  cpu::AttentionShape shape_in(const KernelCall& call) const {
    cpu::AttentionShape result = shape;
    if (attributes.segments) result.segments = call.in<std::int32_t>(types.size() - 1);
    return result;
  }
  cpu::AttentionDropout dropout_in(const KernelCall& call) const {
    cpu::AttentionDropout result = dropout;
    result.sample_ids = call.in<std::uint32_t>(attributes.layout.operands());
    return result;
  }
  cpu::ConstElements input(const KernelCall& call, std::size_t i) const { return {call.in<std::byte>(i), types[i]}; }
  cpu::AttentionRows<cpu::ConstElements> rows(const KernelCall& call) const {
    return rows_of<cpu::ConstElements>(shape, attributes.layout, [&](std::size_t i) { return input(call, i); });
  }
};

KernelChoice choose(const KernelRequest& request) {
  return own_kernel(cpu::attention_forward_scratch(shape_of(request, forward_of(request)), request.threads));
}

KernelChoice choose_backward(const KernelRequest& request) {
  const cpu::AttentionShape shape = shape_of(request, backward_of(request).forward);
  return own_kernel(cpu::attention_backward_scratch(shape, request.outputs[0].dtype, request.threads));
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([bound = Bound(request, forward_of(request)), threads = request.threads,
                      out = request.outputs[0].dtype](const KernelCall& call) {
    cpu::attention_forward(bound.shape_in(call), bound.dropout_in(call), bound.rows(call), {call.out<std::byte>(0), out},
                           call.out(1), threads, call.scratch);
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([bound = Bound(request, backward_of(request).forward), threads = request.threads,
                      type = request.outputs[0].dtype, made = backward_of(request)](const KernelCall& call) {
    const ops::QkvLayout& layout = made.forward.layout;
    const std::size_t out = layout.operands() + 1;
    std::size_t output = 0;
    std::array<std::byte*, 3> gradients{};
    for (std::size_t i = 0; i < layout.operands(); ++i) gradients[i] = made.makes(i) ? call.out<std::byte>(output++) : nullptr;
    const auto gradient = [&](std::size_t i) { return cpu::Elements(gradients[i], type); };
    cpu::attention_backward(bound.shape_in(call), bound.dropout_in(call), bound.rows(call), bound.input(call, out),
                            call.in(out + 1), bound.input(call, out + 2), rows_of<cpu::Elements>(bound.shape, layout, gradient),
                            threads, call.scratch);
  });
}

}  // namespace

CpuKernels attention_cpu_kernels() {
  return {{&ops::kAttention, choose, bind}, {&ops::kAttentionBackward, choose_backward, bind_backward}};
}

}  // namespace plimsoll
