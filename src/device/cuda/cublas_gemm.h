// Matrix products on a GPU through cuBLASLt. The algorithm is its heuristic's first answer for the shape, within a workspace that
// does not depend on the budget: the bits follow from shape, GPU and library. Over the emulation, plain loops take its place.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cuda {

// Elements from one row of a matrix as it lies in memory to the next; 0: rows follow each other.
struct GemmStrides {
  std::int64_t a = 0, b = 0, c = 0;
};

class Gemm {
 public:
  // `workspace`: what the library may use, one for all shapes. Throws E-CUDA-DEVICE where it has no algorithm for this one.
  Gemm(const GemmShape& shape, Bytes workspace, const GemmStrides& strides = {});

  // The library's algorithm: the same text is the same bits, on one GPU and with one version of the library.
  std::string algorithm() const;

  // Pointers of the device, multiples of 256 bytes. The bias is of the result's type.
  void run(void* stream, const void* a, const void* b, const void* bias, void* c, std::byte* workspace) const;

 private:
  struct Bound;
  std::shared_ptr<const Bound> bound_;
};

}  // namespace plimsoll::cuda
