// Products with a frozen B that is decoded to the type of A strip by strip, in scratch: the columns of C that a strip makes are
// done before the next one. Rows of A go in bands, as the library writes a dense matrix, which is copied to its place in C.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/cpu/gemm.h"
#include "device/cpu/stored_matrix.h"

namespace plimsoll::cpu {

// The most bytes of a decoded strip, and of the part of C that it makes of a band.
inline constexpr std::int64_t kStripBytes = 3 << 20, kBandBytes = 1 << 20;

// True: the library has a plan for such strips. `shape`: see stored_gemm.h.
bool library_takes_strips(const GemmShape& shape, int threads);

class StripGemm {
 public:
  StripGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads);
  // The plan that it is bound to, without binding it.
  static GemmPlan plan_of(const GemmShape& shape, const StoredMatrix& matrix, int threads);

  const GemmPlan& plan() const { return plan_; }
  // As Gemm::run.
  void run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const;

 private:
  GemmShape shape_;
  StoredMatrix matrix_;
  std::vector<GemmShape> shapes_;                        // of the products that differ
  std::vector<Gemm> gemms_;                              // by shape
  std::array<std::array<std::size_t, 2>, 2> of_part_{};  // [last strip][last band]
  GemmPlan plan_;
};

}  // namespace plimsoll::cpu
