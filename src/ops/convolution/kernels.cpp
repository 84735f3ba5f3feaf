#include "ops/convolution/kernels.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/convolution/kernels.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

template <class From, class To>
HWY_INLINE void copy_row(std::int64_t n, const From* from, To* to) {
  map_range(
      0, n, [](Floats v) HWY_ATTR { return v; }, to, from);
}

// Calls f(x, y, elements) for each row of pixels of each patch.
template <class F>
HWY_INLINE void for_patch_rows(const PatchShape& shape, F f) {
  const std::int64_t down = shape.height / shape.patch_h, across = shape.width / shape.patch_w;
  const std::int64_t row = shape.patch_w * shape.channels, patch = shape.patch_h * row;
  for_rows(shape.batch * down, across * patch, [&](std::int64_t strip) HWY_ATTR {
    const std::int64_t first = (strip / down * shape.height + strip % down * shape.patch_h) * shape.width * shape.channels;
    for (std::int64_t y = 0; y < shape.patch_h; ++y) {
      for (std::int64_t x = 0; x < across; ++x) {
        f(first + y * shape.width * shape.channels + x * row, (strip * across + x) * patch + y * row, row);
      }
    }
  });
}

template <class From>
HWY_INLINE void cut_patches_of(const PatchShape& shape, const From* x, Elements y) {
  with_type(y.type, [&]<class To>(To) HWY_ATTR {
    for_patch_rows(shape,
                   [&](std::int64_t from, std::int64_t to, std::int64_t n) HWY_ATTR { copy_row(n, x + from, y.as<To>() + to); });
  });
}

void cut_patches(const PatchShape& shape, ConstElements x, Elements y) {
  with_type(x.type, [&]<class From>(From) HWY_ATTR { cut_patches_of(shape, x.as<From>(), y); });
}

template <class From>
HWY_INLINE void join_patches_of(const PatchShape& shape, const From* dy, Elements dx) {
  with_type(dx.type, [&]<class To>(To) HWY_ATTR {
    for_patch_rows(
        shape, [&](std::int64_t to, std::int64_t from, std::int64_t n) HWY_ATTR { copy_row(n, dy + from, dx.as<To>() + to); });
  });
}

void join_patches(const PatchShape& shape, ConstElements dy, Elements dx) {
  with_type(dy.type, [&]<class From>(From) HWY_ATTR { join_patches_of(shape, dy.as<From>(), dx); });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(cut_patches);
HWY_EXPORT(join_patches);

// Zeros in the rows and columns after the last whole patch.
void clear_rest(const PatchShape& shape, Elements dx) {
  const std::int64_t width = shape.width / shape.patch_w * shape.patch_w, height = shape.height / shape.patch_h * shape.patch_h;
  const std::int64_t pixel = shape.channels * size_of(dx.type);
  for_rows(shape.batch * shape.height, shape.width * shape.channels, [&](std::int64_t row) {
    const std::int64_t kept = row % shape.height < height ? width : 0;
    std::memset(dx.data + (row * shape.width + kept) * pixel, 0, static_cast<std::size_t>((shape.width - kept) * pixel));
  });
}

}  // namespace

void cut_patches(const PatchShape& shape, ConstElements x, Elements y) { HWY_DYNAMIC_DISPATCH(cut_patches)(shape, x, y); }

void join_patches(const PatchShape& shape, ConstElements dy, Elements dx) {
  if (shape.width % shape.patch_w != 0 || shape.height % shape.patch_h != 0) clear_rest(shape, dx);
  HWY_DYNAMIC_DISPATCH(join_patches)(shape, dy, dx);
}

}  // namespace plimsoll::cpu
#endif
