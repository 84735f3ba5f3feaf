#include "device/cpu/cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/cast.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

void cast(std::int64_t n, ConstElements x, Elements y) {
  const auto same = [](Floats v) HWY_ATTR { return v; };
  with_type(x.type, [&]<class X>(X)
                        HWY_ATTR { with_type(y.type, [&]<class Y>(Y) HWY_ATTR { map_all(n, same, y.as<Y>(), x.as<X>()); }); });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(cast);

void cast(std::int64_t n, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(cast)(n, x, y); }

Bytes wide_bytes(std::int64_t elements) { return align_up(Bytes{elements * size_of(DType::f32)}, kCacheLine); }

}  // namespace plimsoll::cpu
#endif
