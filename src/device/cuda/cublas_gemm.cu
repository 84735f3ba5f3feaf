#include "device/cuda/cublas_gemm.h"

#include <utility>

#include "base/error.h"
#include "device/cuda/kernels.cuh"

#ifdef __CUDACC__
#include <cublasLt.h>

#include <string_view>

#include "base/hash.h"
#endif

namespace plimsoll::cuda {
namespace {

// The layout of a matrix: rows and columns in memory, and the elements from a row to the next.
struct Stored {
  std::int64_t rows, columns, stride;
};
Stored stored(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t stride) {
  if (transposed) std::swap(rows, columns);
  return {rows, columns, stride == 0 ? columns : stride};
}

}  // namespace

#ifdef __CUDACC__

namespace {

void check(cublasStatus_t status, const GemmShape& shape) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::environment, ExitCode::configuration, "E-CUDA-DEVICE", "cuBLASLt",
              std::string("a product of ") + std::to_string(shape.m) + " x " + std::to_string(shape.k) + " by " +
                  std::to_string(shape.n) + ": " + cublasLtGetStatusString(status),
              "a GPU and a version of cuBLASLt that run it", {});
}

cublasLtHandle_t library() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t created = nullptr;
    check(cublasLtCreate(&created), {});
    return created;
  }();
  return handle;
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F; }

}  // namespace

// The library is column-major: a row-major C = A B is C' = B' A' there, with the same bytes.
struct Gemm::Bound {
  GemmShape shape;
  Bytes workspace;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Bound(const GemmShape& s, Bytes workspace, const GemmStrides& strides) : shape(s), workspace(workspace) {
    check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), shape);
    set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (shape.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(shape.result));
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned_dummy());
    }
    a = layout(stored(shape.k, shape.n, shape.transpose_b, strides.b), shape.operands);
    b = layout(stored(shape.m, shape.k, shape.transpose_a, strides.a), shape.operands);
    c = layout(stored(shape.m, shape.n, false, strides.c), shape.result);
    find_algorithm();
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  ~Bound() {
    for (const cublasLtMatrixLayout_t each : {a, b, c}) cublasLtMatrixLayoutDestroy(each);
    cublasLtMatmulDescDestroy(product);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)), shape);
  }

  cublasLtMatrixLayout_t layout(const Stored& matrix, DType dtype) const {
    cublasLtMatrixLayout_t created = nullptr;
    check(cublasLtMatrixLayoutCreate(&created, type_of(dtype), static_cast<std::uint64_t>(matrix.columns),
                                     static_cast<std::uint64_t>(matrix.rows), matrix.stride),
          shape);
    const auto batch = static_cast<std::int32_t>(shape.batch);
    const std::int64_t apart = matrix.rows * matrix.stride;
    check(cublasLtMatrixLayoutSetAttribute(created, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)), shape);
    check(cublasLtMatrixLayoutSetAttribute(created, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof(apart)), shape);
    return created;
  }

  // The heuristic depends on the alignment of addresses; those of the arena are multiples of 512.
  static const void* aligned_dummy() { return reinterpret_cast<const void*>(std::uintptr_t{1} << 20); }

  void find_algorithm() {
    cublasLtMatmulPreference_t wishes = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wishes), shape);
    const auto set_wish = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(wishes, attribute, &value, sizeof(value)), shape);
    };
    set_wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace.n));
    // Partial sums stay fp32, and are added in a fixed order.
    set_wish(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    cublasLtMatmulHeuristicResult_t first{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library(), product, a, b, c, c, wishes, 1, &first, &found);
    cublasLtMatmulPreferenceDestroy(wishes);
    check(found == 0 && status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status, shape);
    algorithm = first.algo;
  }
};

// A hash of the algorithm's configuration, as far as the library reports it.
std::string Gemm::algorithm() const {
  Hasher hasher;
  const auto add = [&]<class T>(cublasLtMatmulAlgoConfigAttributes_t attribute, T value) {
    std::size_t written = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoConfigGetAttribute(&bound_->algorithm, attribute, &value, sizeof value, &written);
    hasher.add(status == CUBLAS_STATUS_SUCCESS ? std::to_string(value) + " " : "none ");
  };
  for (const auto attribute : {CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                               CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
                               CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, CUBLASLT_ALGO_CONFIG_STAGES_ID}) {
    add(attribute, std::uint32_t{0});
  }
  for (const auto attribute : {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID}) {
    add(attribute, std::uint16_t{0});
  }
  return hasher.hex().substr(0, 16);
}

// The address of the bias is part of the product's description, which the library reads during the call.
void Gemm::run(void* stream, const void* a, const void* b, const void* bias, void* c, std::byte* workspace) const {
  const GemmShape& shape = bound_->shape;
  if (shape.bias) {
    check(cublasLtMatmulDescSetAttribute(bound_->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)), shape);
  }
  const float one = 1, before = shape.accumulate ? 1.0f : 0.0f;
  check(cublasLtMatmul(library(), bound_->product, &one, b, bound_->a, a, bound_->b, &before, c, bound_->c, c, bound_->c,
                       &bound_->algorithm, workspace, static_cast<std::size_t>(bound_->workspace.n),
                       static_cast<cudaStream_t>(stream)),
        shape);
}

#else

struct Gemm::Bound {
  GemmShape shape;
  Stored a, b, c;

  Bound(const GemmShape& s, Bytes, const GemmStrides& strides)
      : shape(s),
        a(stored(s.m, s.k, s.transpose_a, strides.a)),
        b(stored(s.k, s.n, s.transpose_b, strides.b)),
        c(stored(s.m, s.n, false, strides.c)) {}
};

std::string Gemm::algorithm() const { return "loops"; }

namespace {

template <class T, class Result>
void multiply(const GemmShape& s, const Stored& a_rows, const Stored& b_rows, const Stored& c_rows, const T* a, const T* b,
              const Result* bias, Result* c) {
  const auto at = [](const Stored& matrix, bool transposed, std::int64_t i, std::int64_t j) {
    return transposed ? j * matrix.stride + i : i * matrix.stride + j;
  };
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < s.k; ++l) {
        sum += double{widen(a[at(a_rows, s.transpose_a, i, l)])} * widen(b[at(b_rows, s.transpose_b, l, j)]);
      }
      if (bias != nullptr) sum += widen(bias[j]);
      Result& result = c[i * c_rows.stride + j];
      result = narrow<Result>(static_cast<float>(s.accumulate ? widen(result) + sum : sum));
    }
  }
}

}  // namespace

void Gemm::run(void* stream, const void* a, const void* b, const void* bias, void* c, std::byte*) const {
  emulation::submit(stream, [bound = bound_, a, b, bias, c] {
    const GemmShape& s = bound->shape;
    const auto in = [&]<class T, class Result>(T, Result) {
      for (std::int64_t i = 0; i < s.batch; ++i) {
        multiply(s, bound->a, bound->b, bound->c, static_cast<const T*>(a) + i * bound->a.rows * bound->a.stride,
                 static_cast<const T*>(b) + i * bound->b.rows * bound->b.stride, static_cast<const Result*>(bias),
                 static_cast<Result*>(c) + i * bound->c.rows * bound->c.stride);
      }
    };
    const bool wide = s.result == DType::f32;
    if (s.operands == DType::bf16) return wide ? in(Bf16{}, 0.0f) : in(Bf16{}, Bf16{});
    if (s.operands == DType::f16) return wide ? in(F16{}, 0.0f) : in(F16{}, F16{});
    in(0.0f, 0.0f);
  });
}

#endif

Gemm::Gemm(const GemmShape& shape, Bytes workspace, const GemmStrides& strides)
    : bound_(std::make_shared<const Bound>(shape, workspace, strides)) {}

}  // namespace plimsoll::cuda
