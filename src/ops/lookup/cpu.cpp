#include "ops/kernel.h"
#include "ops/lookup/kernels.h"
#include "ops/lookup/lookup.h"

namespace plimsoll {
namespace {

cpu::EmbeddingShape shape_of(const Shape& rows) { return {rows[0], rows[1], rows[2]}; }

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const ValueType& table = request.inputs[1];
  if (const auto& blocks = request.attributes->as<ops::LookupAttributes>().blocks) {
    const cpu::StoredMatrix matrix{table.dtype, blocks};
    return make_kernel([shape = shape_of(request.outputs[0].shape), matrix](const KernelCall& call) {
      cpu::lookup(shape, call.in<std::int32_t>(0), matrix, call.in<std::byte>(1), call.out(0));
    });
  }
  return make_kernel([shape = shape_of(request.outputs[0].shape), all = table.shape[0],
                      narrow = table.dtype == DType::bf16](const KernelCall& call) {
    const cpu::TableRows rows = call.range.whole()
                                    ? cpu::TableRows{0, all}
                                    : cpu::TableRows{call.range.begin / shape.width, call.range.elements / shape.width};
    const cpu::TableNumbers numbers = narrow ? cpu::TableNumbers(call.in<std::uint16_t>(1)) : cpu::TableNumbers(call.in(1));
    cpu::lookup(shape, rows, call.in<std::int32_t>(0), numbers, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_gather(const KernelRequest& request) {
  return make_kernel([out = Rows(request.outputs[0])](const KernelCall& call) {
    cpu::gather_rows(out.rows, out.width, call.in(0), call.in<std::int32_t>(1), call.out(0));
  });
}

}  // namespace

CpuKernels lookup_cpu_kernels() { return {{&ops::kLookup, nullptr, bind}, {&ops::kGatherRows, nullptr, bind_gather}}; }

}  // namespace plimsoll
