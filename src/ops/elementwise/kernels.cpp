#include "ops/elementwise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/kernels.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "ops/elementwise/activations-inl.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

void add(std::int64_t n, const float* a, const float* b, float* out) {
  map_all(
      n, [](Floats x, Floats y) HWY_ATTR { return hn::Add(x, y); }, out, a, b);
}

void multiply(std::int64_t n, const float* a, const float* b, float* out) {
  map_all(
      n, [](Floats x, Floats y) HWY_ATTR { return hn::Mul(x, y); }, out, a, b);
}

void scale(std::int64_t n, const float* a, float factor, float* out) {
  map_all(
      n, [=](Floats x) HWY_ATTR { return hn::Mul(x, set(factor)); }, out, a);
}

void fill(std::int64_t n, float value, float* out) {
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) hn::StoreU(set(value), F32(), out + i);
    store_part(set(value), out + i, end - i);
  });
}

void broadcast_last(std::int64_t rows, std::int64_t n, float factor, const float* x, float* out) {
  for_row_tiles(rows, n, [=](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    const float value = factor * x[row];
    for (std::int64_t i = begin; i < end; ++i) out[row * n + i] = value;
  });
}

template <class T>
HWY_INLINE void relu_forward_of(std::int64_t n, const T* x, T* y) {
  // Not Max, which would turn NaN into zero.
  map_all(
      n, [](Floats v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, set(0)), v); }, y, x);
}

template <class T>
HWY_INLINE void relu_backward_of(std::int64_t n, const T* dy, const T* x, T* dx) {
  map_all(
      n, [](Floats g, Floats v) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, set(0)), g); }, dx, dy, x);
}

template <class T>
HWY_INLINE void gelu_tanh_forward_of(std::int64_t n, const T* x, T* y) {
  map_all<Work::much>(
      n, [](Floats v) HWY_ATTR { return gelu_tanh(v).value; }, y, x);
}

template <class T>
HWY_INLINE void gelu_tanh_backward_of(std::int64_t n, const T* dy, const T* x, T* dx) {
  map_all<Work::much>(
      n, [](Floats g, Floats v) HWY_ATTR { return hn::Mul(g, gelu_tanh(v).derivative); }, dx, dy, x);
}

// HWY_EXPORT knows no overloads.
void relu_forward_f32(std::int64_t n, const float* x, float* y) { relu_forward_of(n, x, y); }
void relu_backward_f32(std::int64_t n, const float* dy, const float* x, float* dx) { relu_backward_of(n, dy, x, dx); }
void relu_forward_bf16(std::int64_t n, const std::uint16_t* x, std::uint16_t* y) { relu_forward_of(n, x, y); }
void relu_forward_f16(std::int64_t n, const F16* x, F16* y) { relu_forward_of(n, x, y); }
void relu_backward_bf16(std::int64_t n, const std::uint16_t* dy, const std::uint16_t* x, std::uint16_t* dx) {
  relu_backward_of(n, dy, x, dx);
}
void relu_backward_f16(std::int64_t n, const F16* dy, const F16* x, F16* dx) { relu_backward_of(n, dy, x, dx); }
void gelu_tanh_forward_f32(std::int64_t n, const float* x, float* y) { gelu_tanh_forward_of(n, x, y); }
void gelu_tanh_backward_f32(std::int64_t n, const float* dy, const float* x, float* dx) { gelu_tanh_backward_of(n, dy, x, dx); }
void gelu_tanh_forward_bf16(std::int64_t n, const std::uint16_t* x, std::uint16_t* y) { gelu_tanh_forward_of(n, x, y); }
void gelu_tanh_forward_f16(std::int64_t n, const F16* x, F16* y) { gelu_tanh_forward_of(n, x, y); }
void gelu_tanh_backward_bf16(std::int64_t n, const std::uint16_t* dy, const std::uint16_t* x, std::uint16_t* dx) {
  gelu_tanh_backward_of(n, dy, x, dx);
}
void gelu_tanh_backward_f16(std::int64_t n, const F16* dy, const F16* x, F16* dx) { gelu_tanh_backward_of(n, dy, x, dx); }

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(add);
HWY_EXPORT(multiply);
HWY_EXPORT(scale);
HWY_EXPORT(fill);
HWY_EXPORT(broadcast_last);
HWY_EXPORT(relu_forward_f32);
HWY_EXPORT(relu_forward_bf16);
HWY_EXPORT(relu_forward_f16);
HWY_EXPORT(relu_backward_f32);
HWY_EXPORT(relu_backward_bf16);
HWY_EXPORT(relu_backward_f16);
HWY_EXPORT(gelu_tanh_forward_f32);
HWY_EXPORT(gelu_tanh_forward_bf16);
HWY_EXPORT(gelu_tanh_forward_f16);
HWY_EXPORT(gelu_tanh_backward_f32);
HWY_EXPORT(gelu_tanh_backward_bf16);
HWY_EXPORT(gelu_tanh_backward_f16);

void add(std::int64_t n, const float* a, const float* b, float* out) { HWY_DYNAMIC_DISPATCH(add)(n, a, b, out); }
void multiply(std::int64_t n, const float* a, const float* b, float* out) { HWY_DYNAMIC_DISPATCH(multiply)(n, a, b, out); }
void scale(std::int64_t n, const float* a, float factor, float* out) { HWY_DYNAMIC_DISPATCH(scale)(n, a, factor, out); }
void fill(std::int64_t n, float value, float* out) { HWY_DYNAMIC_DISPATCH(fill)(n, value, out); }
void broadcast_last(std::int64_t rows, std::int64_t n, float factor, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(broadcast_last)(rows, n, factor, x, out);
}
void relu_forward(std::int64_t n, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(relu_forward_f32)(n, x, y); }
void relu_backward(std::int64_t n, const float* dy, const float* x, float* dx) {
  HWY_DYNAMIC_DISPATCH(relu_backward_f32)(n, dy, x, dx);
}
void relu_forward(std::int64_t n, const std::uint16_t* x, std::uint16_t* y) { HWY_DYNAMIC_DISPATCH(relu_forward_bf16)(n, x, y); }
void relu_backward(std::int64_t n, const std::uint16_t* dy, const std::uint16_t* x, std::uint16_t* dx) {
  HWY_DYNAMIC_DISPATCH(relu_backward_bf16)(n, dy, x, dx);
}
void gelu_tanh_forward(std::int64_t n, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(gelu_tanh_forward_f32)(n, x, y); }
void gelu_tanh_backward(std::int64_t n, const float* dy, const float* x, float* dx) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward_f32)(n, dy, x, dx);
}
void gelu_tanh_forward(std::int64_t n, const std::uint16_t* x, std::uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_forward_bf16)(n, x, y);
}
void gelu_tanh_backward(std::int64_t n, const std::uint16_t* dy, const std::uint16_t* x, std::uint16_t* dx) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward_bf16)(n, dy, x, dx);
}
void relu_forward(std::int64_t n, const F16* x, F16* y) { HWY_DYNAMIC_DISPATCH(relu_forward_f16)(n, x, y); }
void gelu_tanh_forward(std::int64_t n, const F16* x, F16* y) { HWY_DYNAMIC_DISPATCH(gelu_tanh_forward_f16)(n, x, y); }
void relu_backward(std::int64_t n, const F16* dy, const F16* x, F16* dx) {
  HWY_DYNAMIC_DISPATCH(relu_backward_f16)(n, dy, x, dx);
}
void gelu_tanh_backward(std::int64_t n, const F16* dy, const F16* x, F16* dx) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward_f16)(n, dy, x, dx);
}

}  // namespace plimsoll::cpu
#endif
