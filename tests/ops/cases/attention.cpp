#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::AttentionAttributes;

// One head of one sample: probabilities row by row, as forward and backward need them.
class Head {
 public:
  Head(const ReferenceCall& call, std::size_t sample, std::size_t head)
      : attributes_(call.attributes.as<AttentionAttributes>()),
        tokens_(extent(call.shape(0)[1])),
        width_(extent(call.shape(0)[2]) / 3),
        size_(width_ / extent(attributes_.heads)),
        sample_(sample),
        head_(head),
        qkv_(call.values[0].data() + sample * tokens_ * 3 * width_),
        ids_(call.values[1]),
        segments_(attributes_.segments ? call.values.back().data() + sample * tokens_ : nullptr) {}

  std::size_t tokens() const { return tokens_; }
  std::size_t size() const { return size_; }
  // Where element i of the query (0), key (1) or value (2) of a token lies in a sample's qkv.
  std::size_t at(std::size_t token, std::size_t part, std::size_t i) const {
    return token * 3 * width_ + part * width_ + head_ * size_ + i;
  }
  std::size_t out_at(std::size_t token, std::size_t i) const { return (sample_ * tokens_ + token) * width_ + head_ * size_ + i; }
  std::size_t lse_at(std::size_t token) const { return (sample_ * extent(attributes_.heads) + head_) * tokens_ + token; }
  double qkv(std::size_t token, std::size_t part, std::size_t i) const { return qkv_[at(token, part, i)]; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(size_)); }

  // Probabilities of the keys up to the query, before dropout, and their log-sum-exp.
  double attend(std::size_t query, Numbers& p) const {
    p.assign(query + 1, 0);
    for (std::size_t key = 0; key <= query; ++key) {
      for (std::size_t i = 0; i < size_; ++i) p[key] += qkv(query, 0, i) * qkv(key, 1, i) * scale();
    }
    double top = -1e300, sum = 0;
    for (std::size_t key = 0; key <= query; ++key) top = sees(query, key) ? std::max(top, p[key]) : top;
    for (std::size_t key = 0; key <= query; ++key) sum += p[key] = sees(query, key) ? std::exp(p[key] - top) : 0;
    for (double& x : p) x /= sum;
    return top + std::log(sum);
  }

  // What dropout multiplies a probability by.
  double mask(std::size_t query, std::size_t key) const {
    if (attributes_.dropout == 0) return 1;
    const bool packed = segments_ != nullptr;
    const double* ids = ids_.data() + (packed ? 3 * (sample_ * tokens_ + query) : 2 * sample_);
    const std::uint64_t place = packed ? static_cast<std::uint64_t>(ids[2]) : query;
    if (place < query - key) return 0;  // of another sample
    const std::uint64_t element = (head_ * tokens_ + place) * tokens_ + place - (query - key), block = element / 4;
    const PhiloxWords words =
        philox4x32(attributes_.key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                     static_cast<std::uint32_t>(ids[1]), static_cast<std::uint32_t>(ids[0])});
    const auto probability = static_cast<float>(attributes_.dropout);
    return unit_float(words[element % 4]) >= probability ? 1 / (1 - double{probability}) : 0;
  }

 private:
  const AttentionAttributes& attributes_;
  std::size_t tokens_, width_, size_, sample_, head_;
  bool sees(std::size_t query, std::size_t key) const { return segments_ == nullptr || segments_[query] == segments_[key]; }

  const double* qkv_;
  const Numbers& ids_;
  const double* segments_;
};

template <class Body>
void for_each_head(const ReferenceCall& call, Body body) {
  for (std::size_t sample = 0; sample < extent(call.shape(0)[0]); ++sample) {
    for (std::size_t head = 0; head < extent(call.attributes.as<AttentionAttributes>().heads); ++head) {
      body(Head(call, sample, head), sample);
    }
  }
}

std::vector<Numbers> attention(const ReferenceCall& call) {
  Numbers out(call.values[0].size() / 3),
      lse(call.values[0].size() / extent(call.shape(0)[2]) * extent(call.attributes.as<AttentionAttributes>().heads)), p;
  for_each_head(call, [&](const Head& head, std::size_t) {
    for (std::size_t query = 0; query < head.tokens(); ++query) {
      lse[head.lse_at(query)] = head.attend(query, p);
      for (std::size_t key = 0; key <= query; ++key) {
        for (std::size_t i = 0; i < head.size(); ++i) {
          out[head.out_at(query, i)] += p[key] * head.mask(query, key) * head.qkv(key, 2, i);
        }
      }
    }
  });
  return {out, lse};
}

// Adds one query's part to the gradient of a sample's qkv.
void backward_of_query(const Head& head, std::size_t query, const double* d_out, double* d_qkv, Numbers& p) {
  head.attend(query, p);
  Numbers dp(p.size());
  double dot = 0;
  for (std::size_t key = 0; key <= query; ++key) {
    for (std::size_t i = 0; i < head.size(); ++i) {
      dp[key] += d_out[i] * head.qkv(key, 2, i) * head.mask(query, key);
      d_qkv[head.at(key, 2, i)] += d_out[i] * p[key] * head.mask(query, key);
    }
    dot += p[key] * dp[key];
  }
  for (std::size_t key = 0; key <= query; ++key) {
    const double ds = p[key] * (dp[key] - dot) * head.scale();
    for (std::size_t i = 0; i < head.size(); ++i) {
      d_qkv[head.at(query, 0, i)] += ds * head.qkv(key, 1, i);
      d_qkv[head.at(key, 1, i)] += ds * head.qkv(query, 0, i);
    }
  }
}

std::vector<Numbers> attention_backward(const ReferenceCall& call) {
  Numbers d_qkv(call.values[0].size()), p;
  const std::size_t sample_size = d_qkv.size() / extent(call.shape(0)[0]);
  for_each_head(call, [&](const Head& head, std::size_t sample) {
    for (std::size_t query = 0; query < head.tokens(); ++query) {
      backward_of_query(head, query, call.values[4].data() + head.out_at(query, 0), d_qkv.data() + sample * sample_size, p);
    }
  });
  return {d_qkv};
}

struct Extents {
  std::int64_t batch, tokens, heads, size;
  double dropout = 0;
  DType dtype = DType::f32;  // of all but the log-sum-exp
  bool packed = false;
  Shape qkv() const { return {batch, tokens, 3 * heads * size}; }
  AttentionAttributes attributes() const {
    return {heads, dropout, dropout > 0 ? philox_key(7, 11) : std::array<std::uint32_t, 2>{}, dtype, packed};
  }
  CaseInput numbers(CaseInput input) const {
    input.type.dtype = dtype;
    return input;
  }
};

void pack(Numbers& ids, Numbers& segments, std::size_t tokens) {
  make_token_ids(ids, tokens);
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i] = static_cast<double>(i % tokens * 3 / tokens);
}

OpCase forward(const Extents& e) {
  OpCase result{e.attributes(), {e.numbers(wanted(e.qkv(), {-2, 2})), sample_ids(e.batch)}};
  if (!e.packed) return result;
  result.inputs[1] = token_ids(e.batch, e.tokens);
  result.inputs.push_back(i32({e.batch, e.tokens}, 0, 3));
  result.cpu_only = true;
  result.derive = [tokens = extent(e.tokens)](std::vector<Numbers>& values) { pack(values[1], values[2], tokens); };
  return result;
}

OpCase backward(const Extents& e) {
  const Shape out{e.batch, e.tokens, e.heads * e.size}, lse{e.batch, e.heads, e.tokens};
  OpCase result{e.attributes(),
                {e.numbers(f32(e.qkv(), {-2, 2})), sample_ids(e.batch), e.numbers(f32(out)), f32(lse), e.numbers(f32(out))}};
  if (e.packed) {
    result.inputs[1] = token_ids(e.batch, e.tokens);
    result.inputs.push_back(i32({e.batch, e.tokens}, 0, 3));
    result.cpu_only = true;
  }
  // Of a benchmark the contents do not matter, and the reference would take minutes.
  if (e.tokens > 500) return result;
  result.derive = [e, attributes = Attributes(e.attributes()), types = input_types(result)](std::vector<Numbers>& values) {
    if (e.packed) pack(values[1], values[5], extent(e.tokens));
    const std::vector<Numbers> outputs = attention({attributes, types, {}, values});
    values[2] = outputs[0], values[3] = outputs[1];
  };
  return result;
}

// All numbers of 16 bits, and where some of them alone are.
void add_narrow(Extents e, DType dtype, std::vector<OpCase>& forward_cases, std::vector<OpCase>& backward_cases) {
  // The backward pass goes by the output.
  const auto by_rounded_output = [&](OpCase a_case) {
    a_case.rounds_within = dtype;
    return a_case;
  };
  forward_cases.push_back(with_inputs_of(dtype, {0}, forward(e)));
  backward_cases.push_back(with_inputs_of(dtype, {0, 4}, backward(e)));
  backward_cases.push_back(by_rounded_output(with_inputs_of(dtype, {2}, backward(e))));
  e.dtype = dtype;
  forward_cases.push_back(with_inputs_of(DType::f32, {0}, forward(e)));
  forward_cases.push_back(with_inputs_of(dtype, {}, forward(e)));
  backward_cases.push_back(by_rounded_output(with_inputs_of(dtype, {}, backward(e))));
}

}  // namespace

std::vector<OpCases> attention_cases() {
  // Heads of 64 and 128 have kernels of their own on a GPU, with tiles of up to 128 tokens; of more than 128, a head in parts.
  const std::vector<Extents> list{{1, 1, 1, 1},         {1, 7, 1, 8},         {2, 65, 2, 16},      {1, 130, 3, 5},
                                  {1, 33, 2, 64},       {2, 7, 2, 8, 0.3},    {1, 65, 3, 16, 0.1}, {3, 34, 1, 33, 0.9},
                                  {1, 1, 2, 4, 0.5},    {2, 148, 1, 64, 0.2}, {1, 67, 2, 64, 0.4}, {1, 161, 1, 128},
                                  {1, 66, 1, 128, 0.3}, {1, 40, 1, 132, 0.1}, {1, 201, 2, 64}};
  std::vector<OpCase> forward_cases, backward_cases;
  for (const Extents& e : list) {
    forward_cases.push_back(forward(e));
    backward_cases.push_back(backward(e));
    for (const DType dtype : {DType::bf16, DType::f16}) add_narrow(e, dtype, forward_cases, backward_cases);
  }
  for (const Extents& e : {Extents{3, 9, 2, 4, 0.4, DType::f32, true}, Extents{2, 230, 2, 8, 0.3, DType::f32, true}}) {
    forward_cases.push_back(forward(e));
    backward_cases.push_back(backward(e));
  }
  for (const Extents& e : {Extents{2, 1024, 12, 64}, Extents{2, 1024, 12, 64, 0.1}}) {
    forward_cases.push_back(timed(forward(e)));
    backward_cases.push_back(timed(backward(e)));
  }
  return {{&ops::kAttention, attention, forward_cases, {}}, {&ops::kAttentionBackward, attention_backward, backward_cases, {}}};
}

}  // namespace plimsoll::test
