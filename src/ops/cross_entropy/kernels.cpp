#include "ops/cross_entropy/kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "device/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/floats-inl.h"
#include "hwy/highway.h"
#include "ops/softmax/exp-inl.h"
#include "ops/softmax/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// The sum of term(x[i]) over all classes, tile by tile; term(fill) is 0.
template <class Term>
HWY_INLINE double sum_in_tiles(std::int64_t classes, const float* x, float fill, Term term) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < classes; begin += kClassTile) {
    const std::int64_t end = std::min(classes, begin + kClassTile);
    Floats tile = hn::Zero(F32());
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) tile = hn::Add(tile, term(hn::LoadU(F32(), x + i)));
    if (i < end) tile = hn::Add(tile, term(load_part(x + i, end - i, fill)));
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(F32(), tile)));
  }
  return sum;
}

// Logits are taken relative to the largest one, so that nothing overflows and large ones lose no digits.
HWY_INLINE double exponentials_of_row(std::int64_t classes, const float* x, float most) {
  const Floats top = hn::Set(F32(), most);
  return sum_in_tiles(classes, x, -std::numeric_limits<float>::infinity(),
                      [=](Floats v) HWY_ATTR { return exp_fp32(F32(), hn::Sub(v, top)); });
}

float loss_of_row(std::int64_t classes, const float* x, std::int32_t label, double smoothing) {
  const float most = row_maximum(classes, x);
  double loss = std::log(exponentials_of_row(classes, x, most)) - (1 - smoothing) * static_cast<double>(x[label] - most);
  if (smoothing != 0) {
    const Floats top = hn::Set(F32(), most);
    const double below = sum_in_tiles(classes, x, most, [=](Floats v) HWY_ATTR { return hn::Sub(v, top); });
    loss -= smoothing * below / static_cast<double>(classes);
  }
  return static_cast<float>(loss);
}

void gradient_of_row(std::int64_t classes, const float* x, std::int32_t label, double smoothing, double scale, float* gradient) {
  const float most = row_maximum(classes, x);
  const Floats top = hn::Set(F32(), most);
  const Floats factor = hn::Set(F32(), static_cast<float>(scale / exponentials_of_row(classes, x, most)));
  const Floats less = hn::Set(F32(), static_cast<float>(scale * smoothing / static_cast<double>(classes)));
  const auto of = [=](Floats v) HWY_ATTR { return hn::MulSub(exp_fp32(F32(), hn::Sub(v, top)), factor, less); };
  std::int64_t i = 0;
  for (; i + kLanes <= classes; i += kLanes) hn::StoreU(of(hn::LoadU(F32(), x + i)), F32(), gradient + i);
  if (i < classes) store_part(of(load_part(x + i, classes - i, most)), gradient + i, classes - i);
  gradient[label] -= static_cast<float>(scale * (1 - smoothing));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(loss_of_row);
HWY_EXPORT(gradient_of_row);

void check_labels(const ClassRows& shape, const std::int32_t* labels) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    if (labels[row] < shape.classes) continue;
    throw data_error("E-DATA-LABEL", "cross_entropy", fmt::format("label {} of row {} is no class", labels[row], row),
                     fmt::format("0 to {}, or below 0 for a row that is ignored", shape.classes - 1));
  }
}

}  // namespace

void cross_entropy_forward(const ClassRows& shape, const float* logits, const std::int32_t* labels, float* losses) {
  check_labels(shape, labels);
  for_rows(shape.rows, shape.classes, [&](std::int64_t row) {
    const float* x = logits + row * shape.classes;
    losses[row] =
        labels[row] < 0 ? 0.0F : HWY_DYNAMIC_DISPATCH(loss_of_row)(shape.classes, x, labels[row], shape.label_smoothing);
  });
}

void cross_entropy_backward(const ClassRows& shape, const float* logits, const std::int32_t* labels, float scale,
                            float* gradient) {
  check_labels(shape, labels);
  for_rows(shape.rows, shape.classes, [&](std::int64_t row) {
    const std::int64_t at = row * shape.classes;
    if (labels[row] < 0) return static_cast<void>(std::fill_n(gradient + at, shape.classes, 0.0F));
    HWY_DYNAMIC_DISPATCH(gradient_of_row)
    (shape.classes, logits + at, labels[row], shape.label_smoothing, static_cast<double>(scale), gradient + at);
  });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
