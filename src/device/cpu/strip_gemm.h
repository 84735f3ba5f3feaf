// Products with a frozen B that is decoded to the type of A in scratch, one strip of columns after the other. A strip is
// multiplied with all rows of A before the next one is decoded. Rows go in bands: the library writes a dense matrix, which is
// copied to its place in C.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/cpu/gemm.h"
#include "device/cpu/stored_matrix.h"

namespace plimsoll::cpu {

// The most bytes of a decoded strip, and of the part of C from a strip and a band.
inline constexpr std::int64_t kStripBytes = 3 << 20, kBandBytes = 1 << 20;

// True if the library has a plan for such strips. `shape`: see stored_gemm.h.
bool library_takes_strips(const GemmShape& shape, int threads);

class StripGemm {
 public:
  StripGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads);
  // plan() without binding.
  static GemmPlan plan_of(const GemmShape& shape, const StoredMatrix& matrix, int threads);

  const GemmPlan& plan() const { return plan_; }
  // Like Gemm::run.
  void run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const;

 private:
  GemmShape shape_;
  StoredMatrix matrix_;
  std::vector<GemmShape> shapes_;                        // the distinct shapes of products
  std::vector<Gemm> gemms_;                              // by shape
  std::array<std::array<std::size_t, 2>, 2> of_part_{};  // index of a product by [last strip][last band]
  GemmPlan plan_;
};

}  // namespace plimsoll::cpu
