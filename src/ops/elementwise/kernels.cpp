#include "ops/elementwise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/elementwise/activations-inl.h"

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

// The map of arrays of one type.
template <Work kWork, class F, class... In>
HWY_INLINE void map_elements(std::int64_t n, F f, Elements out, In... in) {
  with_type(out.type, [&]<class T>(T) HWY_ATTR { map_all<kWork>(n, f, out.as<T>(), in.template as<T>()...); });
}

void relu_forward(std::int64_t n, ConstElements x, Elements y) {
  // Not Max, which would turn NaN into zero.
  map_elements<Work::little>(
      n, [](Floats v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, set(0)), v); }, y, x);
}

void relu_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  map_elements<Work::little>(
      n, [](Floats g, Floats v) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, set(0)), g); }, dx, dy, x);
}

void gelu_tanh_forward(std::int64_t n, ConstElements x, Elements y) {
  map_elements<Work::much>(
      n, [](Floats v) HWY_ATTR { return gelu_tanh(v).value; }, y, x);
}

void gelu_tanh_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  map_elements<Work::much>(
      n, [](Floats g, Floats v) HWY_ATTR { return hn::Mul(g, gelu_tanh(v).derivative); }, dx, dy, x);
}

void relu6_forward(std::int64_t n, ConstElements x, Elements y) {
  const auto clip = [](Floats v)
                        HWY_ATTR { return hn::IfThenElse(hn::Gt(v, set(6)), set(6), hn::IfThenZeroElse(hn::Lt(v, set(0)), v)); };
  map_elements<Work::little>(n, clip, y, x);
}

void relu6_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  const auto pass = [](Floats g, Floats v)
                        HWY_ATTR { return hn::IfThenElseZero(hn::And(hn::Gt(v, set(0)), hn::Lt(v, set(6))), g); };
  map_elements<Work::little>(n, pass, dx, dy, x);
}

void silu_forward(std::int64_t n, ConstElements x, Elements y) {
  map_elements<Work::much>(
      n, [](Floats v) HWY_ATTR { return silu(v).value; }, y, x);
}

void silu_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  map_elements<Work::much>(
      n, [](Floats g, Floats v) HWY_ATTR { return hn::Mul(g, silu(v).derivative); }, dx, dy, x);
}

void gelu_erf_forward(std::int64_t n, ConstElements x, Elements y) {
  map_elements<Work::much>(
      n, [](Floats v) HWY_ATTR { return gelu_erf(v).value; }, y, x);
}

void gelu_erf_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  map_elements<Work::much>(
      n, [](Floats g, Floats v) HWY_ATTR { return hn::Mul(g, gelu_erf(v).derivative); }, dx, dy, x);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(add);
HWY_EXPORT(multiply);
HWY_EXPORT(scale);
HWY_EXPORT(fill);
HWY_EXPORT(broadcast_last);
HWY_EXPORT(relu_forward);
HWY_EXPORT(relu_backward);
HWY_EXPORT(gelu_tanh_forward);
HWY_EXPORT(gelu_tanh_backward);
HWY_EXPORT(relu6_forward);
HWY_EXPORT(relu6_backward);
HWY_EXPORT(silu_forward);
HWY_EXPORT(silu_backward);
HWY_EXPORT(gelu_erf_forward);
HWY_EXPORT(gelu_erf_backward);

void add(std::int64_t n, const float* a, const float* b, float* out) { HWY_DYNAMIC_DISPATCH(add)(n, a, b, out); }
void multiply(std::int64_t n, const float* a, const float* b, float* out) { HWY_DYNAMIC_DISPATCH(multiply)(n, a, b, out); }
void scale(std::int64_t n, const float* a, float factor, float* out) { HWY_DYNAMIC_DISPATCH(scale)(n, a, factor, out); }
void fill(std::int64_t n, float value, float* out) { HWY_DYNAMIC_DISPATCH(fill)(n, value, out); }
void broadcast_last(std::int64_t rows, std::int64_t n, float factor, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(broadcast_last)(rows, n, factor, x, out);
}
void relu_forward(std::int64_t n, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(relu_forward)(n, x, y); }
void relu_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  HWY_DYNAMIC_DISPATCH(relu_backward)(n, dy, x, dx);
}
void gelu_tanh_forward(std::int64_t n, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(gelu_tanh_forward)(n, x, y); }
void gelu_tanh_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward)(n, dy, x, dx);
}
void relu6_forward(std::int64_t n, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(relu6_forward)(n, x, y); }
void relu6_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  HWY_DYNAMIC_DISPATCH(relu6_backward)(n, dy, x, dx);
}
void silu_forward(std::int64_t n, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(silu_forward)(n, x, y); }
void silu_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  HWY_DYNAMIC_DISPATCH(silu_backward)(n, dy, x, dx);
}
void gelu_erf_forward(std::int64_t n, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(gelu_erf_forward)(n, x, y); }
void gelu_erf_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx) {
  HWY_DYNAMIC_DISPATCH(gelu_erf_backward)(n, dy, x, dx);
}

}  // namespace plimsoll::cpu
#endif
