// Matrix products of dense row-major fp32 operands, run by oneDNN or, where oneDNN would hide memory, by our own kernel
// (gemm_tiled.h). plan_gemm tells what will run and every byte that it needs, without running it; Gemm binds it once and runs it
// in the scratch. The implementation follows from the shape, the number of threads, the library and the processor (its
// instruction set and its maker) alone: never from a timing.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace plimsoll::cpu {

// C = A * B (+ bias) (+ C) for each element of the batch. A is m x k, or k x m where transposed; B is k x n, or n x k where
// transposed; bias has n elements, shared by the batch.
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false;
  bool accumulate = false;  // adds to what C holds

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

struct GemmPlan {
  std::string implementation;  // "onednn-2.6.3 brg:avx512_core packed_b"; a part of a plan's hash
  Bytes scratch;               // all of it: the library's scratchpad and the packed operand, each 64-byte aligned
  int primitives = 0;          // pieces of generated code; equal shapes share theirs
};

// `library`: oneDNN may run it; else our own kernel does, and the plan is the same on every processor.
GemmPlan plan_gemm(const GemmShape& shape, int threads, bool library = true);

class Gemm {
 public:
  Gemm(const GemmShape& shape, int threads);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // All pointers are 64-byte aligned; bias and scratch may be null where the shape or the plan needs none. Bits do not depend on
  // addresses nor on what scratch holds. The library's own bookkeeping, a few hundred bytes of heap, is gone when it returns.
  void run(const float* a, const float* b, const float* bias, float* c, std::byte* scratch) const;
  const GemmShape& shape() const { return shape_; }
  const GemmPlan& plan() const { return plan_; }

  struct Bound;  // a oneDNN primitive with its memory objects, shared by Gemms of equal shape

 private:
  GemmShape shape_;
  int threads_;
  GemmPlan plan_;
  std::shared_ptr<const Bound> bound_;  // null: our own kernel runs
};

}  // namespace plimsoll::cpu
