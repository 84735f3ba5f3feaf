#include "ops/attention/attention.h"
#include "ops/attention/kernels.h"
#include "ops/check.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::AttentionShape shape_of(const KernelRequest& request) {
  const Shape& qkv = request.inputs[0].shape;
  const std::int64_t heads = request.attributes->as<ops::AttentionAttributes>().heads;
  return {qkv[0], qkv[1], heads, qkv[2] / 3 / heads};
}

// With the segments of a call, which are its last input.
cpu::AttentionShape with_segments(cpu::AttentionShape shape, bool has_segments, const KernelCall& call, std::size_t input) {
  if (has_segments) shape.segments = call.in<std::int32_t>(input);
  return shape;
}
bool has_segments(const KernelRequest& request) { return request.attributes->as<ops::AttentionAttributes>().segments; }

cpu::AttentionDropout dropout_of(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::AttentionAttributes>();
  return {static_cast<float>(attributes.dropout), attributes.key, nullptr, ops::name_tokens(request.inputs[1].shape)};
}

cpu::AttentionDropout with_samples(cpu::AttentionDropout dropout, const std::uint32_t* sample_ids) {
  dropout.sample_ids = sample_ids;
  return dropout;
}

KernelChoice choose(const KernelRequest& request) {
  return own_kernel(cpu::attention_forward_scratch(shape_of(request), request.threads));
}

KernelChoice choose_backward(const KernelRequest& request) {
  return own_kernel(cpu::attention_backward_scratch(shape_of(request), request.outputs[0].dtype, request.threads));
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([shape = shape_of(request), dropout = dropout_of(request), threads = request.threads,
                      qkv = request.inputs[0].dtype, out = request.outputs[0].dtype,
                      segments = has_segments(request)](const KernelCall& call) {
    cpu::attention_forward(with_segments(shape, segments, call, 2), with_samples(dropout, call.in<std::uint32_t>(1)),
                           {call.in<std::byte>(0), qkv}, {call.out<std::byte>(0), out}, call.out(1), threads, call.scratch);
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([shape = shape_of(request), dropout = dropout_of(request), threads = request.threads,
                      qkv = request.inputs[0].dtype, out = request.inputs[2].dtype, d_out = request.inputs[4].dtype,
                      d_qkv = request.outputs[0].dtype, segments = has_segments(request)](const KernelCall& call) {
    cpu::attention_backward(with_segments(shape, segments, call, 5), with_samples(dropout, call.in<std::uint32_t>(1)),
                            {call.in<std::byte>(0), qkv}, {call.in<std::byte>(2), out}, call.in(3),
                            {call.in<std::byte>(4), d_out}, {call.out<std::byte>(0), d_qkv}, threads, call.scratch);
  });
}

}  // namespace

CpuKernels attention_cpu_kernels() {
  return {{&ops::kAttention, choose, bind}, {&ops::kAttentionBackward, choose_backward, bind_backward}};
}

}  // namespace plimsoll
