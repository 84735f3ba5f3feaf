#include "ops/dropout/dropout.h"

#include "base/philox.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> dropout(const ReferenceCall& call) {
  const auto& attributes = call.attributes.as<ops::DropoutAttributes>();
  const auto probability = static_cast<float>(attributes.probability);
  const bool tokens = call.shape(1).rank() == 3;
  const std::size_t rows = extent(call.shape(0)[0]) * (tokens ? extent(call.shape(0)[1]) : 1), ids = tokens ? 3 : 2;
  const std::size_t size = call.values[0].size() / rows;
  Numbers y = call.values[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / size;
    const auto epoch = static_cast<std::uint32_t>(call.values[1][ids * row]);
    const auto id = static_cast<std::uint32_t>(call.values[1][ids * row + 1]);
    const std::size_t element = i % size + (tokens ? static_cast<std::size_t>(call.values[1][ids * row + 2]) * size : 0);
    const PhiloxWords words = philox4x32(attributes.key, {static_cast<std::uint32_t>(element / 4), 0, id, epoch});
    y[i] *= unit_float(words[element % 4]) >= probability ? 1 / (1 - double{probability}) : 0;
  }
  return {y};
}

}  // namespace

std::vector<OpCases> dropout_cases() {
  std::vector<OpCase> cases;
  for (const double probability : {0.0, 0.1, 0.5, 0.97}) {
    for (const Shape& shape : std::vector<Shape>{{1}, {3, 7}, {2, 65, 7}, {1, 4099}}) {
      cases.push_back({ops::DropoutAttributes{probability, philox_key(3, 5)}, {wanted(shape), sample_ids(shape[0])}});
    }
  }
  for (const Shape& shape : std::vector<Shape>{{1, 5, 3}, {2, 65, 7}, {3, 9, 1100}, {2, 40, 2, 6}}) {
    OpCase packed{ops::DropoutAttributes{0.3, philox_key(3, 5)}, {wanted(shape), token_ids(shape[0], shape[1])}};
    packed.derive = [tokens = extent(shape[1])](std::vector<Numbers>& values) { make_token_ids(values[1], tokens); };
    cases.push_back(std::move(packed));
  }
  cases.push_back(timed({ops::DropoutAttributes{0.1, philox_key(3, 5)}, {f32({4, 1024, 768}), sample_ids(4)}}));
  return {{&ops::kDropout, dropout, cases, {}}};
}

}  // namespace plimsoll::test
