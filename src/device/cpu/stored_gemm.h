// Products with a frozen B that is read as it is stored: of 16 bits, or in blocks. In fp32 it is decoded while our own kernel
// packs it. Where A has 16 bits, elements of B are rounded to these: the library multiplies them strip by strip (strip_gemm.h),
// or A is widened where it does not.
#pragma once

#include <cstddef>
#include <optional>

#include "device/cpu/gemm.h"
#include "device/cpu/stored_matrix.h"
#include "device/cpu/strip_gemm.h"

namespace plimsoll::cpu {

// `shape` is that of the product of A and C as they are with the decoded B: A is not transposed, there is no batch, and nothing
// is accumulated.
GemmPlan plan_stored_gemm(const GemmShape& shape, const StoredMatrix& matrix, int threads, bool library = true);

class StoredGemm {
 public:
  StoredGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads);

  // As Gemm::run.
  void run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const;
  const GemmPlan& plan() const { return plan_; }

 private:
  GemmShape shape_;
  StoredMatrix matrix_;
  int threads_;
  GemmPlan plan_;
  std::optional<StripGemm> strips_;  // nothing: our own kernel runs
};

}  // namespace plimsoll::cpu
