#include "ops/attention/cuda.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/plain.cuh"
#include "ops/attention/row_dots.cuh"
#include "ops/attention/tensor_backward.cuh"
#include "ops/attention/tensor_forward.cuh"
#include "ops/check.h"
#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace {

const ops::AttentionAttributes& attributes_of(const KernelRequest& request) {
  if (request.op == &ops::kAttention) return request.attributes->as<ops::AttentionAttributes>();
  return request.attributes->as<ops::AttentionBackwardAttributes>().forward;
}

cuda::AttentionExtents extents_of(const KernelRequest& request) {
  const Shape& first = request.inputs[0].shape;
  const ops::AttentionAttributes& a = attributes_of(request);
  const ops::QkvLayout& layout = a.layout;
  const std::int64_t head_size = layout.head_size(first), packed = layout.heads + 2 * layout.kv_heads;
  const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  cuda::AttentionExtents e{.batch = narrow(first[0]),
                           .tokens = narrow(first[1]),
                           .heads = narrow(layout.heads),
                           .group = narrow(layout.heads / layout.kv_heads),
                           .head_size = narrow(head_size),
                           .query_stride = narrow((layout.separate ? layout.heads : packed) * head_size),
                           .key_stride = narrow((layout.separate ? layout.kv_heads : packed) * head_size),
                           .scale = static_cast<float>(a.scale)};
  if (a.scale == 0) e.scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  if (a.window > 0 && a.window < first[1]) e.window = narrow(a.window);
  return e;
}

cuda::AttentionDropout dropout_of(const KernelRequest& request) {
  const ops::AttentionAttributes& attributes = attributes_of(request);
  return {cuda::DropoutRule(attributes.dropout, attributes.key),
          ops::name_tokens(request.inputs[attributes.layout.operands()].shape)};
}

bool drops(const KernelRequest& request) { return dropout_of(request).rule.threshold != 0; }

// The part of a call that the request fixes, and the completion by a call's addresses.
class Bound {
 public:
  explicit Bound(const KernelRequest& request)
      : layout_(attributes_of(request).layout), segments_(attributes_of(request).segments) {
    for (const ValueType& input : request.inputs) types_.push_back(input.dtype);
    for (std::size_t i = 0; i < 3; ++i) {
      made_[i] = request.op != &ops::kAttention && request.attributes->as<ops::AttentionBackwardAttributes>().makes(i);
    }
    out_type_ = request.outputs[0].dtype;
    const std::int64_t head_size = layout_.head_size(request.inputs[0].shape);
    part_begins_ = {0, layout_.heads * head_size, (layout_.heads + layout_.kv_heads) * head_size};
  }

  // The number of an input after the operands and the sample ids.
  std::size_t after_ids(std::size_t i) const { return layout_.operands() + 1 + i; }
  cuda::Elements input(const KernelCall& call, std::size_t i) const { return {call.in<std::byte>(i), types_[i]}; }

  cuda::OfOperands<cuda::Elements> operands(const KernelCall& call) const {
    return {part(call, 0), part(call, 1), part(call, 2)};
  }
  cuda::OfOperands<const void*> addresses(const KernelCall& call) const {
    return {part(call, 0).data, part(call, 1).data, part(call, 2).data};
  }
  // Null for gradients that are not made.
  cuda::OfOperands<void*> gradients(const KernelCall& call) const {
    std::array<void*, 3> to{};
    std::size_t output = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      if (layout_.separate && made_[i]) to[i] = call.out<std::byte>(output++);
      if (!layout_.separate) to[i] = call.out<std::byte>(0) + part_begins_[i] * size_of(out_type_);
    }
    return {to[0], to[1], to[2]};
  }
  bool makes_queries() const { return made_[0]; }
  bool makes_keys_or_values() const { return made_[1] || made_[2]; }

  // Completes extents and dropout.
  template <class Call>
  void complete(Call& of_call, const KernelCall& call) const {
    of_call.dropout.sample_ids = call.in<std::uint32_t>(layout_.operands());
    if (segments_) of_call.extents.segments = call.in<std::int32_t>(types_.size() - 1);
  }

 private:
  cuda::Elements part(const KernelCall& call, std::size_t i) const {
    if (layout_.separate) return input(call, i);
    return {call.in<std::byte>(0) + part_begins_[i] * size_of(types_[0]), types_[0]};
  }

  ops::QkvLayout layout_;
  bool segments_;
  std::vector<DType> types_;  // of the inputs
  std::array<bool, 3> made_{};
  DType out_type_;
  std::array<std::int64_t, 3> part_begins_;  // elements of a packed row
};

// Tensor cores take heads of 64 and 128 with operands of one 16-bit type, and the gradient of the output, too; the result has
// that type or fp32.
bool on_tensor_cores(const KernelRequest& request) {
  const std::size_t operands = attributes_of(request).layout.operands();
  const DType type = request.inputs[0].dtype, result = request.outputs[0].dtype;
  const std::int32_t head_size = extents_of(request).head_size;
  if (type == DType::f32 || (result != type && result != DType::f32) || (head_size != 64 && head_size != 128)) return false;
  const auto same = [&](const ValueType& input) { return input.dtype == type; };
  return std::all_of(request.inputs.begin(), request.inputs.begin() + static_cast<std::ptrdiff_t>(operands), same) &&
         (request.op == &ops::kAttention || same(request.inputs[operands + 3]));
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
                                  .out_type = request.outputs[0].dtype};
  return for_columns(extents.head_size, [&]<int kC>() {
    return make_kernel([of_all, bound = Bound(request)](const KernelCall& call) {
      cuda::PlainForward of_call = of_all;
      bound.complete(of_call, call);
      of_call.in = bound.operands(call);
      of_call.out = call.out<std::byte>(0);
      of_call.lse = call.out(1);
      cuda::launch(cuda::plain_attention_kernel<kC>, plain_grid<kC>(of_all.order, of_all.extents.head_size), call.stream,
                   of_call);
    });
  });
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  if (!on_tensor_cores(request)) return bind_plain(request);
  return for_tensor_cores(request, [&]<class T, int kHead, bool kDropout>() {
    using Tiles = cuda::ForwardTiles<kHead>;
    const auto kernel = cuda::attention_kernel<T, kHead, kDropout>;
    cuda::allow_shared(kernel, Tiles::kSharedBytes);
    const cuda::AttentionExtents extents = extents_of(request);
    const cuda::TensorForward of_all{.extents = extents,
                                     .dropout = dropout_of(request),
                                     .order = cuda::BlockOrder(extents, Tiles::kQueries),
                                     .wide = request.outputs[0].dtype == DType::f32};
    return make_kernel([of_all, kernel, bound = Bound(request)](const KernelCall& call) {
      cuda::TensorForward of_call = of_all;
      bound.complete(of_call, call);
      of_call.in = bound.addresses(call);
      of_call.out = call.out<std::byte>(0);
      of_call.lse = call.out(1);
      cuda::launch(kernel, {{of_all.order.blocks()}, {Tiles::kThreads}, Tiles::kSharedBytes}, call.stream, of_call);
    });
  });
}

// Returns the call with its addresses, after writing the dot products of outputs and their gradients into the scratch.
template <class Backward>
Backward begin_backward(const Backward& of_all, const Bound& bound, const KernelCall& call) {
  float* dots = reinterpret_cast<float*>(call.scratch);
  cuda::row_dots(of_all.extents, bound.input(call, bound.after_ids(0)), bound.input(call, bound.after_ids(2)), dots, call.stream);
  Backward of_call = of_all;
  bound.complete(of_call, call);
  of_call.lse = call.in(bound.after_ids(1));
  of_call.dots = dots;
  of_call.out = bound.gradients(call);
  return of_call;
}

std::unique_ptr<Kernel> bind_plain_backward(const KernelRequest& request) {
  const cuda::AttentionExtents extents = extents_of(request);
  const cuda::PlainBackward of_all{.extents = extents,
                                   .dropout = dropout_of(request),
                                   .order = cuda::BlockOrder(extents, cuda::kPlainTile, extents.group),
                                   .out_type = request.outputs[0].dtype};
  const cuda::BlockOrder of_queries(extents, cuda::kPlainTile);
  return for_columns(extents.head_size, [&]<int kC>() {
    return make_kernel([of_all, of_queries, bound = Bound(request)](const KernelCall& call) {
      cuda::PlainBackward of_call = begin_backward(of_all, bound, call);
      of_call.in = bound.operands(call);
      of_call.d_out = bound.input(call, bound.after_ids(2));
      const auto grid = [&](const cuda::BlockOrder& order) { return plain_grid<kC>(order, of_all.extents.head_size); };
      if (bound.makes_keys_or_values()) cuda::launch(cuda::plain_keys_kernel<kC>, grid(of_all.order), call.stream, of_call);
      of_call.order = of_queries;
      if (bound.makes_queries()) cuda::launch(cuda::plain_queries_kernel<kC>, grid(of_queries), call.stream, of_call);
    });
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  if (!on_tensor_cores(request)) return bind_plain_backward(request);
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
                                      .order = cuda::BlockOrder(extents, Keys::kKeys, extents.group),
                                      .wide = request.outputs[0].dtype == DType::f32};
    const cuda::BlockOrder of_queries(extents, Queries::kQueries);
    return make_kernel([of_all, of_queries, keys_kernel, queries_kernel, bound = Bound(request)](const KernelCall& call) {
      cuda::TensorBackward of_call = begin_backward(of_all, bound, call);
      of_call.in = bound.addresses(call);
      of_call.d_out = call.in<std::byte>(bound.after_ids(2));
      if (bound.makes_keys_or_values()) {
        cuda::launch(keys_kernel, {{of_all.order.blocks()}, {Keys::kThreads}, Keys::kSharedBytes}, call.stream, of_call);
      }
      of_call.order = of_queries;
      if (bound.makes_queries()) {
        cuda::launch(queries_kernel, {{of_queries.blocks()}, {Queries::kThreads}, Queries::kSharedBytes}, call.stream, of_call);
      }
    });
  });
}

}  // namespace

CudaKernels attention_cuda_kernels() { return {{&ops::kAttention, bind}, {&ops::kAttentionBackward, bind_backward}}; }

}  // namespace plimsoll
