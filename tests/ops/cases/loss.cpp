#include "ops/loss/loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/cases/cases.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::test {
namespace {

// Loss of one row of h, and its derivative by the logits.
double row_loss(const double* h, const Numbers& w, std::size_t width, std::size_t target, const ops::LossAttributes& terms,
                Numbers& d) {
  d.assign(w.size() / width, 0);
  for (std::size_t v = 0; v < d.size(); ++v) {
    for (std::size_t i = 0; i < width; ++i) d[v] += h[i] * w[v * width + i];
  }
  const double logit = d[target], top = *std::max_element(d.begin(), d.end()), s = terms.label_smoothing, z = terms.z_loss;
  const double size = static_cast<double>(d.size()), mean = std::accumulate(d.begin(), d.end(), 0.0) / size;
  double sum = 0;
  for (double& x : d) sum += x = std::exp(x - top);
  const double l = top + std::log(sum);
  for (double& x : d) x = x / sum * (1 + 2 * z * l) - s / size;
  d[target] -= 1 - s;
  return l - (1 - s) * logit - s * mean + z * l * l;
}

// Elements of blocks are rounded if h is. For tables of numbers the case decides.
Numbers table_of(const ReferenceCall& call) {
  const auto& blocks = call.attributes.as<ops::LossAttributes>().blocks;
  return blocks ? round_to(elements_of(*blocks, call.values[1]), call.inputs[0].dtype) : call.values[1];
}

std::vector<Numbers> loss(const ReferenceCall& call) {
  const Numbers &h = call.values[0], w = table_of(call), &targets = call.values[2];
  const std::size_t width = extent(call.shape(0).last());
  Numbers losses(targets.size()), p;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    const auto& terms = call.attributes.as<ops::LossAttributes>();
    losses[row] = row_loss(h.data() + row * width, w, width, static_cast<std::size_t>(targets[row]), terms, p);
  }
  return {losses};
}

std::vector<Numbers> loss_backward(const ReferenceCall& call) {
  const Numbers &h = call.values[0], w = table_of(call), &targets = call.values[2];
  const std::size_t width = extent(call.shape(0).last());
  Numbers losses(targets.size()), dh(h.size()), p;
  const auto& terms = call.attributes.as<ops::LossAttributes>();
  Numbers dw = terms.accumulate ? call.values[4] : Numbers(w.size());
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    const auto target = static_cast<std::size_t>(targets[row]);
    losses[row] = row_loss(h.data() + row * width, w, width, target, terms, p);
    for (std::size_t v = 0; v < p.size(); ++v) {
      for (std::size_t i = 0; i < width; ++i) {
        dh[row * width + i] += call.values[3][0] * p[v] * w[v * width + i];
        dw[v * width + i] += call.values[3][0] * p[v] * h[row * width + i];
      }
    }
  }
  std::vector<Numbers> outputs{losses};
  if (terms.h) outputs.push_back(dh);
  if (terms.w) outputs.push_back(dw);
  return outputs;
}

struct Extents {
  std::int64_t batch, tokens, width, vocab;
  std::vector<CaseInput> inputs() const {
    return {wanted({batch, tokens, width}, {-2, 2}), wanted({vocab, width}, {-0.5, 0.5}),
            i32({batch, tokens}, -1, static_cast<double>(vocab)), f32({1}, {0.01, 0.1})};
  }
};

OpCase forward(const Extents& e, int chunks, const ops::LossAttributes& terms = {}) { return {terms, e.inputs(), false, chunks}; }

OpCase backward(const Extents& e, int chunks, bool accumulate, ops::LossAttributes terms = {}) {
  terms.accumulate = accumulate;
  OpCase result{terms, e.inputs(), false, chunks};
  if (accumulate) result.inputs.push_back(f32({e.vocab, e.width}, {-0.01, 0.01}));
  return result;
}

// With h of 16 bits, and a table of numbers that 16 bits hold: logits are exact, and their gradient is rounded.
OpCase narrow(OpCase a_case, DType dtype) {
  a_case = with_inputs_of(dtype, {0}, std::move(a_case));
  a_case.derive = [dtype](std::vector<Numbers>& values) { values[1] = round_to(values[1], dtype); };
  a_case.rounds_within = dtype;
  return a_case;
}

// With a table that is narrow itself.
OpCase with_narrow_table(OpCase a_case) {
  a_case.inputs[1].type.dtype = a_case.inputs[0].type.dtype;
  return a_case;
}

// With a table in blocks.
OpCase of_blocks(OpCase a_case, BlockFormat format) {
  auto attributes = a_case.attributes.as<ops::LossAttributes>();
  const Shape& table = a_case.inputs[1].type.shape;
  attributes.blocks = BlockMatrix{format, table[0], table[1]};
  a_case.attributes = attributes;
  return with_blocks(format, 1, std::move(a_case));
}

OpCase ignoring_everything(OpCase a_case) {
  a_case.inputs[2].fill = {-1, 0};
  return a_case;
}

}  // namespace

std::vector<OpCases> loss_cases() {
  OpCases forward_cases{&ops::kLinearCrossEntropy, loss, {}, 3},
      backward_cases{&ops::kLinearCrossEntropyBackward, loss_backward, {}, {}};
  for (const Extents& e : {Extents{1, 1, 1, 2}, Extents{2, 7, 16, 65}, Extents{1, 65, 7, 300}, Extents{3, 5, 9, 1}}) {
    forward_cases.cases.push_back(forward(e, 1));
    backward_cases.cases.insert(backward_cases.cases.end(),
                                {backward(e, 1, false), backward(e, 1, true), in_window(backward(e, 1, true))});
  }
  forward_cases.cases.push_back(forward({1, 9, 3, 2100}, 1));
  // Several tiles of tokens and of the vocabulary, in few chunks and in many.
  const Extents tiled{1, 300, 8, 2100};
  for (const int chunks : {1, 2, 5, 64}) backward_cases.cases.push_back(backward(tiled, chunks, true));
  for (const ops::LossAttributes& terms :
       {ops::LossAttributes{0.1, 0}, ops::LossAttributes{0, 1e-2}, ops::LossAttributes{0.3, 1e-3}}) {
    forward_cases.cases.push_back(forward({2, 7, 16, 65}, 1, terms));
    for (const int chunks : {1, 5, 64}) backward_cases.cases.push_back(backward(tiled, chunks, true, terms));
  }
  // A frozen table; a trained table above frozen layers.
  const Extents small{2, 7, 16, 65};
  for (const OpCase& frozen : {backward(small, 1, false, {.w = false}), backward(small, 1, false, {.h = false}),
                               backward(small, 1, true, {.h = false}), in_window(backward(small, 1, true, {.h = false}))}) {
    backward_cases.cases.push_back(frozen);
    backward_cases.cases.push_back(narrow(frozen, DType::bf16));
  }
  backward_cases.cases.push_back(backward(tiled, 5, false, {.w = false}));
  backward_cases.cases.push_back(backward(tiled, 64, true, {.h = false}));
  forward_cases.cases.push_back(ignoring_everything(forward({2, 7, 16, 65}, 1)));
  backward_cases.cases.push_back(ignoring_everything(backward({2, 7, 16, 65}, 1, true)));
  forward_cases.cases.push_back(narrow(forward({2, 7, 16, 65}, 1), DType::bf16));
  forward_cases.cases.back().rounds_within.reset();
  forward_cases.cases.push_back(narrow(forward({1, 9, 5, 2100}, 1), DType::bf16));
  for (const int chunks : {1, 5, 64}) backward_cases.cases.push_back(narrow(backward(tiled, chunks, true), DType::bf16));
  backward_cases.cases.push_back(narrow(in_window(backward({2, 7, 16, 65}, 1, true)), DType::bf16));
  backward_cases.cases.push_back(narrow(backward({1, 65, 7, 300}, 1, false), DType::bf16));
  for (OpCases* each : {&forward_cases, &backward_cases}) {
    const std::vector<OpCase> rounded = each->cases;
    for (const OpCase& a_case : rounded) {
      if (a_case.inputs[0].type.dtype == DType::bf16) each->cases.push_back(with_narrow_table(a_case));
    }
  }
  for (const BlockFormat format : {BlockFormat::nf4_nested, BlockFormat::int8, BlockFormat::q8_0}) {
    const Extents e{2, 7, 32, 65};
    forward_cases.cases.push_back(of_blocks(forward(e, 1), format));
    backward_cases.cases.push_back(of_blocks(backward(e, 1, false, {.w = false}), format));
    OpCase rounding = of_blocks(with_inputs_of(DType::bf16, {0}, backward(e, 1, false, {.w = false})), format);
    rounding.rounds_within = DType::bf16;
    rounding.inputs[0].fill = {-0.5,
                               0.5};  // a GPU rounds the logits as well: the larger they are, the more their exponentials change
    backward_cases.cases.push_back(std::move(rounding));
  }
  for (const int chunks : {1, 5}) {
    backward_cases.cases.push_back(of_blocks(backward({1, 300, 32, 2100}, chunks, false, {.w = false}), BlockFormat::nf4));
  }
  // A bf16 table under an fp32 h.
  backward_cases.cases.push_back(with_inputs_of(DType::bf16, {1}, backward(small, 1, false, {.w = false})));
  for (const int chunks : {1, 4}) {
    backward_cases.cases.push_back(timed(narrow(backward({1, 1024, 768, 16384}, chunks, true), DType::bf16)));
    forward_cases.cases.push_back(timed(forward({1, 1024, 768, 16384}, chunks)));
    backward_cases.cases.push_back(timed(backward({1, 1024, 768, 16384}, chunks, true)));
  }
  return {forward_cases, backward_cases};
}

}  // namespace plimsoll::test
