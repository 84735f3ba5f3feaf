#include "ops/embedding/embedding.h"

#include "ops/cases/cases.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::test {
namespace {

using ops::EmbeddingAttributes;
using ops::EmbeddingBackwardAttributes;
using ops::LearnedPositions;

std::vector<Numbers> embedding(const ReferenceCall& call) {
  const Numbers& tokens = call.values[0];
  const Numbers table = elements_of(call.attributes.as<EmbeddingAttributes>().blocks, call.values[1]);
  const std::size_t length = extent(call.shape(0)[1]), width = extent(call.outputs[0].shape.last()), inputs = call.values.size();
  Numbers y(tokens.size() * width);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = i / width;
    y[i] = table[static_cast<std::size_t>(tokens[row]) * width + i % width];
    const std::size_t position = inputs > 3 ? static_cast<std::size_t>(call.values[3][row]) : row % length;
    if (inputs > 2) y[i] += call.values[2][position * width + i % width];
  }
  return {y};
}

std::vector<Numbers> token_gradient(const ReferenceCall& call) {
  const auto& attributes = call.attributes.as<EmbeddingBackwardAttributes>();
  const Numbers &tokens = call.values[0], &dy = call.values[1];
  const std::size_t width = dy.size() / tokens.size();
  Numbers out = attributes.accumulate ? call.values[2] : Numbers(extent(attributes.rows) * width);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const double token = tokens[i / width];
    if (token >= 0 && token != static_cast<double>(attributes.padding)) {
      out[static_cast<std::size_t>(token) * width + i % width] += dy[i];
    }
  }
  return {out};
}

std::vector<Numbers> position_gradient(const ReferenceCall& call) {
  const auto& attributes = call.attributes.as<EmbeddingBackwardAttributes>();
  const Numbers& dy = call.values[0];
  const std::size_t sample = extent(call.shape(0)[1] * call.shape(0)[2]), width = extent(call.shape(0)[2]);
  Numbers out = attributes.accumulate ? call.values[1] : Numbers(extent(attributes.rows) * width);
  for (std::size_t i = 0; i < dy.size(); ++i) out[i % sample] += dy[i];
  return {out};
}

std::vector<Numbers> token_slots(const ReferenceCall& call) {
  Numbers slots, map = call.values[1];
  const auto padding = static_cast<double>(call.attributes.as<ops::TokenSlotsAttributes>().padding);
  for (const double token : call.values[0]) {
    if (token == padding) {
      slots.push_back(-1);
      continue;
    }
    double& slot = map[static_cast<std::size_t>(token)];
    if (slot == 0) slot = ++map.back();
    slots.push_back(slot - 1);
  }
  return {slots, map};
}

std::vector<Numbers> add_rows(const ReferenceCall& call) {
  Numbers sum = call.values[0];
  const std::size_t width = extent(call.shape(0).last());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double row = call.values.size() > 2 ? call.values[2][i / width] - 1 : static_cast<double>(i / width);
    if (row >= 0) sum[i] += call.values[1][static_cast<std::size_t>(row) * width + i % width];
  }
  return {sum};
}

std::vector<Numbers> squares_with_rows(const ReferenceCall& call) {
  const Numbers table = add_rows(call)[0];
  double sum = 0;
  for (const double x : table) sum += x * x;
  return {{sum}};
}

struct Extents {
  std::int64_t batch, tokens, width, vocab, positions;
  CaseInput ids() const { return i32({batch, tokens}, 0, static_cast<double>(vocab)); }
  Shape rows() const { return {batch, tokens, width}; }
};

struct Families {
  OpCases embedding{&ops::kEmbedding, test::embedding, {}, {}}, tokens{&ops::kTokenGradient, token_gradient, {}, {}},
      positions{&ops::kPositionGradient, position_gradient, {}, {}}, slots{&ops::kTokenSlots, token_slots, {}, {}},
      rows{&ops::kAddRows, add_rows, {}, {}}, squares{&ops::kSquaresWithRows, squares_with_rows, {}, {}};

  void add_forward(const Extents& e, bool differentiable = true) {
    OpCase in_order{EmbeddingAttributes{}, {e.ids(), wanted({e.vocab, e.width}), wanted({e.positions, e.width})}};
    OpCase given = in_order, none = in_order;
    given.attributes = EmbeddingAttributes{LearnedPositions::given};
    given.inputs.push_back(i32({e.batch, e.tokens}, 0, static_cast<double>(e.positions)));
    none.attributes = EmbeddingAttributes{LearnedPositions::none};
    none.inputs.pop_back();
    for (const OpCase& each : {given, none, in_order}) {
      embedding.cases.push_back(differentiable ? each : with_inputs_of(DType::f32, {}, each));
      embedding.cases.push_back(with_inputs_of(DType::bf16, {1}, each));
      if (each.inputs.size() > 2) embedding.cases.push_back(with_inputs_of(DType::bf16, {1, 2}, each));
    }
  }

  // The padding changes the derivative alone, which the cases of token_gradient know.
  void add_padded_forward(const Extents& e) {
    embedding.cases.push_back({EmbeddingAttributes{LearnedPositions::none, e.vocab - 1}, {e.ids(), f32({e.vocab, e.width})}});
  }

  void add_blocks(const Extents& e, BlockFormat format) {
    const OpCase whole{EmbeddingAttributes{LearnedPositions::none}, {e.ids(), f32({e.vocab, e.width})}};
    OpCase blocks = with_blocks(format, 1, whole);
    blocks.attributes = EmbeddingAttributes{LearnedPositions::none, -1, BlockMatrix{format, e.vocab, e.width}};
    embedding.cases.push_back(blocks);
  }

  // Every third row is known already, or none is.
  void add_slots(const Extents& e, bool overwrite) {
    const std::int64_t tokens = e.batch * e.tokens, known = overwrite ? 0 : (e.vocab + 2) / 3;
    const auto fill_map = [known](Numbers& map) {
      for (std::int64_t i = 0; i < known; ++i) map[extent(3 * i)] = static_cast<double>(i + 1);
      map.back() = static_cast<double>(known);
    };
    OpCase of_tokens{ops::TokenSlotsAttributes{known + tokens}, {e.ids(), i32(Shape{e.vocab + 1}, 0, 1)}, overwrite};
    of_tokens.derive = [fill_map](std::vector<Numbers>& inputs) { fill_map(inputs[1]); };
    slots.cases.push_back(of_tokens);
    if (overwrite) {
      rows.cases.push_back({ops::AddRowsAttributes{false}, {f32({e.vocab, e.width}), f32({e.vocab, e.width})}});
      squares.cases.push_back(rows.cases.back());
      return;
    }
    OpCase some{ops::AddRowsAttributes{true}, {f32({e.vocab, e.width}), f32({known, e.width}), i32(Shape{e.vocab + 1}, 0, 1)}};
    some.derive = [fill_map](std::vector<Numbers>& inputs) { fill_map(inputs[2]); };
    rows.cases.push_back(some);
    squares.cases.push_back(some);
  }

  void add_backward(const Extents& e, bool accumulate, bool overwrite) {
    OpCase of_tokens{EmbeddingBackwardAttributes{e.vocab, accumulate}, {e.ids(), f32(e.rows())}, overwrite};
    OpCase of_positions{EmbeddingBackwardAttributes{e.positions, accumulate}, {f32(e.rows())}, overwrite};
    if (accumulate) {
      of_tokens.inputs.push_back(f32({e.vocab, e.width}));
      of_positions.inputs.push_back(f32({e.positions, e.width}));
    }
    tokens.cases.push_back(of_tokens);
    positions.cases.push_back(of_positions);
  }

  // The last row gets nothing; nor do tokens without a slot.
  void add_padding(const Extents& e) {
    OpCase padded{EmbeddingBackwardAttributes{e.vocab, true, e.vocab - 1}, {e.ids(), f32(e.rows()), f32({e.vocab, e.width})}};
    tokens.cases.push_back(padded);
    tokens.cases.push_back(in_window(padded));
    padded.attributes = EmbeddingBackwardAttributes{e.vocab, true};
    padded.inputs[0].fill.low = -1;
    tokens.cases.push_back(padded);
    const std::int64_t all = e.batch * e.tokens;
    slots.cases.push_back(in_window({ops::TokenSlotsAttributes{all, e.vocab - 1}, {e.ids(), i32(Shape{e.vocab + 1}, 0, 1)}}));
    slots.cases.push_back({ops::TokenSlotsAttributes{all, e.vocab - 1}, {e.ids(), i32(Shape{e.vocab + 1}, 0, 1)}});
  }
};

}  // namespace

std::vector<OpCases> embedding_cases() {
  Families families;
  // A vocabulary of one and one with fewer words than tokens repeat rows; positions may be more than tokens. The last one has
  // several ranges.
  const std::vector<Extents> list{{1, 1, 1, 1, 1}, {2, 7, 65, 5, 9}, {3, 65, 7, 40, 65}, {1, 7, 64, 1, 7}, {2, 90, 2, 2100, 90}};
  for (const Extents& e : list) {
    families.add_forward(e);
    families.add_backward(e, false, false);
    families.add_backward(e, true, false);
    families.add_backward(e, true, true);
    families.add_slots(e, false);
    families.add_slots(e, true);
    families.add_padding(e);
    families.add_padded_forward(e);
  }
  // Tokens that come more than 32 times, and as often as 64; rows of several strips and ranges; more positions than a GPU's block
  // gives slots at once.
  for (const Extents& e :
       {Extents{2, 90, 8, 2, 90}, {1, 64, 5, 1, 64}, {2, 40, 260, 1, 40}, {1, 50, 4, 2100, 50}, {1, 8500, 1, 3000, 8500}}) {
    families.add_forward(e, false);
    families.add_backward(e, false, false);
    families.add_backward(e, true, false);
    families.add_slots(e, false);
    families.add_slots(e, true);
  }
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4, BlockFormat::nf4_nested}) {
    families.add_blocks({2, 7, 65, 5, 0}, format);
  }
  for (const BlockFormat format : {BlockFormat::q8_0, BlockFormat::q4_1, BlockFormat::q6_k}) {
    families.add_blocks({3, 5, block_elements(format), 40, 0}, format);
  }
  const Extents large{4, 1024, 768, 8192, 1024};
  families.embedding.cases.push_back(
      {EmbeddingAttributes{}, {large.ids(), f32({large.vocab, large.width}), f32({large.positions, large.width})}});
  families.add_backward(large, true, false);
  families.add_slots(large, false);
  const auto all = {&families.embedding, &families.tokens, &families.positions,
                    &families.slots,     &families.rows,   &families.squares};
  for (OpCases* cases : all) {
    cases->cases.back().benchmark = true;
  }
  return {families.embedding, families.tokens, families.positions, families.slots, families.rows, families.squares};
}

}  // namespace plimsoll::test
