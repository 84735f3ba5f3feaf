#include <cmath>

#include "ops/cache/cache.h"
#include "ops/cache/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind_rows(const KernelRequest& request) {
  return make_kernel([rows = request.inputs[0].shape, slots = request.inputs[2].shape[1]](const KernelCall& call) {
    cpu::cache_rows(rows[0], rows[1], rows[2], slots, call.in(0), call.in<std::int32_t>(1), call.out(0));
  });
}

cpu::CacheShape shape_of(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::CachedAttentionAttributes>();
  const std::int64_t size = request.inputs[0].shape.last() / a.heads, slots = request.inputs[4].shape[1];
  const double scale = a.scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : a.scale;
  return {.batch = request.inputs[0].shape[0],
          .tokens = request.inputs[0].shape[1],
          .slots = slots,
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .head_size = size,
          .window = a.window > 0 ? a.window : slots,
          .scale = static_cast<float>(scale)};
}

KernelChoice choose_attention(const KernelRequest& request) {
  return own_kernel(cpu::cached_attention_scratch(shape_of(request), request.threads));
}

std::unique_ptr<Kernel> bind_attention(const KernelRequest& request) {
  return make_kernel([shape = shape_of(request), threads = request.threads](const KernelCall& call) {
    cpu::cached_attention(shape, call.in(0), call.in(1), call.in(2), call.in<std::int32_t>(3), call.out(1), call.out(2),
                          call.out(0), threads, call.scratch);
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
          {&ops::kColumns, nullptr, bind_columns}};
}

}  // namespace plimsoll
