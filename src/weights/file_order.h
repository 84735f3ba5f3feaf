// The order of a convolution's weights. Files hold [outputs, channels, height, width]; memory holds [height, width, channels,
// outputs], perhaps with merged axes (ParameterInfo::in_files).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace plimsoll {

class FileOrder {
 public:
  // For a parameter with in_files.
  explicit FileOrder(const Shape& in_files) : outputs_(in_files[0]), channels_(in_files[1]), places_(in_files[2] * in_files[3]) {}

  std::int64_t outputs() const { return outputs_; }
  // The numbers of an output, contiguous in files.
  std::int64_t row() const { return channels_ * places_; }

  // Calls visit(place in the row, element of memory) for the numbers of an output that lie in memory's [first, end).
  template <class Visit>
  void for_each(std::int64_t output, std::int64_t first, std::int64_t end, Visit visit) const {
    const std::int64_t begin = std::max<std::int64_t>(0, (first - output + outputs_ - 1) / outputs_);
    for (std::int64_t k = begin; k < row() && k * outputs_ + output < end; ++k) {
      visit(k % channels_ * places_ + k / channels_, k * outputs_ + output);
    }
  }

 private:
  std::int64_t outputs_, channels_, places_;
};

// The shape of a parameter in files.
inline Shape shape_in_files(const Value& value) { return value.parameter->in_files.value_or(tensor_shape(value)); }

}  // namespace plimsoll
