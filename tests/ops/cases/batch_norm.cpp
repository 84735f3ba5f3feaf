#include "ops/batch_norm/batch_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::NormActivation;

constexpr std::array kActivations{NormActivation::none, NormActivation::relu, NormActivation::relu6, NormActivation::silu};

// x [batch, ..., channels] with groups of samples.
struct Extents {
  Shape x;
  std::int64_t group = 1;
  std::vector<std::int64_t> absent = {};  // samples

  std::int64_t channels() const { return x.last(); }
  std::int64_t groups() const { return x[0] / group; }
  std::size_t values() const { return extent(x.elements() / x[0] / channels()); }  // of a sample, for each channel
};

bool is_absent(const Numbers& ids, std::size_t sample) { return ids[2 * sample + 1] == ops::kAbsentRow; }

// Rows [begin, end) of x as [rows, channels] that belong to a group, and the mean and variance of its present rows.
struct Group {
  std::size_t begin, end;
  double count = 0;
  Numbers mean, variance;
};

struct Dimensions {
  std::size_t group, values, channels;

  Dimensions(const Shape& x, std::int64_t samples)
      : group(extent(samples)), values(extent(x.elements() / x[0] / x.last())), channels(extent(x.last())) {}
  std::size_t sample(std::size_t element) const { return element / channels / values; }
};

std::vector<Group> groups_of(const Numbers& x, const Numbers& ids, const Dimensions& d) {
  std::vector<Group> groups;
  const std::size_t rows = d.group * d.values;
  for (std::size_t begin = 0; begin < x.size() / d.channels; begin += rows) {
    Group group{begin, begin + rows, 0, Numbers(d.channels), Numbers(d.channels)};
    const auto for_present = [&](auto body) {
      for (std::size_t i = group.begin * d.channels; i < group.end * d.channels; ++i) {
        if (!is_absent(ids, d.sample(i))) body(x[i], i % d.channels);
      }
    };
    for_present([&](double v, std::size_t c) { group.mean[c] += v, group.count += c == 0 ? 1 : 0; });
    for (double& mean : group.mean) mean /= std::max(1.0, group.count);
    for_present([&](double v, std::size_t c) { group.variance[c] += (v - group.mean[c]) * (v - group.mean[c]); });
    for (double& variance : group.variance) variance /= std::max(1.0, group.count);
    groups.push_back(std::move(group));
  }
  return groups;
}

Numbers statistics_of(const std::vector<Group>& groups) {
  Numbers all;
  for (const Group& group : groups) {
    all.insert(all.end(), group.mean.begin(), group.mean.end());
    all.insert(all.end(), group.variance.begin(), group.variance.end());
  }
  return all;
}

double activated(NormActivation activation, double v) {
  switch (activation) {
    case NormActivation::none: return v;
    case NormActivation::relu: return std::max(v, 0.0);
    case NormActivation::relu6: return std::clamp(v, 0.0, 6.0);
    case NormActivation::silu: return v / (1 + std::exp(-v));
  }
  return v;
}

double slope(NormActivation activation, double v) {
  const double sigmoid = 1 / (1 + std::exp(-v));
  switch (activation) {
    case NormActivation::none: return 1;
    case NormActivation::relu: return v > 0 ? 1 : 0;
    case NormActivation::relu6: return v > 0 && v < 6 ? 1 : 0;
    case NormActivation::silu: return sigmoid * (1 + v * (1 - sigmoid));
  }
  return 1;
}

// The sum before the activation at element i of a channel with this mean and variance.
struct Terms {
  const Numbers &x, &gamma, &beta;
  const Numbers* residual;
  double epsilon;

  double normalised(std::size_t i, double mean, double variance) const { return (x[i] - mean) / std::sqrt(variance + epsilon); }
  double sum(std::size_t i, double mean, double variance) const {
    const std::size_t c = i % gamma.size();
    return normalised(i, mean, variance) * gamma[c] + beta[c] + (residual == nullptr ? 0 : (*residual)[i]);
  }
};

std::vector<Numbers> batch_norm(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::BatchNormAttributes>();
  const Dimensions d(call.shape(0), a.group);
  const Terms terms{call.values[0], call.values[1], call.values[2], a.residual ? &call.values[4] : nullptr, a.epsilon};
  const std::vector<Group> groups = groups_of(terms.x, call.values[3], d);
  Numbers y(terms.x.size());
  for (const Group& group : groups) {
    for (std::size_t i = group.begin * d.channels; i < group.end * d.channels; ++i) {
      const std::size_t c = i % d.channels;
      if (!is_absent(call.values[3], d.sample(i))) y[i] = activated(a.activation, terms.sum(i, group.mean[c], group.variance[c]));
    }
  }
  return {y, statistics_of(groups)};
}

std::vector<Numbers> fixed_norm(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::FixedNormAttributes>();
  const Terms terms{call.values[0], call.values[1], call.values[2], a.residual ? &call.values[5] : nullptr, a.epsilon};
  Numbers y(terms.x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i % terms.gamma.size();
    y[i] = activated(a.activation, terms.sum(i, call.values[3][c], call.values[4][c]));
  }
  return {y};
}

// The requested gradients from those of all elements before the activation, and from dx.
std::vector<Numbers> made_of(const ops::NormGradients& made, const ReferenceCall& call, const Numbers& dx, const Numbers& d,
                             const Numbers& normalised) {
  const std::size_t channels = call.values[4].size();
  Numbers dgamma(channels), dbeta(channels);
  if (made.accumulate && made.gamma) dgamma = call.values[call.values.size() - made.sums()];
  if (made.accumulate && made.beta) dbeta = call.values.back();
  for (std::size_t i = 0; i < d.size(); ++i) dgamma[i % channels] += d[i] * normalised[i], dbeta[i % channels] += d[i];
  std::vector<Numbers> outputs;
  if (made.x) outputs.push_back(dx);
  if (made.residual) outputs.push_back(d);
  if (made.gamma) outputs.push_back(dgamma);
  if (made.beta) outputs.push_back(dbeta);
  return outputs;
}

// dx = gamma rstd (d - mean(d) - z mean(d z)) with z the normalised x and the means over the present rows of the group.
std::vector<Numbers> batch_norm_backward(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::BatchNormBackwardAttributes>();
  const Numbers &dy = call.values[0], &statistics = call.values[2], &ids = call.values[5];
  const Dimensions dims(call.shape(1), a.group);
  const Terms terms{call.values[1], call.values[3], call.values[4], a.residual ? &call.values[6] : nullptr, a.epsilon};
  Numbers d(dy.size()), z(dy.size()), dx(dy.size());
  const std::size_t per_group = dims.group * dims.values * dims.channels;
  for (std::size_t begin = 0; begin < dy.size(); begin += per_group) {
    const double* mean = statistics.data() + begin / per_group * 2 * dims.channels;
    const double* variance = mean + dims.channels;
    Numbers sum(dims.channels), projected(dims.channels);
    double count = 0;
    for (std::size_t i = begin; i < begin + per_group; ++i) {
      const std::size_t c = i % dims.channels;
      if (is_absent(ids, dims.sample(i))) continue;
      z[i] = terms.normalised(i, mean[c], variance[c]);
      d[i] = dy[i] * slope(a.activation, terms.sum(i, mean[c], variance[c]));
      sum[c] += d[i], projected[c] += d[i] * z[i], count += c == 0 ? 1 : 0;
    }
    for (std::size_t i = begin; i < begin + per_group; ++i) {
      const std::size_t c = i % dims.channels;
      if (is_absent(ids, dims.sample(i))) continue;
      dx[i] = terms.gamma[c] / std::sqrt(variance[c] + a.epsilon) * (d[i] - sum[c] / count - z[i] * projected[c] / count);
    }
  }
  return made_of(a.made, call, dx, d, z);
}

std::vector<Numbers> fixed_norm_backward(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::FixedNormBackwardAttributes>();
  const Numbers &dy = call.values[0], &mean = call.values[2], &variance = call.values[3];
  const Terms terms{call.values[1], call.values[4], call.values[5], a.residual ? &call.values[6] : nullptr, a.epsilon};
  Numbers d(dy.size()), z(dy.size()), dx(dy.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t c = i % mean.size();
    z[i] = terms.normalised(i, mean[c], variance[c]);
    d[i] = dy[i] * slope(a.activation, terms.sum(i, mean[c], variance[c]));
    dx[i] = d[i] * terms.gamma[c] / std::sqrt(variance[c] + a.epsilon);
  }
  return made_of(a.made, call, dx, d, z);
}

std::vector<Numbers> pool_statistics(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::PoolingAttributes>();
  const Numbers &statistics = call.values[0], &ids = call.values[1], &mean = call.values[2];
  const std::size_t channels = mean.size(), samples = extent(a.group);
  Numbers sums = call.values[4];
  for (std::size_t group = 0; group < statistics.size() / (2 * channels); ++group) {
    double n = 0;
    for (std::size_t i = 0; i < samples; ++i) n += is_absent(ids, group * samples + i) ? 0 : static_cast<double>(a.values);
    for (std::size_t c = 0; c < channels; ++c) {
      const double m = statistics[group * 2 * channels + c] - mean[c], v = statistics[(group * 2 + 1) * channels + c];
      sums[c] += n * m, sums[channels + c] += n * (v + m * m);
    }
    sums.back() += n;
  }
  return {sums};
}

std::vector<Numbers> moving_statistics(const ReferenceCall& call) {
  const double momentum = call.attributes.as<ops::PoolingAttributes>().momentum;
  Numbers mean = call.values[0], variance = call.values[1];
  const Numbers& sums = call.values[2];
  const double n = sums.back();
  if ((call.values.size() > 3 && !std::isfinite(call.values[3][0])) || n < 2) return {mean, variance};
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double first = sums[c], second = sums[mean.size() + c];
    if (!std::isfinite(first) || !std::isfinite(second)) continue;
    const double batch_variance = (second - first * first / n) / (n - 1);
    mean[c] += momentum * first / n;
    variance[c] = (1 - momentum) * variance[c] + momentum * batch_variance;
  }
  return {mean, variance};
}

// Odd sizes, one channel, channels of less and of more than a block, groups of several pieces, groups of one value.
const std::vector<Extents>& extents() {
  static const std::vector<Extents> list{
      {{4, 3, 5, 7}, 2, {1}},        {{18, 1}, 6, {0, 7}}, {{4, 65}, 1, {2}},        {{3, 4, 4, 3}, 3},
      {{8, 5, 33}, 4, {4, 5, 6, 7}}, {{2, 300, 24}, 1},    {{4, 7, 7, 300}, 4, {3}}, {{32, 9, 9, 16}, 32, {0, 1, 5, 31}}};
  return list;
}
const Extents kLarge{{32, 32, 32, 64}, 32};

void mark_absent(Numbers& ids, const std::vector<std::int64_t>& samples) {
  for (const std::int64_t each : samples) ids[extent(2 * each)] = ids[extent(2 * each) + 1] = ops::kAbsentRow;
}

// Shifts beta until no sum before the activation is near a kink. `mean_of(i)` and `variance_of(i)` are those of element i.
template <class Mean, class Variance>
void keep_from_kinks(const Terms& terms, Numbers& beta, double gap, Mean mean_of, Variance variance_of) {
  const std::size_t channels = beta.size();
  for (std::size_t c = 0; c < channels; ++c) {
    for (int attempt = 0; attempt < 1000; ++attempt, beta[c] += 0.0037) {
      bool near = false;
      for (std::size_t i = c; i < terms.x.size() && !near; i += channels) {
        const double v = terms.sum(i, mean_of(i), variance_of(i));
        near = std::abs(v) < gap || std::abs(v - 6) < gap;
      }
      if (!near) break;
    }
  }
}

// Differences are finite: with many rows, some sum before the activation is so near to a kink that they reach it.
OpCase without_kinks_in_reach(OpCase a_case, const Extents& e, NormActivation activation) {
  constexpr std::int64_t kMostRows = 64;
  const bool kinks = activation == NormActivation::relu || activation == NormActivation::relu6;
  const bool far = !kinks || e.x.elements() / e.channels() <= kMostRows;
  for (CaseInput& input : a_case.inputs) input.differentiable = input.differentiable && far;
  return a_case;
}

double gap_of(const Shape& x) { return std::min(2e-3, 0.05 / static_cast<double>(x.elements() / x.last())); }

constexpr double kEpsilon = 1e-5;

CaseInput residual_of(const Extents& e) { return wanted(e.x); }

OpCase forward(const Extents& e, NormActivation activation, bool residual, double epsilon = kEpsilon) {
  const Shape channels{e.channels()};
  OpCase result{ops::BatchNormAttributes{e.group, epsilon, activation, residual},
                {wanted(e.x, {-2, 3}), wanted(channels, {0.5, 3}), wanted(channels), sample_ids(e.x[0])}};
  if (residual) result.inputs.push_back(residual_of(e));
  result.derive = [=](std::vector<Numbers>& values) {
    mark_absent(values[3], e.absent);
    const Dimensions d(e.x, e.group);
    const std::vector<Group> groups = groups_of(values[0], values[3], d);
    const auto group = [&](std::size_t i) { return d.sample(i) / d.group; };
    keep_from_kinks(
        {values[0], values[1], values[2], residual ? &values[4] : nullptr, epsilon}, values[2], gap_of(e.x),
        [&](std::size_t i) { return groups[group(i)].mean[i % d.channels]; },
        [&](std::size_t i) { return groups[group(i)].variance[i % d.channels]; });
  };
  return without_kinks_in_reach(std::move(result), e, activation);
}

OpCase fixed(const Extents& e, NormActivation activation, bool residual) {
  const Shape channels{e.channels()};
  OpCase result{ops::FixedNormAttributes{kEpsilon, activation, residual},
                {wanted(e.x, {-2, 3}), wanted(channels, {0.5, 3}), wanted(channels), f32(channels), f32(channels, {0.1, 2})}};
  if (residual) result.inputs.push_back(residual_of(e));
  result.derive = [=](std::vector<Numbers>& values) {
    keep_from_kinks(
        {values[0], values[1], values[2], residual ? &values[5] : nullptr, kEpsilon}, values[2], gap_of(e.x),
        [&](std::size_t i) { return values[3][i % values[3].size()]; },
        [&](std::size_t i) { return values[4][i % values[4].size()]; });
  };
  return without_kinks_in_reach(std::move(result), e, activation);
}

void add_accumulators(OpCase& a_case, const ops::NormGradients& made, const Shape& channels) {
  if (made.accumulate) a_case.inputs.insert(a_case.inputs.end(), made.sums(), f32(channels));
}

OpCase backward(const Extents& e, NormActivation activation, bool residual, ops::NormGradients made) {
  const Shape channels{e.channels()};
  const bool reads = residual && activation != NormActivation::none;
  OpCase result{ops::BatchNormBackwardAttributes{e.group, kEpsilon, activation, reads, made},
                {f32(e.x), f32(e.x, {-2, 3}), f32({e.groups(), 2, e.channels()}), f32(channels, {0.5, 3}), f32(channels),
                 sample_ids(e.x[0])}};
  if (reads) result.inputs.push_back(f32(e.x));
  add_accumulators(result, made, channels);
  result.derive = [=](std::vector<Numbers>& values) {
    mark_absent(values[5], e.absent);
    const Dimensions d(e.x, e.group);
    values[2] = round_to(statistics_of(groups_of(values[1], values[5], d)), DType::f32);
    const auto at = [&](std::size_t i) { return d.sample(i) / d.group * 2 * d.channels + i % d.channels; };
    keep_from_kinks(
        {values[1], values[3], values[4], reads ? &values[6] : nullptr, kEpsilon}, values[4], gap_of(e.x),
        [&](std::size_t i) { return values[2][at(i)]; }, [&](std::size_t i) { return values[2][at(i) + d.channels]; });
  };
  return result;
}

OpCase fixed_backward(const Extents& e, NormActivation activation, bool residual, ops::NormGradients made) {
  const Shape channels{e.channels()};
  const bool reads = residual && activation != NormActivation::none;
  OpCase result{ops::FixedNormBackwardAttributes{kEpsilon, activation, reads, made},
                {f32(e.x), f32(e.x, {-2, 3}), f32(channels), f32(channels, {0.1, 2}), f32(channels, {0.5, 3}), f32(channels)}};
  if (reads) result.inputs.push_back(f32(e.x));
  add_accumulators(result, made, channels);
  result.derive = [=](std::vector<Numbers>& values) {
    keep_from_kinks(
        {values[1], values[4], values[5], reads ? &values[6] : nullptr, kEpsilon}, values[5], gap_of(e.x),
        [&](std::size_t i) { return values[2][i % values[2].size()]; },
        [&](std::size_t i) { return values[3][i % values[3].size()]; });
  };
  return result;
}

// The gradients that are made. Frozen parameters have none, and neither has an input below which nothing is trained.
std::vector<ops::NormGradients> parts(bool residual) {
  std::vector<ops::NormGradients> list;
  for (const bool x : {true, false}) {
    for (const bool of_residual : residual ? std::vector{true, false} : std::vector{false}) {
      for (const bool gamma : {true, false}) {
        for (const bool beta : {true, false}) {
          if (x || of_residual || gamma || beta) list.push_back({false, x, of_residual, gamma, beta});
        }
      }
    }
  }
  return list;
}

// The type of an operand: fp32 or the given type of 16 bits.
template <class A>
OpCase in_widths(OpCase a_case, const std::vector<std::size_t>& narrow, DType dtype, A attributes) {
  a_case = with_inputs_of(dtype, narrow, std::move(a_case));
  a_case.attributes = std::move(attributes);
  return a_case;
}

// The operands at `wide_inputs` and the result `output` in all mixtures of fp32 and one type of 16 bits but fp32 alone.
template <class A, class Output>
void add_mixtures(std::vector<OpCase>& cases, const OpCase& a_case, const std::vector<std::size_t>& inputs, Output output) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (std::size_t mixture = 1; mixture < (std::size_t{2} << inputs.size()); ++mixture) {
      std::vector<std::size_t> narrow;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if ((mixture >> i & 1) != 0) narrow.push_back(inputs[i]);
      }
      A attributes = a_case.attributes.as<A>();
      if ((mixture >> inputs.size() & 1) != 0) output(attributes) = dtype;
      cases.push_back(in_widths(a_case, narrow, dtype, attributes));
    }
  }
}

std::vector<OpCase> forward_cases() {
  std::vector<OpCase> cases;
  bool residual = false;
  for (const Extents& e : extents()) {
    for (const NormActivation activation : kActivations) cases.push_back(forward(e, activation, residual = !residual));
    residual = !residual;
  }
  cases.push_back(forward({{4, 3, 7}, 4, {}}, NormActivation::none, false, 0.1));
  const auto output = [](ops::BatchNormAttributes& a) -> DType& { return a.output; };
  for (const Extents& e : {extents()[0], extents()[4]}) {
    add_mixtures<ops::BatchNormAttributes>(cases, forward(e, NormActivation::relu, false), {0}, output);
    add_mixtures<ops::BatchNormAttributes>(cases, forward(e, NormActivation::silu, true), {0, 4}, output);
  }
  cases.push_back(timed(forward(kLarge, NormActivation::relu, false)));
  cases.push_back(timed(forward(kLarge, NormActivation::relu, true)));
  return cases;
}

std::vector<OpCase> fixed_cases() {
  std::vector<OpCase> cases;
  bool residual = false;
  for (const Extents& e : extents()) {
    for (const NormActivation activation : kActivations) cases.push_back(fixed(e, activation, residual = !residual));
    residual = !residual;
  }
  const auto output = [](ops::FixedNormAttributes& a) -> DType& { return a.output; };
  add_mixtures<ops::FixedNormAttributes>(cases, fixed(extents()[0], NormActivation::relu6, false), {0}, output);
  add_mixtures<ops::FixedNormAttributes>(cases, fixed(extents()[4], NormActivation::silu, true), {0, 5}, output);
  cases.push_back(timed(fixed(kLarge, NormActivation::relu, false)));
  return cases;
}

template <class A, class Make>
std::vector<OpCase> backward_cases(Make make) {
  std::vector<OpCase> cases;
  const auto add_all = [&](const Extents& e, NormActivation activation, bool residual, ops::NormGradients made) {
    cases.push_back(make(e, activation, residual, made));
    if (made.sums() == 0) return;
    made.accumulate = true;
    cases.push_back(make(e, activation, residual, made));
    cases.push_back(in_window(make(e, activation, residual, made)));
  };
  bool residual = false;
  for (const Extents& e : extents()) {
    for (const NormActivation activation : kActivations) {
      residual = !residual;
      add_all(e, activation, residual, {.residual = residual});
    }
    residual = !residual;
  }
  for (const ops::NormGradients& made : parts(true)) add_all(extents()[0], NormActivation::relu, true, made);
  for (const ops::NormGradients& made : parts(true)) add_all(extents()[4], NormActivation::none, true, made);
  for (const ops::NormGradients& made : parts(false)) add_all(extents()[3], NormActivation::silu, false, made);
  const auto output = [](A& a) -> DType& { return a.made.output; };
  add_mixtures<A>(cases, make(extents()[0], NormActivation::relu, false, {}), {0, 1}, output);
  add_mixtures<A>(cases, make(extents()[4], NormActivation::silu, true, {.residual = true}), {0, 1, 6}, output);
  add_mixtures<A>(cases, make(extents()[0], NormActivation::none, false, {.x = false, .residual = true}), {0, 1}, output);
  cases.push_back(timed(make(kLarge, NormActivation::relu, false, {.accumulate = true})));
  cases.push_back(timed(make(kLarge, NormActivation::relu, true, {.accumulate = true, .residual = true})));
  return cases;
}

OpCase pooling(std::int64_t groups, std::int64_t group, std::int64_t values, std::int64_t channels,
               const std::vector<std::int64_t>& absent) {
  OpCase result{ops::PoolingAttributes{group, values},
                {f32({groups, 2, channels}, {0.1, 2}), sample_ids(groups * group), f32({channels}), f32({channels}, {0.5, 2}),
                 f64({2 * channels + 1}, {1, 9})}};
  result.derive = [=](std::vector<Numbers>& all) { mark_absent(all[1], absent); };
  return result;
}

OpCase moving(std::int64_t channels, bool guarded, double values, std::optional<double> coefficient = {},
              std::vector<std::pair<std::size_t, double>> sums = {}) {
  OpCase result{ops::PoolingAttributes{1, 1, 0.25},
                {f32({channels}), f32({channels}, {0.5, 2}), f64({2 * channels + 1}, {1, 2})}};
  if (guarded) result.inputs.push_back(f32({1}, {0.1, 1}));
  result.derive = [=](std::vector<Numbers>& all) {
    // Possible sums: the second of a channel is at least the square of the first by their number.
    const std::size_t n = all[0].size();
    for (std::size_t c = 0; c < n; ++c) all[2][n + c] += values > 0 ? all[2][c] * all[2][c] / values : 0;
    all[2].back() = values;
    for (const auto& [at, sum] : sums) all[2][at] = sum;
    if (coefficient) all[3] = {*coefficient};
  };
  return result;
}

std::vector<Numbers> count_window(const ReferenceCall& call) {
  const bool finite = call.values.size() < 3 || std::isfinite(call.values[2][0]);
  return {{call.values[0][0] + (finite && call.values[1].back() > 0 ? 1 : 0)}};
}

OpCase counting(double values, std::optional<double> coefficient = {}, std::int64_t sums = 5) {
  OpCase result{ops::NoAttributes{}, {{{DType::i64, Shape{1}}, {0, 1000}, false}, f64(Shape{sums}, {1, 2})}};
  if (coefficient) result.inputs.push_back(f32({1}, {0.1, 1}));
  result.derive = [=](std::vector<Numbers>& all) {
    all[1].back() = values;
    if (coefficient) all[2] = {*coefficient};
  };
  return result;
}

}  // namespace

std::vector<OpCases> batch_norm_cases() {
  std::vector<OpCase> pools;
  for (const OpCase& each : {pooling(1, 3, 5, 1, {}), pooling(4, 2, 1, 7, {0, 4, 5}), pooling(3, 8, 49, 300, {7, 16, 17, 18}),
                             pooling(2, 1, 1, 65, {1})}) {
    pools.insert(pools.end(), {each, in_window(each)});
  }
  pools.push_back(pooling(2, 2, 3, 5, {1}));
  pools.back().inputs.push_back({{DType::i64, Shape{1}}, {0, 9}, false});
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  return {{&ops::kBatchNorm, batch_norm, forward_cases(), {}},
          {&ops::kBatchNormBackward, batch_norm_backward, backward_cases<ops::BatchNormBackwardAttributes>(backward), {}},
          {&ops::kPoolStatistics, pool_statistics, pools, {}},
          {&ops::kMovingStatistics,
           moving_statistics,
           {moving(1, false, 2), moving(768, true, 1000), moving(9, true, 50, kInfinity), moving(9, true, 50, kNaN),
            moving(9, false, 1), moving(9, false, 0), moving(9, true, 50, {}, {{0, kNaN}, {11, kInfinity}, {3, -kInfinity}})},
           {}},
          {&ops::kCountWindow,
           count_window,
           {counting(3), counting(0), counting(7, {}, 129), counting(3, 0.5), counting(3, kInfinity), counting(3, kNaN)},
           {}},
          {&ops::kFixedNorm, fixed_norm, fixed_cases(), {}},
          {&ops::kFixedNormBackward, fixed_norm_backward, backward_cases<ops::FixedNormBackwardAttributes>(fixed_backward), {}}};
}

}  // namespace plimsoll::test
