// Software prefetch, during one piece of work, of the memory of the next pieces: hardware does not foresee many short rows.
// Included once for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_AHEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_AHEAD_INL_H_
#undef PLIMSOLL_DEVICE_CPU_AHEAD_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_AHEAD_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kStepsPerLine = 4;  // a product fetches one line per this number of steps of k
inline constexpr std::int64_t kLineFloats = 16;

struct Region {
  const float* first;
  std::int64_t stride, rows, columns;  // floats
};

// Gives out the cache lines of several regions, in the order in which they were added. Lines are fetched into the second-level
// cache, because the first level is full. A few lines may be fetched twice, and a few past a region's end.
class Ahead {
 public:
  // `idle`: the line that is fetched again and again after the last region.
  explicit Ahead(const float* idle) : idle_(idle) {}

  void add(const Region& region) {
    if (region.rows > 0 && region.columns > 0 && count_ < kMostRegions) regions_[count_++] = region;
  }

  struct Lines {
    const float* next;
    std::int64_t step;

    HWY_INLINE void fetch_next() {
      __builtin_prefetch(next, 0, 2);
      next += step;
    }
  };

  Lines idle() const { return {idle_, 0}; }

  // The next `lines` lines: along a row if rows are long, else down the rows.
  HWY_INLINE Lines take(std::int64_t lines) {
    if (at_ == count_) return idle();
    const Region& region = regions_[at_];
    const bool along = region.columns >= kLineFloats * lines;
    const std::int64_t row = along ? row_ : std::max(std::int64_t{0}, std::min(row_, region.rows - lines));
    const std::int64_t column = along ? std::min(column_, region.columns - kLineFloats * lines) : column_;
    (along ? column_ : row_) += along ? kLineFloats * lines : lines;
    if (along && column_ >= region.columns) column_ = 0, ++row_;
    if (!along && row_ >= region.rows) row_ = 0, column_ += kLineFloats;
    if (row_ >= region.rows || column_ >= region.columns) row_ = column_ = 0, ++at_;
    return {region.first + row * region.stride + column, along ? kLineFloats : region.stride};
  }

 private:
  static constexpr int kMostRegions = 8;
  const float* idle_;
  Region regions_[kMostRegions] = {};
  int count_ = 0, at_ = 0;
  std::int64_t row_ = 0, column_ = 0;
};

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_AHEAD_INL_H_
