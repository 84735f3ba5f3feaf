#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cuda_kernel.h"
#include "ops/reduce/row.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct ClassRows {
  std::int64_t rows, classes;
  float smoothing;
  const std::int32_t* labels;
};

// A label that is no class makes the loss NaN, because a kernel cannot report an error.
template <class Row>
__global__ void __launch_bounds__(Row::kBlock) cross_entropy_kernel(ClassRows c, const float* logits, float* losses) {
  for_rows<Row>(c.rows, [&](std::int64_t row) {
    const std::int32_t label = c.labels[row];
    const float* from = logits + row * c.classes;
    const Row x(from, c.classes);
    const float top = max_over(c.classes, x);
    float below = 0;
    if (c.smoothing != 0) below = sum_over(c.classes, x, [=](float e) { return e - top; });
    float loss = logf(sum_over(c.classes, x, [=](float e) { return expf(e - top); }));
    loss -= c.smoothing * below / static_cast<float>(c.classes);
    if (threadIdx.x % Row::kThreads != 0) return;
    loss -= (1 - c.smoothing) * (label < c.classes ? from[label < 0 ? 0 : label] - top : NAN);
    losses[row] = label < 0 ? 0.0f : loss;
  });
}

// The gradient may overwrite the logits: a thread writes only elements that it alone has read.
template <class Row>
__global__ void __launch_bounds__(Row::kBlock)
    cross_entropy_backward_kernel(ClassRows c, const float* scale_of, const float* logits, float* gradient) {
  const float scale = *scale_of, less = scale * c.smoothing / static_cast<float>(c.classes);
  for_rows<Row>(c.rows, [&](std::int64_t row) {
    const std::int32_t label = c.labels[row];
    const Row x(logits + row * c.classes, c.classes);
    const float top = max_over(c.classes, x);
    const float factor = scale / sum_over(c.classes, x, [=](float e) { return expf(e - top); });
    Row::for_each(c.classes, [&](int p, std::int64_t column) {
      Pack<float, Row::kElements> pack = x.at(p, column);
#pragma unroll
      for (int e = 0; e < Row::kElements; ++e) {
        float slope = expf(pack.at[e] - top) * factor - less;
        if (column + e == label) slope -= scale * (1 - c.smoothing);
        pack.at[e] = label < 0 ? 0.0f : label < c.classes ? slope : NAN;
      }
      store_pack(pack, gradient + row * c.classes + column);
    });
  });
}

}  // namespace
}  // namespace cuda

namespace {

cuda::ClassRows rows_of(const KernelRequest& request) {
  const Rows x(request.inputs[0]);
  const auto& attributes = request.attributes->as<ops::CrossEntropyAttributes>();
  return {x.rows, x.width, static_cast<float>(attributes.label_smoothing), nullptr};
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return cuda::with_row(request.inputs[0].shape.last(), [of_all = rows_of(request)]<class Row>(std::type_identity<Row>) {
    return make_kernel([of_all](const KernelCall& call) {
      cuda::ClassRows rows = of_all;
      rows.labels = call.in<std::int32_t>(1);
      cuda::launch(cuda::cross_entropy_kernel<Row>, cuda::grid_of_rows<Row>(rows.rows), call.stream, rows, call.in(0),
                   call.out(0));
    });
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return cuda::with_row(request.inputs[0].shape.last(), [of_all = rows_of(request)]<class Row>(std::type_identity<Row>) {
    return make_kernel([of_all](const KernelCall& call) {
      cuda::ClassRows rows = of_all;
      rows.labels = call.in<std::int32_t>(1);
      cuda::launch(cuda::cross_entropy_backward_kernel<Row>, cuda::grid_of_rows<Row>(rows.rows), call.stream, rows, call.in(2),
                   call.in(0), call.out(0));
    });
  });
}

}  // namespace

CudaKernels cross_entropy_cuda_kernels() { return {{&ops::kCrossEntropy, bind}, {&ops::kCrossEntropyBackward, bind_backward}}; }

}  // namespace plimsoll
