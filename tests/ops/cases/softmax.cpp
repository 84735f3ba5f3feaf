#include "ops/softmax/softmax.h"

#include <algorithm>
#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

void normalise(double* row, std::size_t width) {
  const double top = *std::max_element(row, row + width);
  double sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += row[i] = std::exp(row[i] - top);
  for (std::size_t i = 0; i < width; ++i) row[i] /= sum;
}

std::vector<Numbers> softmax(const ReferenceCall& call) {
  Numbers y = call.values[0];
  const std::size_t width = extent(call.shape(0).last());
  for (std::size_t i = 0; i < y.size(); i += width) normalise(y.data() + i, width);
  return {y};
}

// (dy, y) -> dx = y (dy - sum(dy y))
std::vector<Numbers> softmax_backward(const ReferenceCall& call) {
  const Numbers &dy = call.values[0], &y = call.values[1];
  const std::size_t width = extent(call.shape(0).last());
  Numbers dx(dy.size());
  for (std::size_t row = 0; row < dy.size(); row += width) {
    double dot = 0;
    for (std::size_t i = row; i < row + width; ++i) dot += dy[i] * y[i];
    for (std::size_t i = row; i < row + width; ++i) dx[i] = y[i] * (dy[i] - dot);
  }
  return {dx};
}

}  // namespace

std::vector<OpCases> softmax_cases() {
  std::vector<OpCase> forward, backward;
  // A GPU holds rows of up to 8,192 elements in registers, in pieces of several sizes. It reads wider and odd rows again.
  const std::vector<Shape> shapes{{1},       {7, 1},    {7, 65},   {2, 3, 7}, {9, 200},  {3, 512},  {3, 700},
                                  {3, 1024}, {2, 1600}, {2, 2048}, {2, 8192}, {2, 8200}, {2, 1031}, {4096, 1024}};
  for (const Shape& shape : shapes) {
    const std::size_t width = extent(shape.last());
    forward.push_back({ops::NoAttributes{}, {width < 100 ? wanted(shape, {-5, 5}) : f32(shape, {-5, 5})}});
    OpCase from_y{ops::NoAttributes{}, {f32(shape), f32(shape, {-5, 5})}};
    from_y.derive = [width](std::vector<Numbers>& values) {
      for (std::size_t i = 0; i < values[1].size(); i += width) normalise(values[1].data() + i, width);
    };
    backward.push_back(from_y);
  }
  forward.back().benchmark = backward.back().benchmark = true;
  return {{&ops::kSoftmax, softmax, forward, {}}, {&ops::kSoftmaxBackward, softmax_backward, backward, {}}};
}

}  // namespace plimsoll::test
