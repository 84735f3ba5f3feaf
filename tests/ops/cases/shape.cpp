#include "ops/cases/cases.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> reshape(const ReferenceCall& call) { return {call.values[0]}; }

std::vector<Numbers> transpose(const ReferenceCall& call) {
  const std::size_t rows = extent(call.shape(0).last(1)), columns = extent(call.shape(0).last()), matrix = rows * columns;
  Numbers out(call.values[0].size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t row = i % matrix / columns, column = i % columns;
    out[i / matrix * matrix + column * rows + row] = call.values[0][i];
  }
  return {out};
}

}  // namespace

std::vector<OpCases> shape_cases() {
  std::vector<OpCase> transposes;
  for (const Shape& shape : std::vector<Shape>{{1, 1}, {7, 65}, {65, 1}, {2, 3, 7, 5}, {130, 67}}) {
    transposes.push_back({ops::NoAttributes{}, {wanted(shape)}});
  }
  transposes.push_back(timed({ops::NoAttributes{}, {f32({8192, 1024})}}));
  const std::vector<OpCase> reshapes{{ops::ReshapeAttributes{{65, 14}}, {wanted({7, 130})}},
                                     {ops::ReshapeAttributes{{1}}, {wanted(Shape{})}},
                                     {ops::ReshapeAttributes{{2, 1, 7}}, {wanted({14})}},
                                     {ops::ReshapeAttributes{{6}}, {i32({2, 3}, -5, 5)}}};
  return {{&ops::kReshape, reshape, reshapes, {}}, {&ops::kTranspose, transpose, transposes, {}}};
}

}  // namespace plimsoll::test
