#include "ops/lookup/lookup.h"

#include "ops/cases/cases.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> lookup(const ReferenceCall& call) {
  const Numbers& tokens = call.values[0];
  const Numbers table = elements_of(call.attributes.as<ops::LookupAttributes>().blocks, call.values[1]);
  const std::size_t width = extent(call.outputs[0].shape.last());
  Numbers y(tokens.size() * width);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = table[static_cast<std::size_t>(tokens[i / width]) * width + i % width];
  return {y};
}

std::vector<Numbers> gather_rows(const ReferenceCall& call) {
  const Numbers &x = call.values[0], &index = call.values[1];
  const std::size_t width = extent(call.shape(0)[2]);
  Numbers rows(index.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = x[static_cast<std::size_t>(index[i / width]) * width + i % width];
  }
  return {rows};
}

struct Extents {
  std::int64_t batch, tokens, width, vocab;
};

OpCase one(const Extents& e) {
  return {ops::LookupAttributes{}, {i32({e.batch, e.tokens}, 0, static_cast<double>(e.vocab)), wanted({e.vocab, e.width})}};
}

OpCase of_blocks(const Extents& e, BlockFormat format) {
  OpCase result = with_blocks(format, 1, one(e));
  result.attributes = ops::LookupAttributes{.blocks = BlockMatrix{format, e.vocab, e.width}};
  return result;
}

OpCase gather(const Extents& e) {
  return {ops::NoAttributes{},
          {f32({e.batch, e.tokens, e.width}), i32(Shape{e.vocab}, 0, static_cast<double>(e.batch * e.tokens))}};
}

}  // namespace

std::vector<OpCases> lookup_cases() {
  std::vector<OpCase> lookups, gathers;
  // A vocabulary of one and one with fewer words than tokens repeat rows. The last one has several ranges.
  for (const Extents& e : {Extents{1, 1, 1, 1}, {2, 7, 65, 5}, {3, 65, 7, 40}, {1, 7, 64, 1}, {2, 90, 2, 2100}}) {
    lookups.push_back(one(e));
    lookups.push_back(with_inputs_of(DType::bf16, {1}, one(e)));
    gathers.push_back(gather(e));
    // What is looked up is the same; the derivative leaves a row out, which embedding_cases know.
    OpCase padded = with_inputs_of(DType::f32, {}, one(e));
    padded.attributes = ops::LookupAttributes{e.vocab - 1};
    lookups.push_back(padded);
  }
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4, BlockFormat::nf4_nested}) {
    lookups.push_back(of_blocks({2, 7, 65, 5}, format));
  }
  for (const BlockFormat format : {BlockFormat::q8_0, BlockFormat::q4_1, BlockFormat::q6_k}) {
    lookups.push_back(of_blocks({3, 5, block_elements(format), 40}, format));
  }
  const Extents large{4, 1024, 768, 8192};
  lookups.push_back(timed(one(large)));
  gathers.push_back(timed(gather(large)));
  return {{&ops::kLookup, lookup, lookups, {}}, {&ops::kGatherRows, gather_rows, gathers, {}}};
}

}  // namespace plimsoll::test
