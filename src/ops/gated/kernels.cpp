#include "ops/gated/kernels.h"

#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/elementwise/activations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using ops::Activation;

template <Activation kActivation>
HWY_INLINE Curve curve(Floats x) {
  if constexpr (kActivation == Activation::silu) return silu(x);
  if constexpr (kActivation == Activation::gelu_tanh) return gelu_tanh(x);
  if constexpr (kActivation == Activation::gelu_erf) return gelu_erf(x);
}

template <Activation kActivation>
HWY_INLINE void forward_of(std::int64_t n, ConstElements gate, ConstElements up, Elements out) {
  const auto product = [](Floats g, Floats u) HWY_ATTR { return hn::Mul(curve<kActivation>(g).value, u); };
  with_type(out.type, [&]<class T>(T) HWY_ATTR { map_all<Work::much>(n, product, out.as<T>(), gate.as<T>(), up.as<T>()); });
}

void gated_forward(std::int64_t n, Activation activation, ConstElements gate, ConstElements up, Elements out) {
  switch (activation) {
    case Activation::silu: return forward_of<Activation::silu>(n, gate, up, out);
    case Activation::gelu_tanh: return forward_of<Activation::gelu_tanh>(n, gate, up, out);
    case Activation::gelu_erf: return forward_of<Activation::gelu_erf>(n, gate, up, out);
  }
}

struct GatedGradients {
  Floats gate, up;
};

template <Activation kActivation>
HWY_INLINE GatedGradients gradients(Floats d, Floats g, Floats u) {
  const Curve c = curve<kActivation>(g);
  return {hn::Mul(hn::Mul(d, u), c.derivative), hn::Mul(d, c.value)};
}

template <Activation kActivation, class T>
HWY_INLINE void backward_range(std::int64_t begin, std::int64_t end, const T* d_out, const T* gate, const T* up, T* d_gate,
                               T* d_up) {
  for_vectors(end - begin, [&](std::int64_t from_begin, auto vector) HWY_ATTR {
    const std::int64_t i = begin + from_begin;
    fetch_ahead(d_out + i);
    fetch_ahead(gate + i);
    fetch_ahead(up + i);
    const GatedGradients made =
        gradients<kActivation>(load_at(d_out + i, vector), load_at(gate + i, vector), load_at(up + i, vector));
    if (d_gate != nullptr) store_at(made.gate, d_gate + i, vector);
    if (d_up != nullptr) store_at(made.up, d_up + i, vector);
  });
}

template <Activation kActivation>
HWY_INLINE void backward_of(std::int64_t n, ConstElements d_out, ConstElements gate, ConstElements up, Elements d_gate,
                            Elements d_up) {
  with_type(d_out.type, [&]<class T>(T) HWY_ATTR {
    for_tiles(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      backward_range<kActivation>(begin, end, d_out.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>());
    });
  });
}

void gated_backward(std::int64_t n, Activation activation, ConstElements d_out, ConstElements gate, ConstElements up,
                    Elements d_gate, Elements d_up) {
  switch (activation) {
    case Activation::silu: return backward_of<Activation::silu>(n, d_out, gate, up, d_gate, d_up);
    case Activation::gelu_tanh: return backward_of<Activation::gelu_tanh>(n, d_out, gate, up, d_gate, d_up);
    case Activation::gelu_erf: return backward_of<Activation::gelu_erf>(n, d_out, gate, up, d_gate, d_up);
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(gated_forward);
HWY_EXPORT(gated_backward);

void gated_forward(std::int64_t n, ops::Activation activation, ConstElements gate, ConstElements up, Elements out) {
  HWY_DYNAMIC_DISPATCH(gated_forward)(n, activation, gate, up, out);
}

void gated_backward(std::int64_t n, ops::Activation activation, ConstElements d_out, ConstElements gate, ConstElements up,
                    Elements d_gate, Elements d_up) {
  HWY_DYNAMIC_DISPATCH(gated_backward)(n, activation, d_out, gate, up, d_gate, d_up);
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
