#include "ops/attention/cuda.h"

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/attention/plain.cuh"
#include "ops/attention/row_dots.cuh"
#include "ops/attention/tensor_backward.cuh"
#include "ops/attention/tensor_forward.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace {

const ops::AttentionAttributes& attributes_of(const KernelRequest& request) {
  if (request.op == &ops::kAttention) return request.attributes->as<ops::AttentionAttributes>();
  return request.attributes->as<ops::AttentionBackwardAttributes>().forward;
}

cuda::AttentionExtents extents_of(const KernelRequest& request) {
  const Shape& qkv = request.inputs[0].shape;
  const ops::QkvLayout& layout = attributes_of(request).layout;
  const std::int64_t heads = layout.heads, head_size = layout.head_size(qkv);
  const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  return {narrow(qkv[1]), narrow(heads), narrow(head_size), narrow(qkv[0] * heads),
          1.0f / std::sqrt(static_cast<float>(head_size))};
}

cuda::AttentionDropout dropout_of(const KernelRequest& request) {
  const ops::AttentionAttributes& attributes = attributes_of(request);
  return {cuda::DropoutRule(attributes.dropout, attributes.key), nullptr};
}

bool drops(const KernelRequest& request) { return dropout_of(request).rule.threshold != 0; }

// Tensor cores take heads of 64 and 128 with operands of one 16-bit type; the result has that type or fp32.
bool on_tensor_cores(const KernelRequest& request, const std::vector<std::size_t>& operands) {
  const DType type = request.inputs[0].dtype, result = request.outputs[0].dtype;
  const std::int32_t head_size = extents_of(request).head_size;
  if (type == DType::f32 || (result != type && result != DType::f32) || (head_size != 64 && head_size != 128)) return false;
  return std::all_of(operands.begin(), operands.end(), [&](std::size_t i) { return request.inputs[i].dtype == type; });
}

// Calls f<T, head size, dropout> for a request.
template <class F>
auto for_tensor_cores(const KernelRequest& request, F f) {
  const auto of_head = [&]<class T, int kHead>() {
    return drops(request) ? f.template operator()<T, kHead, true>() : f.template operator()<T, kHead, false>();
  };
  const auto of_type = [&]<class T>() {
    return extents_of(request).head_size == 64 ? of_head.template operator()<T, 64>() : of_head.template operator()<T, 128>();
  };
  return request.inputs[0].dtype == DType::bf16 ? of_type.template operator()<cuda::Bf16>() : of_type.template operator()<F16>();
}

// Calls f<columns of a thread> for the narrowest kernel with all columns of a head, or else for the widest.
template <class F>
auto for_columns(std::int32_t head_size, F f) {
  if (head_size <= 16) return f.template operator()<1>();
  if (head_size <= 32) return f.template operator()<2>();
  return head_size <= 64 ? f.template operator()<4>() : f.template operator()<8>();
}

template <int kC>
cuda::Grid plain_grid(const cuda::BlockOrder& order, std::int32_t head_size) {
  return {{order.blocks(), static_cast<unsigned>((head_size + 16 * kC - 1) / (16 * kC))},
          {cuda::kPlainThreads},
          cuda::kPlainSharedBytes};
}

std::unique_ptr<Kernel> bind_plain(const KernelRequest& request) {
  const cuda::AttentionExtents extents = extents_of(request);
  const cuda::PlainForward of_all{.extents = extents,
                                  .dropout = dropout_of(request),
                                  .order = cuda::BlockOrder(extents, cuda::kPlainTile),
                                  .qkv = {nullptr, request.inputs[0].dtype},
                                  .out_type = request.outputs[0].dtype};
  return for_columns(extents.head_size, [&]<int kC>() {
    return make_kernel([of_all](const KernelCall& call) {
      cuda::PlainForward of_call = of_all;
      of_call.dropout.sample_ids = call.in<std::uint32_t>(1);
      of_call.qkv.data = call.in<std::byte>(0);
      of_call.out = call.out<std::byte>(0);
      of_call.lse = call.out(1);
      cuda::launch(cuda::plain_attention_kernel<kC>, plain_grid<kC>(of_all.order, of_all.extents.head_size), call.stream,
                   of_call);
    });
  });
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  if (!on_tensor_cores(request, {})) return bind_plain(request);
  return for_tensor_cores(request, [&]<class T, int kHead, bool kDropout>() {
    using Tiles = cuda::ForwardTiles<kHead>;
    const auto kernel = cuda::attention_kernel<T, kHead, kDropout>;
    cuda::allow_shared(kernel, Tiles::kSharedBytes);
    const cuda::AttentionExtents extents = extents_of(request);
    const cuda::TensorForward of_all{.extents = extents,
                                     .dropout = dropout_of(request),
                                     .order = cuda::BlockOrder(extents, Tiles::kQueries),
                                     .wide = request.outputs[0].dtype == DType::f32};
    return make_kernel([of_all, kernel](const KernelCall& call) {
      cuda::TensorForward of_call = of_all;
      of_call.dropout.sample_ids = call.in<std::uint32_t>(1);
      of_call.qkv = call.in<std::byte>(0);
      of_call.out = call.out<std::byte>(0);
      of_call.lse = call.out(1);
      cuda::launch(kernel, {{of_all.order.blocks()}, {Tiles::kThreads}, Tiles::kSharedBytes}, call.stream, of_call);
    });
  });
}

// Returns the call with its addresses, after writing the dot products of outputs and their gradients into the scratch.
template <class Backward>
Backward begin_backward(const Backward& of_all, DType out_type, DType d_out_type, const KernelCall& call) {
  float* dots = reinterpret_cast<float*>(call.scratch);
  cuda::row_dots(of_all.extents, {call.in<std::byte>(2), out_type}, {call.in<std::byte>(4), d_out_type}, dots, call.stream);
  Backward of_call = of_all;
  of_call.dropout.sample_ids = call.in<std::uint32_t>(1);
  of_call.lse = call.in(3);
  of_call.dots = dots;
  of_call.d_qkv = call.out<std::byte>(0);
  return of_call;
}

std::unique_ptr<Kernel> bind_plain_backward(const KernelRequest& request) {
  const cuda::AttentionExtents extents = extents_of(request);
  const cuda::PlainBackward of_all{.extents = extents,
                                   .dropout = dropout_of(request),
                                   .order = cuda::BlockOrder(extents, cuda::kPlainTile),
                                   .qkv = {nullptr, request.inputs[0].dtype},
                                   .d_out = {nullptr, request.inputs[4].dtype},
                                   .d_qkv_type = request.outputs[0].dtype};
  return for_columns(extents.head_size, [&]<int kC>() {
    return make_kernel([of_all, out_type = request.inputs[2].dtype](const KernelCall& call) {
      cuda::PlainBackward of_call = begin_backward(of_all, out_type, of_all.d_out.type, call);
      of_call.qkv.data = call.in<std::byte>(0);
      of_call.d_out.data = call.in<std::byte>(4);
      const cuda::Grid grid = plain_grid<kC>(of_all.order, of_all.extents.head_size);
      cuda::launch(cuda::plain_keys_kernel<kC>, grid, call.stream, of_call);
      cuda::launch(cuda::plain_queries_kernel<kC>, grid, call.stream, of_call);
    });
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  if (!on_tensor_cores(request, {4})) return bind_plain_backward(request);
  return for_tensor_cores(request, [&]<class T, int kHead, bool kDropout>() {
    using Keys = cuda::KeyTiles<kHead>;
    using Queries = cuda::QueryTiles<kHead>;
    const auto keys_kernel = cuda::attention_keys_kernel<T, kHead, kDropout>;
    const auto queries_kernel = cuda::attention_queries_kernel<T, kHead, kDropout>;
    cuda::allow_shared(keys_kernel, Keys::kSharedBytes);
    cuda::allow_shared(queries_kernel, Queries::kSharedBytes);
    const cuda::AttentionExtents extents = extents_of(request);
    const cuda::TensorBackward of_all{.extents = extents,
                                      .dropout = dropout_of(request),
                                      .order = cuda::BlockOrder(extents, Keys::kKeys),
                                      .wide = request.outputs[0].dtype == DType::f32};
    const cuda::BlockOrder of_queries(extents, Queries::kQueries);
    return make_kernel([of_all, of_queries, keys_kernel, queries_kernel, out_type = request.inputs[2].dtype,
                        type = request.inputs[4].dtype](const KernelCall& call) {
      cuda::TensorBackward of_call = begin_backward(of_all, out_type, type, call);
      of_call.qkv = call.in<std::byte>(0);
      of_call.d_out = call.in<std::byte>(4);
      cuda::launch(keys_kernel, {{of_all.order.blocks()}, {Keys::kThreads}, Keys::kSharedBytes}, call.stream, of_call);
      of_call.order = of_queries;
      cuda::launch(queries_kernel, {{of_queries.blocks()}, {Queries::kThreads}, Queries::kSharedBytes}, call.stream, of_call);
    });
  });
}

}  // namespace

CudaKernels attention_cuda_kernels() { return {{&ops::kAttention, bind}, {&ops::kAttentionBackward, bind_backward}}; }

}  // namespace plimsoll
