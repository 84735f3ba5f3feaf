#include "ops/cuda_kernel.h"
#include "ops/reduce/row.cuh"
#include "ops/softmax/softmax.h"

namespace plimsoll {
namespace cuda {
namespace {

// The exponentials of a row in registers replace its numbers; for other rows they are computed again.
template <class Row>
__global__ void __launch_bounds__(Row::kBlock)
    softmax_kernel(std::int64_t rows, std::int64_t width, const float* from, float* to) {
  for_rows<Row>(rows, [&](std::int64_t row) {
    Row x(from + row * width, width);
    const float top = max_over(width, x);
    if constexpr (Row::kHeld) {
      Row::for_each(width, [&](int p, std::int64_t column) {
        Pack<float, Row::kElements> pack = x.at(p, column);
#pragma unroll
        for (int e = 0; e < Row::kElements; ++e) pack.at[e] = expf(pack.at[e] - top);
        x.set(p, pack);
      });
    }
    const auto exponential = [&](float e) { return Row::kHeld ? e : expf(e - top); };
    const float inverse = 1.0f / sum_over(width, x, exponential);
    Row::for_each(width, [&](int p, std::int64_t column) {
      Pack<float, Row::kElements> pack = x.at(p, column);
#pragma unroll
      for (int e = 0; e < Row::kElements; ++e) pack.at[e] = exponential(pack.at[e]) * inverse;
      store_pack(pack, to + row * width + column);
    });
  });
}

// dx = y (dy - sum(dy y))
template <class Row>
__global__ void __launch_bounds__(Row::kBlock)
    softmax_backward_kernel(std::int64_t rows, std::int64_t width, const float* dy_rows, const float* y_rows, float* dx_rows) {
  for_rows<Row>(rows, [&](std::int64_t row) {
    const Row dy(dy_rows + row * width, width), y(y_rows + row * width, width);
    float dot = 0;
    Row::for_each(width, [&](int p, std::int64_t column) {
      const Pack<float, Row::kElements> a = dy.at(p, column), b = y.at(p, column);
#pragma unroll
      for (int e = 0; e < Row::kElements; ++e) dot += a.at[e] * b.at[e];
    });
    dot = sum_of_threads<Row>(dot);
    Row::for_each(width, [&](int p, std::int64_t column) {
      Pack<float, Row::kElements> dx = dy.at(p, column);
      const Pack<float, Row::kElements> of_y = y.at(p, column);
#pragma unroll
      for (int e = 0; e < Row::kElements; ++e) dx.at[e] = of_y.at[e] * (dx.at[e] - dot);
      store_pack(dx, dx_rows + row * width + column);
    });
  });
}

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return cuda::with_row(request.inputs[0].shape.last(), [x = Rows(request.inputs[0])]<class Row>(std::type_identity<Row>) {
    return make_kernel([x](const KernelCall& call) {
      cuda::launch(cuda::softmax_kernel<Row>, cuda::grid_of_rows<Row>(x.rows), call.stream, x.rows, x.width, call.in(0),
                   call.out(0));
    });
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return cuda::with_row(request.inputs[0].shape.last(), [x = Rows(request.inputs[0])]<class Row>(std::type_identity<Row>) {
    return make_kernel([x](const KernelCall& call) {
      cuda::launch(cuda::softmax_backward_kernel<Row>, cuda::grid_of_rows<Row>(x.rows), call.stream, x.rows, x.width, call.in(0),
                   call.in(1), call.out(0));
    });
  });
}

}  // namespace

CudaKernels softmax_cuda_kernels() { return {{&ops::kSoftmax, bind}, {&ops::kSoftmaxBackward, bind_backward}}; }

}  // namespace plimsoll
