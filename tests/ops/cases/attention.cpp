#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::AttentionAttributes;
using ops::AttentionBackwardAttributes;

// An element of an operand: of queries (part 0), keys (1) or values (2).
struct Place {
  std::size_t operand, element;
};

// One head of queries of one sample, with the head of keys and values that it reads.
class Head {
 public:
  Head(const ReferenceCall& call, const AttentionAttributes& a, std::size_t sample, std::size_t head)
      : a_(a),
        tokens_(extent(call.shape(0)[1])),
        heads_(extent(a_.layout.heads)),
        kv_heads_(extent(a_.layout.kv_heads)),
        size_(extent(a_.layout.head_size(call.shape(0)))),
        sample_(sample),
        head_(head),
        of_tokens_(call.shape(a.layout.operands()).rank() == 3),
        values_(call.values) {}

  std::size_t tokens() const { return tokens_; }
  std::size_t size() const { return size_; }

  Place at(std::size_t token, std::size_t part, std::size_t i) const {
    const std::size_t row = sample_ * tokens_ + token, kv_head = head_ / (heads_ / kv_heads_);
    const std::size_t head = part == 0 ? head_ : kv_head;
    if (a_.layout.separate) return {part, (row * (part == 0 ? heads_ : kv_heads_) + head) * size_ + i};
    const std::size_t first = part == 0 ? 0 : heads_ + (part - 1) * kv_heads_;
    return {0, (row * (heads_ + 2 * kv_heads_) + first + head) * size_ + i};
  }
  double of(std::size_t token, std::size_t part, std::size_t i) const {
    const Place place = at(token, part, i);
    return values_[place.operand][place.element];
  }
  std::size_t out_at(std::size_t token, std::size_t i) const {
    return ((sample_ * tokens_ + token) * heads_ + head_) * size_ + i;
  }
  std::size_t lse_at(std::size_t token) const { return (sample_ * heads_ + head_) * tokens_ + token; }
  double scale() const { return a_.scale == 0 ? 1 / std::sqrt(static_cast<double>(size_)) : a_.scale; }

  bool sees(std::size_t query, std::size_t key) const {
    if (!a_.causal) return true;
    if (key > query) return false;
    if (a_.window > 0 && query - key >= extent(a_.window)) return false;
    const Numbers& segments = values_.back();
    return !a_.segments || segments[sample_ * tokens_ + query] == segments[sample_ * tokens_ + key];
  }

  // The end of the keys that are looked at.
  std::size_t end(std::size_t query) const { return a_.causal ? query + 1 : tokens_; }

  // Probabilities of these keys, before dropout and 0 where it does not see them, and their log-sum-exp.
  double attend(std::size_t query, Numbers& p) const {
    p.assign(end(query), 0);
    double top = -1e300, sum = 0;
    for (std::size_t key = 0; key < p.size(); ++key) {
      for (std::size_t i = 0; i < size_; ++i) p[key] += of(query, 0, i) * of(key, 1, i) * scale();
      if (sees(query, key)) top = std::max(top, p[key]);
    }
    for (std::size_t key = 0; key < p.size(); ++key) sum += p[key] = sees(query, key) ? std::exp(p[key] - top) : 0;
    for (double& x : p) x /= sum;
    return top + std::log(sum);
  }

  // The factor of a probability by dropout.
  double mask(std::size_t query, std::size_t key) const {
    if (a_.dropout == 0) return 1;
    const Numbers& ids = values_[a_.layout.operands()];
    const std::size_t at = of_tokens_ ? 3 * (sample_ * tokens_ + query) : 2 * sample_;
    const std::uint64_t place = of_tokens_ ? static_cast<std::uint64_t>(ids[at + 2]) : query;
    if (place + key < query) return 0;  // of another sample
    const std::uint64_t element = (head_ * tokens_ + place) * tokens_ + place + key - query, block = element / 4;
    const PhiloxWords words = philox4x32(a_.key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                                  static_cast<std::uint32_t>(ids[at + 1]), static_cast<std::uint32_t>(ids[at])});
    const auto probability = static_cast<float>(a_.dropout);
    return unit_float(words[element % 4]) >= probability ? 1 / (1 - double{probability}) : 0;
  }

 private:
  const AttentionAttributes& a_;
  std::size_t tokens_, heads_, kv_heads_, size_, sample_, head_;
  bool of_tokens_;  // noise is keyed by tokens
  std::span<const Numbers> values_;
};

template <class Body>
void for_each_query(const ReferenceCall& call, const AttentionAttributes& a, Body body) {
  Numbers p;
  for (std::size_t sample = 0; sample < extent(call.shape(0)[0]); ++sample) {
    for (std::size_t h = 0; h < extent(a.layout.heads); ++h) {
      const Head head(call, a, sample, h);
      for (std::size_t query = 0; query < head.tokens(); ++query) {
        const double lse = head.attend(query, p);
        body(head, query, p, lse);
      }
    }
  }
}

std::vector<Numbers> attention(const ReferenceCall& call) {
  const auto& a = call.attributes.as<AttentionAttributes>();
  const Shape queries = a.layout.queries(call.shape(0));
  Numbers out(extent(queries.elements())), lse(extent(queries[0] * queries[1] * a.layout.heads));
  for_each_query(call, a, [&](const Head& head, std::size_t query, const Numbers& p, double log_sum) {
    lse[head.lse_at(query)] = log_sum;
    for (std::size_t key = 0; key < p.size(); ++key) {
      for (std::size_t i = 0; i < head.size(); ++i) {
        out[head.out_at(query, i)] += p[key] * head.mask(query, key) * head.of(key, 2, i);
      }
    }
  });
  return {out, lse};
}

std::vector<Numbers> attention_backward(const ReferenceCall& call) {
  const auto& made = call.attributes.as<AttentionBackwardAttributes>();
  const std::size_t operands = made.forward.layout.operands();
  const Numbers &out = call.values[operands + 1], &d_out = call.values[operands + 3];
  std::vector<Numbers> gradients;
  for (std::size_t i = 0; i < operands; ++i) gradients.emplace_back(call.values[i].size());
  for_each_query(call, made.forward, [&](const Head& head, std::size_t query, const Numbers& p, double) {
    const auto add = [&](std::size_t token, std::size_t part, std::size_t i, double x) {
      const Place place = head.at(token, part, i);
      gradients[place.operand][place.element] += x;
    };
    Numbers dp(p.size());
    double dot = 0;
    for (std::size_t key = 0; key < p.size(); ++key) {
      for (std::size_t i = 0; i < head.size(); ++i) {
        const double d = d_out[head.out_at(query, i)] * head.mask(query, key);
        dp[key] += d * head.of(key, 2, i);
        add(key, 2, i, d * p[key]);
      }
    }
    for (std::size_t i = 0; i < head.size(); ++i) dot += d_out[head.out_at(query, i)] * out[head.out_at(query, i)];
    for (std::size_t key = 0; key < p.size(); ++key) {
      const double ds = p[key] * (dp[key] - dot) * head.scale();
      for (std::size_t i = 0; i < head.size(); ++i) {
        add(query, 0, i, ds * head.of(key, 1, i));
        add(key, 1, i, ds * head.of(query, 0, i));
      }
    }
  });
  std::vector<Numbers> outputs;
  for (std::size_t i = 0; i < operands; ++i) {
    if (made.makes(i)) outputs.push_back(gradients[i]);
  }
  return outputs;
}

struct Extents {
  std::int64_t batch, tokens, heads, size;
  double dropout = 0;
  DType dtype = DType::f32;   // of all but the log-sum-exp
  std::int64_t kv_heads = 0;  // 0: as many as heads
  bool separate = false;
  std::int64_t window = 0;
  double scale = 0;
  bool segments = false, token_noise = false;
  double largest = 2;  // magnitude of the operands
  bool causal = true;

  AttentionAttributes attributes() const {
    return {{heads, kv_heads == 0 ? heads : kv_heads, separate}, window, scale, segments, dropout,
            dropout > 0 ? philox_key(7, 11) : NoiseKey{},        dtype,  causal};
  }
  Shape out() const { return {batch, tokens, heads * size}; }
  std::vector<Shape> operands() const {
    const std::int64_t kv = attributes().layout.kv_heads;
    if (!separate) return {{batch, tokens, (heads + 2 * kv) * size}};
    return {out(), {batch, tokens, kv * size}, {batch, tokens, kv * size}};
  }
  CaseInput numbers(CaseInput input) const {
    input.type.dtype = dtype;
    return input;
  }
  CaseInput noise() const { return token_noise ? token_ids(batch, tokens) : sample_ids(batch); }
};

Extents grouped(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t size,
                std::int64_t window = 0, bool segments = false, double dropout = 0, double scale = 0, bool token_noise = false) {
  return {batch, tokens, heads, size, dropout, DType::f32, kv_heads, true, window, scale, segments, token_noise};
}

Extents both_ways(Extents e) {
  e.causal = false;
  return e;
}

Extents packed(Extents e) {
  e.separate = false;
  return e;
}

// Runs of equal segments, as rows of several samples or with padding have; a quarter of them is scattered.
void make_runs(Numbers& segments, std::size_t tokens) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (i / tokens % 4 != 3) segments[i] = static_cast<double>(i % tokens * 3 / tokens);
  }
}

// Fills noise and segments of the inputs of both ops.
void derive_masks(const Extents& e, std::vector<Numbers>& values) {
  if (e.segments) make_runs(values.back(), extent(e.tokens));
  if (e.token_noise) make_token_ids(values[e.attributes().layout.operands()], extent(e.tokens));
}

OpCase forward(const Extents& e) {
  OpCase result{e.attributes(), {}};
  for (const Shape& operand : e.operands()) result.inputs.push_back(e.numbers(wanted(operand, {-e.largest, e.largest})));
  result.inputs.push_back(e.noise());
  if (e.segments) result.inputs.push_back(i32({e.batch, e.tokens}, -1, 2));
  result.derive = [e](std::vector<Numbers>& values) { derive_masks(e, values); };
  return result;
}

OpCase backward(const Extents& e, bool q = true, bool k = true, bool v = true) {
  OpCase result = forward(e);
  const auto types = input_types(result);
  const auto operands = static_cast<std::ptrdiff_t>(types.size()) - (e.segments ? 2 : 1);
  result.attributes = AttentionBackwardAttributes{e.attributes(), q, k, v};
  for (CaseInput& input : result.inputs) input.differentiable = false;
  const CaseInput out = e.numbers(f32(e.out()));
  result.inputs.insert(result.inputs.begin() + operands + 1, {out, f32({e.batch, e.heads, e.tokens}), out});
  // The contents of a benchmark do not matter, and the reference would take minutes.
  if (e.tokens > 500) return result;
  result.derive = [e, operands, types, attributes = Attributes(e.attributes())](std::vector<Numbers>& values) {
    derive_masks(e, values);
    std::vector<Numbers> given(values.begin(), values.begin() + operands + 1);
    if (e.segments) given.push_back(values.back());
    const std::vector<Numbers> outputs = attention({attributes, types, {}, given});
    values[extent(operands) + 1] = outputs[0], values[extent(operands) + 2] = outputs[1];
  };
  return result;
}

struct Cases {
  std::vector<OpCase> forwards, backwards;

  // Operands of 16 bits with results of 16 bits and of fp32, as tensor cores multiply them.
  void add_of_16_bits(Extents e) {
    const std::size_t operands = e.attributes().layout.operands();
    std::vector<std::size_t> multiplied;
    for (std::size_t i = 0; i < operands; ++i) multiplied.push_back(i);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      e.dtype = DType::f32;
      forwards.push_back(with_inputs_of(dtype, multiplied, forward(e)));
      multiplied.push_back(operands + 3);
      backwards.push_back(with_inputs_of(dtype, multiplied, backward(e)));
      multiplied.pop_back();
      e.dtype = dtype;
      forwards.push_back(with_inputs_of(dtype, {}, forward(e)));
      backwards.push_back(with_inputs_of(dtype, {}, backward(e)));
      backwards.back().rounds_within = dtype;
    }
  }

  void add(const Extents& e) {
    forwards.push_back(forward(e));
    if (e.window == 1) return;  // gradients of scores are 0: only errors would be compared
    backwards.push_back(backward(e));
  }

  // All numbers of 16 bits, and some of them alone.
  void add_narrow(Extents e) {
    if (e.window == 1) return;
    const std::size_t out = e.attributes().layout.operands() + 1;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      // The backward pass reads the output.
      const auto by_rounded_output = [&](OpCase a_case) {
        a_case.rounds_within = dtype;
        return a_case;
      };
      e.dtype = DType::f32;
      forwards.push_back(with_inputs_of(dtype, {e.separate ? 1u : 0u}, forward(e)));
      backwards.push_back(with_inputs_of(dtype, {0, out + 2}, backward(e)));
      if (e.separate) backwards.push_back(with_inputs_of(dtype, {2}, backward(e)));
      backwards.push_back(by_rounded_output(with_inputs_of(dtype, {out}, backward(e))));
      e.dtype = dtype;
      forwards.push_back(with_inputs_of(DType::f32, {0}, forward(e)));
      forwards.push_back(with_inputs_of(dtype, {}, forward(e)));
      backwards.push_back(by_rounded_output(with_inputs_of(dtype, {}, backward(e))));
    }
  }
};

// Scores of thousands, whose log-sum-exp in fp32 is off by more than a weight's rounding; finite differences would cross from one
// key to another.
OpCase with_large_scores(OpCase a_case) {
  a_case.rounds_within = DType::bf16;
  for (CaseInput& input : a_case.inputs) input.differentiable = false;
  return a_case;
}

}  // namespace

std::vector<OpCases> attention_cases() {
  // On a GPU, heads of 64 and 128 have kernels of their own, with tiles of up to 128 tokens. Heads of more than 128 are processed
  // in parts.
  const std::vector<Extents> plain{{1, 1, 1, 1},         {1, 7, 1, 8},         {2, 65, 2, 16},      {1, 130, 3, 5},
                                   {1, 33, 2, 64},       {2, 7, 2, 8, 0.3},    {1, 65, 3, 16, 0.1}, {3, 34, 1, 33, 0.9},
                                   {1, 1, 2, 4, 0.5},    {2, 148, 1, 64, 0.2}, {1, 67, 2, 64, 0.4}, {1, 161, 1, 128},
                                   {1, 66, 1, 128, 0.3}, {1, 40, 1, 132, 0.1}, {1, 201, 2, 64}};
  // Several tiles of keys; windows within a tile, across some, and of one key; segments in runs and scattered.
  const std::vector<Extents> of_groups{grouped(1, 1, 1, 1, 1),
                                       grouped(1, 7, 2, 1, 8),
                                       grouped(2, 65, 4, 2, 16),
                                       grouped(1, 130, 3, 3, 5),
                                       grouped(1, 220, 2, 1, 24),
                                       grouped(1, 7, 2, 2, 8, 1),
                                       grouped(1, 7, 2, 2, 8, 2),
                                       grouped(1, 65, 4, 1, 8, 20),
                                       grouped(1, 230, 2, 1, 8, 100),
                                       grouped(1, 310, 1, 1, 8, 97),
                                       grouped(1, 140, 1, 1, 8, 66),
                                       grouped(1, 200, 2, 2, 8, 300),
                                       grouped(4, 70, 2, 1, 8, 0, true),
                                       grouped(4, 210, 2, 1, 8, 0, true),
                                       grouped(4, 200, 2, 2, 8, 40, true),
                                       grouped(2, 34, 4, 2, 8, 9, false, 0.3),
                                       grouped(1, 100, 2, 1, 8, 0, true, 0.2, 0.7),
                                       grouped(3, 9, 2, 1, 4, 0, true, 0.4, 0, true),
                                       grouped(2, 230, 2, 2, 8, 0, true, 0.3, 0, true),
                                       grouped(1, 200, 2, 1, 8, 40, true, 0.3, 0, true)};
  const std::vector<Extents> of_packed_groups{packed(grouped(2, 65, 4, 2, 16)), packed(grouped(1, 230, 2, 1, 8, 100)),
                                              packed(grouped(3, 9, 2, 2, 4, 0, true, 0.4, 0, true)),
                                              packed(grouped(2, 230, 2, 2, 8, 0, true, 0.3, 0, true))};
  // Heads with kernels for tensor cores: groups, windows within a tile and across some, segments in runs and scattered. With a
  // window of 66, the last query that sees a tile of 64 keys is the first of its own tile.
  const std::vector<Extents> of_tensor_cores{grouped(1, 150, 4, 2, 64),
                                             grouped(1, 70, 6, 2, 128, 5),
                                             grouped(1, 270, 2, 1, 64, 20),
                                             grouped(1, 300, 1, 1, 128, 70),
                                             grouped(1, 200, 1, 1, 64, 66),
                                             grouped(1, 200, 1, 1, 128, 66),
                                             grouped(4, 135, 2, 1, 64, 0, true),
                                             grouped(4, 135, 1, 1, 128, 0, true),
                                             packed(grouped(1, 200, 4, 2, 64, 90, true, 0.3, 0.2, true)),
                                             packed(grouped(1, 200, 2, 1, 128, 90, true, 0.3, 0, true))};
  const std::vector<Extents> of_both_ways{both_ways({1, 1, 1, 1}),
                                          both_ways({2, 7, 2, 8, 0.3}),
                                          both_ways({1, 65, 3, 16}),
                                          both_ways({2, 97, 2, 5}),
                                          both_ways({1, 201, 2, 64, 0.1}),
                                          both_ways({1, 310, 1, 8}),
                                          both_ways(grouped(2, 130, 4, 2, 16)),
                                          both_ways(packed(grouped(1, 50, 4, 2, 8)))};
  Cases cases;
  for (const Extents& e : of_tensor_cores) cases.add_of_16_bits(e);
  for (Extents e : {grouped(1, 150, 2, 1, 8, 0, true, 0, 1), grouped(1, 150, 2, 1, 64, 0, true, 0, 0.25),
                    grouped(1, 150, 2, 1, 128, 0, true, 0, 0.125)}) {
    e.largest = 40;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      e.dtype = dtype;
      cases.forwards.push_back(with_large_scores(forward(e)));
      cases.backwards.push_back(with_large_scores(backward(e)));
    }
  }
  for (const auto& list : {plain, of_groups, of_packed_groups, of_both_ways}) {
    for (const Extents& e : list) {
      cases.add(e);
      cases.add_narrow(e);
    }
  }
  // Frozen projections.
  cases.backwards.push_back(backward(both_ways(grouped(2, 100, 2, 1, 8)), /*q=*/false));
  for (const int made : {1, 2, 3, 4, 5, 6}) {
    cases.backwards.push_back(backward(grouped(2, 100, 4, 2, 8, 40), (made & 1) != 0, (made & 2) != 0, (made & 4) != 0));
  }
  for (const Extents& e :
       {Extents{2, 1024, 12, 64}, Extents{2, 1024, 12, 64, 0.1}, grouped(2, 1024, 9, 3, 64), grouped(2, 1024, 9, 3, 64, 256)}) {
    cases.forwards.push_back(timed(forward(e)));
    cases.backwards.push_back(timed(backward(e)));
  }
  return {{&ops::kAttention, attention, cases.forwards, {}}, {&ops::kAttentionBackward, attention_backward, cases.backwards, {}}};
}

}  // namespace plimsoll::test
