#include <cmath>

#include "ops/cache/cache.h"
#include "ops/cache/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind_rows(const KernelRequest& request) {
  return make_kernel([rows = request.inputs[0].shape, cache = request.inputs[2].shape,
                      begin = request.attributes->as<ops::CacheRowsAttributes>().begin](const KernelCall& call) {
    cpu::cache_rows(rows[0], rows[1], rows[2], cache[2], cache[1], call.in(0) + begin, call.in<std::int32_t>(1), call.out(0));
  });
}

cpu::CacheShape shape_of(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::CachedAttentionAttributes>();
  const Shape& first = request.inputs[0].shape;
  const std::int64_t size = a.layout.head_size(first), slots = request.outputs[1].shape[1];
  const double scale = a.scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : a.scale;
  return {.batch = first[0],
          .tokens = first[1],
          .slots = slots,
          .heads = a.layout.heads,
          .kv_heads = a.layout.kv_heads,
          .head_size = size,
          .window = a.window > 0 ? a.window : slots,
          .scale = static_cast<float>(scale)};
}

cpu::QkvRows rows_of(const cpu::CacheShape& shape, bool separate, const KernelCall& call) {
  const std::int64_t width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  if (separate) return {call.in(0), call.in(1), call.in(2), width, kv_width};
  const std::int64_t stride = width + 2 * kv_width;
  return {call.in(0), call.in(0) + width, call.in(0) + width + kv_width, stride, stride};
}

KernelChoice choose_attention(const KernelRequest& request) {
  return own_kernel(cpu::cached_attention_scratch(shape_of(request), request.threads));
}

std::unique_ptr<Kernel> bind_attention(const KernelRequest& request) {
  return make_kernel([shape = shape_of(request), threads = request.threads,
                      layout = request.attributes->as<ops::CachedAttentionAttributes>().layout](const KernelCall& call) {
    cpu::cached_attention(shape, rows_of(shape, layout.separate, call), call.in<std::int32_t>(layout.operands()), call.out(1),
                          call.out(2), call.out(0), threads, call.scratch);
  });
}

std::unique_ptr<Kernel> bind_gather(const KernelRequest& request) {
  return make_kernel([out = Rows(request.outputs[0])](const KernelCall& call) {
    cpu::gather_rows(out.rows, out.width, call.in(0), call.in<std::int32_t>(1), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_columns(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::ColumnsAttributes>();
  return make_kernel([x = Rows(request.inputs[0]), begin = a.begin, end = a.end](const KernelCall& call) {
    cpu::columns(x.rows, x.width, begin, end, call.in(0), call.out(0));
  });
}

}  // namespace

CpuKernels cache_cpu_kernels() {
  return {{&ops::kCacheRows, nullptr, bind_rows},
          {&ops::kCachedAttention, choose_attention, bind_attention},
          {&ops::kColumns, nullptr, bind_columns},
          {&ops::kGatherRows, nullptr, bind_gather}};
}

}  // namespace plimsoll
