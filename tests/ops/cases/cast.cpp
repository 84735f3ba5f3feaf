#include "ops/cast/cast.h"

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

// Rounding is in the tolerance of the narrow dtype.
std::vector<Numbers> cast(const ReferenceCall& call) { return {call.values[0]}; }

}  // namespace

std::vector<OpCases> cast_cases() {
  std::vector<OpCase> cases;
  for (const DType narrow : {DType::bf16, DType::f16}) {
    for (const Shape& shape : std::vector<Shape>{{1}, {7}, {2, 7, 65}, {4096, 1536}}) {
      cases.push_back({ops::CastAttributes{narrow}, {wanted(shape, {-100, 100})}});
      cases.push_back({ops::CastAttributes{DType::f32}, {{{narrow, shape}, {-100, 100}, true}}});
      if (shape[0] == 4096) cases.back().benchmark = (cases.end() - 2)->benchmark = true;
    }
  }
  return {{&ops::kCast, cast, cases, {}}};
}

}  // namespace plimsoll::test
