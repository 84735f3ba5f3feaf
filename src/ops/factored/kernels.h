// Adafactor on the CPU (ops/factored/factored.h): passes over flat ranges of a parameter of `rows` x `columns` elements. A
// parameter with a full second moment is one row, and `columns` points to that moment. The tiles of sums depend on the shape
// alone, so that neither threads nor ranges change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "ops/update/kernels.h"

namespace plimsoll::cpu {

struct FactoredShape {
  std::int64_t rows = 1, columns = 0;
  bool factored = true;
  std::int64_t elements() const { return rows * columns; }
};

// The elements of a call; `begin` is a multiple of ops::kNormTile. Calls come in ascending order.
struct FactoredRange {
  std::int64_t begin = 0, count = 0;
};

// The gradient of an update: times scale, then limited to [-clip_value, clip_value] if that is not 0.
struct FactoredGradient {
  ConstElements numbers;  // the range's elements
  float scale = 1, clip_value = 0;
};

// Second moments: of the rows [rows] and of the columns [columns], or, without rows, of the elements of the range.
struct Variance {
  float *rows, *columns;
};

// row += blend (mean of squares over the columns - row), and the columns likewise, once all ranges have been seen; or each
// element.
Bytes update_variance_scratch(const FactoredShape& shape);
void update_variance(const FactoredShape& shape, const FactoredRange& range, const Variance& variance, const FactoredGradient& g,
                     double blend, std::byte* scratch);

// The sums of squares of p and of u = g / sqrt(variance), which is row x column / mean of the rows, or the element.
struct Sizes {
  double parameter = 0, update = 0;
};
Bytes update_size_scratch(const FactoredShape& shape);
// Returns `before` plus the sums of the range. p points to the range's first element.
Sizes update_size(const FactoredShape& shape, const FactoredRange& range, Elements p, const Variance& variance,
                  const FactoredGradient& g, Sizes before, std::byte* scratch);

struct AdafactorStep {
  double lr = 1e-2, weight_decay = 0;
  std::int64_t update = 1;
  Sizes sizes;
  double average_blend = 0;
  bool first = false;  // the average begins as the parameter
};

// Updates p, fp32 or rounded to bf16, and its average (null: none); both point to the range's first element. Returns the change
// of all of p without the decay.
Change adafactor(const FactoredShape& shape, const FactoredRange& range, Elements p, float* average, const Variance& variance,
                 const FactoredGradient& g, const AdafactorStep& step, const StochasticRounding& rounding = {});

}  // namespace plimsoll::cpu
