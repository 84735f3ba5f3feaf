#include <algorithm>

#include "ops/accuracy/accuracy.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

// The number of classes before the label in the order of logits.
std::int64_t rank_of(const float* logits, std::int64_t classes, std::int64_t label) {
  const float own = logits[label];
  std::int64_t before = 0;
  for (std::int64_t c = 0; c < label; ++c) before += !(logits[c] < own);
  for (std::int64_t c = label + 1; c < classes; ++c) before += !(logits[c] <= own);
  return before;
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([rows = Rows(request.inputs[0]), overwrite = request.overwrite](const KernelCall& call) {
    double* const counts = call.out<double>(0);
    if (overwrite) std::fill_n(counts, ops::kTopClasses.size(), 0.0);
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const std::int32_t label = call.in<std::int32_t>(1)[row];
      if (label < 0 || label >= rows.width) continue;
      const std::int64_t before = rank_of(call.in(0) + row * rows.width, rows.width, label);
      for (std::size_t i = 0; i < ops::kTopClasses.size(); ++i) counts[i] += before < ops::kTopClasses[i] ? 1 : 0;
    }
  });
}

}  // namespace

CpuKernels accuracy_cpu_kernels() { return {{&ops::kCountCorrect, nullptr, bind}}; }

}  // namespace plimsoll
