#include "ops/score/score.h"

#include "ops/attributes.h"
#include "ops/cases/cases.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> score(const ReferenceCall& call) {
  const std::size_t n = extent(call.shape(0)[0]), c = extent(call.shape(0)[1]), v = extent(call.outputs[0].shape[1]);
  const Numbers table = elements_of(call.attributes.as<ops::ScoreAttributes>().blocks, call.values[1]);
  Numbers logits(n * v);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < v; ++j) {
      for (std::size_t k = 0; k < c; ++k) logits[i * v + j] += call.values[0][i * c + k] * table[j * c + k];
    }
  }
  return {logits};
}

OpCase score_case(std::int64_t n, std::int64_t v, std::int64_t c) { return {ops::ScoreAttributes{}, {f32({n, c}), f32({v, c})}}; }

OpCase of_blocks(std::int64_t n, std::int64_t v, std::int64_t c, BlockFormat format) {
  OpCase result = with_blocks(format, 1, score_case(n, v, c));
  result.attributes = ops::ScoreAttributes{BlockMatrix{format, v, c}};
  return result;
}

}  // namespace

std::vector<OpCases> score_cases() {
  return {{&ops::kScore,
           score,
           {score_case(1, 1, 1), score_case(3, 7, 5), score_case(1, 1024, 16), score_case(2, 2049, 8), score_case(33, 3000, 12),
            with_inputs_of(DType::bf16, {1}, score_case(3, 1030, 9)), of_blocks(3, 1030, 9, BlockFormat::nf4_nested),
            of_blocks(2, 7, 5, BlockFormat::int8), of_blocks(2, 1025, 32, BlockFormat::q8_0), score_case(8, 2049, 70),
            with_inputs_of(DType::bf16, {1}, score_case(12, 1030, 9)), of_blocks(12, 1030, 9, BlockFormat::nf4_nested),
            of_blocks(9, 1025, 32, BlockFormat::q8_0), timed(score_case(1, 49152, 576)), timed(score_case(256, 49152, 576))},
           {}}};
}

}  // namespace plimsoll::test
