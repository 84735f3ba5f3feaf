#include "ops/grouped_attention/grouped_attention.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::GroupedAttentionAttributes;
using ops::GroupedAttentionBackwardAttributes;

// One head of queries of one sample, with the head of keys and values that it reads.
class Head {
 public:
  Head(const ReferenceCall& call, const GroupedAttentionAttributes& a, std::size_t sample, std::size_t head, std::size_t segments)
      : a_(a),
        tokens_(extent(call.shape(0)[1])),
        heads_(extent(a_.heads)),
        kv_heads_(extent(a_.kv_heads)),
        size_(extent(call.shape(0)[2]) / heads_),
        sample_(sample),
        head_(head),
        values_(call.values),
        segments_(segments) {}

  std::size_t tokens() const { return tokens_; }
  std::size_t size() const { return size_; }
  std::size_t query_at(std::size_t token, std::size_t i) const {
    return ((sample_ * tokens_ + token) * heads_ + head_) * size_ + i;
  }
  std::size_t key_at(std::size_t token, std::size_t i) const {
    return ((sample_ * tokens_ + token) * kv_heads_ + head_ / (heads_ / kv_heads_)) * size_ + i;
  }
  std::size_t lse_at(std::size_t token) const { return (sample_ * heads_ + head_) * tokens_ + token; }
  double scale() const { return a_.scale == 0 ? 1 / std::sqrt(static_cast<double>(size_)) : a_.scale; }

  bool sees(std::size_t query, std::size_t key) const {
    if (key > query) return false;
    if (a_.window > 0 && query - key >= extent(a_.window)) return false;
    if (!a_.segments) return true;
    const Numbers& segments = values_[segments_];
    return segments[sample_ * tokens_ + query] == segments[sample_ * tokens_ + key];
  }

  // Probabilities of the keys up to the query, before dropout and 0 where it does not see them, and their log-sum-exp.
  double attend(std::size_t query, Numbers& p) const {
    p.assign(query + 1, 0);
    double top = -1e300, sum = 0;
    for (std::size_t key = 0; key <= query; ++key) {
      for (std::size_t i = 0; i < size_; ++i) {
        p[key] += values_[0][query_at(query, i)] * values_[1][key_at(key, i)] * scale();
      }
      if (sees(query, key)) top = std::max(top, p[key]);
    }
    for (std::size_t key = 0; key <= query; ++key) sum += p[key] = sees(query, key) ? std::exp(p[key] - top) : 0;
    for (double& x : p) x /= sum;
    return top + std::log(sum);
  }

  // What dropout multiplies a probability by.
  double mask(std::size_t query, std::size_t key) const {
    if (a_.dropout == 0) return 1;
    const bool packed = values_[3].size() == 3 * values_[0].size() / (heads_ * size_);
    const std::size_t at = packed ? 3 * (sample_ * tokens_ + query) : 2 * sample_;
    const std::uint64_t place = packed ? static_cast<std::uint64_t>(values_[3][at + 2]) : query;
    if (place < query - key) return 0;  // of another sample
    const std::uint64_t element = (head_ * tokens_ + place) * tokens_ + place - (query - key), block = element / 4;
    const auto epoch = static_cast<std::uint32_t>(values_[3][at]);
    const auto id = static_cast<std::uint32_t>(values_[3][at + 1]);
    const PhiloxWords words =
        philox4x32(a_.key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), id, epoch});
    const auto probability = static_cast<float>(a_.dropout);
    return unit_float(words[element % 4]) >= probability ? 1 / (1 - double{probability}) : 0;
  }

 private:
  const GroupedAttentionAttributes& a_;
  std::size_t tokens_, heads_, kv_heads_, size_, sample_, head_;
  std::span<const Numbers> values_;
  std::size_t segments_;  // of the inputs
};

template <class Body>
void for_each_query(const ReferenceCall& call, const GroupedAttentionAttributes& a, std::size_t segments, Body body) {
  Numbers p;
  for (std::size_t sample = 0; sample < extent(call.shape(0)[0]); ++sample) {
    for (std::size_t h = 0; h < extent(a.heads); ++h) {
      const Head head(call, a, sample, h, segments);
      for (std::size_t query = 0; query < head.tokens(); ++query) {
        const double lse = head.attend(query, p);
        body(head, query, p, lse);
      }
    }
  }
}

std::vector<Numbers> attention(const ReferenceCall& call) {
  const auto& a = call.attributes.as<GroupedAttentionAttributes>();
  Numbers out(call.values[0].size()), lse(call.values[0].size() / extent(call.shape(0)[2]) * extent(a.heads));
  for_each_query(call, a, 4, [&](const Head& head, std::size_t query, const Numbers& p, double log_sum) {
    lse[head.lse_at(query)] = log_sum;
    for (std::size_t key = 0; key <= query; ++key) {
      for (std::size_t i = 0; i < head.size(); ++i) {
        out[head.query_at(query, i)] += p[key] * head.mask(query, key) * call.values[2][head.key_at(key, i)];
      }
    }
  });
  return {out, lse};
}

std::vector<Numbers> attention_backward(const ReferenceCall& call) {
  const Numbers &q = call.values[0], &k = call.values[1], &v = call.values[2], &out = call.values[4], &d_out = call.values[6];
  const auto& made = call.attributes.as<GroupedAttentionBackwardAttributes>();
  Numbers d_q(q.size()), d_k(k.size()), d_v(v.size());
  for_each_query(call, made.forward, 7, [&](const Head& head, std::size_t query, const Numbers& p, double) {
    Numbers dp(p.size());
    double dot = 0;
    for (std::size_t key = 0; key <= query; ++key) {
      for (std::size_t i = 0; i < head.size(); ++i) {
        const double d = d_out[head.query_at(query, i)] * head.mask(query, key);
        dp[key] += d * v[head.key_at(key, i)];
        d_v[head.key_at(key, i)] += d * p[key];
      }
    }
    for (std::size_t i = 0; i < head.size(); ++i) dot += d_out[head.query_at(query, i)] * out[head.query_at(query, i)];
    for (std::size_t key = 0; key <= query; ++key) {
      const double ds = p[key] * (dp[key] - dot) * head.scale();
      for (std::size_t i = 0; i < head.size(); ++i) {
        d_q[head.query_at(query, i)] += ds * k[head.key_at(key, i)];
        d_k[head.key_at(key, i)] += ds * q[head.query_at(query, i)];
      }
    }
  });
  std::vector<Numbers> outputs;
  if (made.q) outputs.push_back(d_q);
  if (made.k) outputs.push_back(d_k);
  if (made.v) outputs.push_back(d_v);
  return outputs;
}

struct Extents {
  std::int64_t batch, tokens, heads, kv_heads, size, window = 0;
  bool segments = false;
  double dropout = 0, scale = 0;
  DType dtype = DType::f32;  // of all but the log-sum-exp
  bool packed = false;       // noise by tokens
  Shape q() const { return {batch, tokens, heads * size}; }
  Shape kv() const { return {batch, tokens, kv_heads * size}; }
  GroupedAttentionAttributes attributes() const {
    return {heads, kv_heads, window, scale, segments, dropout, dropout > 0 ? philox_key(7, 11) : NoiseKey{}, dtype};
  }
  CaseInput numbers(CaseInput input) const {
    input.type.dtype = dtype;
    return input;
  }
  CaseInput ids() const { return i32({batch, tokens}, -1, 2); }
  CaseInput noise() const { return packed ? token_ids(batch, tokens) : sample_ids(batch); }
};

// Runs of equal segments, as rows that are packed or padded have; a quarter of them is scattered.
void make_runs(Numbers& segments, std::size_t tokens) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (i / tokens % 4 != 3) segments[i] = static_cast<double>(i % tokens * 3 / tokens);
  }
}

OpCase forward(const Extents& e) {
  OpCase result{
      e.attributes(),
      {e.numbers(wanted(e.q(), {-2, 2})), e.numbers(wanted(e.kv(), {-2, 2})), e.numbers(wanted(e.kv(), {-2, 2})), e.noise()}};
  if (!e.segments) return result;
  result.inputs.push_back(e.ids());
  result.derive = [tokens = extent(e.tokens), packed = e.packed](std::vector<Numbers>& values) {
    make_runs(values[4], tokens);
    if (packed) make_token_ids(values[3], tokens);
  };
  return result;
}

OpCase backward(const Extents& e, bool q = true, bool k = true, bool v = true) {
  const Shape lse{e.batch, e.heads, e.tokens};
  OpCase result{GroupedAttentionBackwardAttributes{e.attributes(), q, k, v},
                {e.numbers(f32(e.q(), {-2, 2})), e.numbers(f32(e.kv(), {-2, 2})), e.numbers(f32(e.kv(), {-2, 2})), e.noise(),
                 e.numbers(f32(e.q())), f32(lse), e.numbers(f32(e.q()))}};
  if (e.segments) result.inputs.push_back(e.ids());
  if (e.tokens > 500) return result;  // the reference would take minutes
  result.derive = [e, types = input_types(forward(e)), attributes = Attributes(e.attributes())](std::vector<Numbers>& values) {
    if (e.packed) make_token_ids(values[3], extent(e.tokens));
    std::vector<Numbers> given(values.begin(), values.begin() + 4);
    if (e.segments) {
      make_runs(values[7], extent(e.tokens));
      given.push_back(values[7]);
    }
    const std::vector<Numbers> outputs = attention({attributes, types, {}, given});
    values[4] = outputs[0], values[5] = outputs[1];
  };
  return result;
}

// All numbers of 16 bits, and where some of them alone are.
void add_narrow(Extents e, DType dtype, std::vector<OpCase>& forward_cases, std::vector<OpCase>& backward_cases) {
  const auto by_rounded_output = [&](OpCase a_case) {
    a_case.rounds_within = dtype;
    return a_case;
  };
  forward_cases.push_back(with_inputs_of(dtype, {1}, forward(e)));
  backward_cases.push_back(with_inputs_of(dtype, {0, 2, 6}, backward(e)));
  e.dtype = dtype;
  forward_cases.push_back(with_inputs_of(DType::f32, {0, 1}, forward(e)));
  forward_cases.push_back(with_inputs_of(dtype, {}, forward(e)));
  backward_cases.push_back(by_rounded_output(with_inputs_of(dtype, {}, backward(e))));
}

}  // namespace

std::vector<OpCases> grouped_attention_cases() {
  // Several tiles of keys; windows within a tile, across some, and of one key; segments in runs and scattered.
  const std::vector<Extents> list{{1, 1, 1, 1, 1},
                                  {1, 7, 2, 1, 8},
                                  {2, 65, 4, 2, 16},
                                  {1, 130, 3, 3, 5},
                                  {1, 220, 2, 1, 24},
                                  {1, 7, 2, 2, 8, 1},
                                  {1, 7, 2, 2, 8, 2},
                                  {1, 65, 4, 1, 8, 20},
                                  {1, 230, 2, 1, 8, 100},
                                  {1, 310, 1, 1, 8, 97},
                                  {1, 200, 2, 2, 8, 300},
                                  {4, 70, 2, 1, 8, 0, true},
                                  {4, 210, 2, 1, 8, 0, true},
                                  {4, 200, 2, 2, 8, 40, true},
                                  {2, 34, 4, 2, 8, 9, false, 0.3},
                                  {1, 100, 2, 1, 8, 0, true, 0.2, 0.7},
                                  {3, 9, 2, 1, 4, 0, true, 0.4, 0, DType::f32, true},
                                  {2, 230, 2, 2, 8, 0, true, 0.3, 0, DType::f32, true},
                                  {1, 200, 2, 1, 8, 40, true, 0.3, 0, DType::f32, true}};
  std::vector<OpCase> forward_cases, backward_cases;
  for (const Extents& e : list) {
    forward_cases.push_back(forward(e));
    if (e.window == 1) continue;  // gradients of scores are 0: only errors would be compared
    backward_cases.push_back(backward(e));
    for (const DType dtype : {DType::bf16, DType::f16}) add_narrow(e, dtype, forward_cases, backward_cases);
  }
  // Behind frozen projections.
  for (const int made : {1, 2, 3, 4, 5, 6}) {
    backward_cases.push_back(backward({2, 100, 4, 2, 8, 40}, (made & 1) != 0, (made & 2) != 0, (made & 4) != 0));
  }
  for (const Extents& e : {Extents{2, 1024, 9, 3, 64}, Extents{2, 1024, 9, 3, 64, 256}}) {
    forward_cases.push_back(timed(forward(e)));
    backward_cases.push_back(timed(backward(e)));
  }
  return {{&ops::kGroupedAttention, attention, forward_cases, {}},
          {&ops::kGroupedAttentionBackward, attention_backward, backward_cases, {}}};
}

}  // namespace plimsoll::test
