#include "ops/block_matmul/cuda.h"

#include <optional>

#include "base/hash.h"
#include "device/cuda/cublas_gemm.h"
#include "device/cuda/decode_blocks.h"
#include "ops/cuda_kernel.h"
#include "ops/matmul/bias.cuh"

namespace plimsoll {
namespace {

class BlockMatmul {
 public:
  explicit BlockMatmul(const KernelRequest& request)
      : strips_(request), matrix_(matrix_of(request)), whole_(product(strips_.columns)) {
    if (const std::int64_t rest = strips_.shape.n % strips_.columns; rest > 0) last_.emplace(product(rest));
  }

  // The algorithms of its products.
  std::string algorithm() const {
    return last_ ? hash_hex(whole_.algorithm() + last_->algorithm()).substr(0, 16) : whole_.algorithm();
  }

  void run(const KernelCall& call) const {
    const GemmShape& shape = strips_.shape;
    const std::byte* w = call.in<std::byte>(1);
    const auto* bias = static_cast<const std::byte*>(cuda::bias_of_product(shape, call));
    std::byte *const strip = call.scratch + strips_.product.n, *y = call.out<std::byte>(0);
    for (std::int64_t column = 0; column < shape.n; column += strips_.columns) {
      const std::int64_t columns = std::min(strips_.columns, shape.n - column), at = column * size_of(shape.result);
      if (strips_.decodes) cuda::decode(call.stream, matrix_, w, part(column, columns), shape.operands, strip);
      const cuda::Gemm& gemm = columns < strips_.columns ? *last_ : whole_;
      gemm.run(call.stream, call.in<void>(0), strips_.decodes ? strip : w, bias == nullptr ? nullptr : bias + at, y + at,
               call.scratch);
    }
  }

 private:
  static cuda::FrozenMatrix matrix_of(const KernelRequest& request) {
    const auto& attributes = request.attributes->as<ops::BlockMatmulAttributes>();
    const ops::BlockMatmulExtents e = ops::block_matmul_extents(attributes, request.inputs);
    const auto [rows, columns] = attributes.transposed ? std::pair(e.n, e.k) : std::pair(e.k, e.n);
    return {request.inputs[1].dtype, attributes.blocks, rows, columns};
  }

  cuda::Gemm product(std::int64_t columns) const {
    GemmShape shape = strips_.shape;
    shape.n = columns;
    return {shape, kGemmWorkspace, {.c = strips_.shape.n}};
  }

  // The part of W that is these columns of op(W).
  cuda::MatrixPart part(std::int64_t column, std::int64_t columns) const {
    if (strips_.shape.transpose_b) return {column, columns, 0, strips_.shape.k};
    return {0, strips_.shape.k, column, columns};
  }

  CudaStrips strips_;
  cuda::FrozenMatrix matrix_;
  cuda::Gemm whole_;
  std::optional<cuda::Gemm> last_;  // for a shorter last strip
};

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const BlockMatmul product(request);
  return make_kernel([product](const KernelCall& call) { product.run(call); }, product.algorithm());
}

}  // namespace

CudaKernels block_matmul_cuda_kernels() { return {{&ops::kBlockMatmul, bind}}; }

}  // namespace plimsoll
