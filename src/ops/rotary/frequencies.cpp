#include "ops/rotary/frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll::ops {
namespace {

// YaRN's factor of logits, a function of the logarithm of the scale (Peng et al., 2023).
double yarn_scale(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

double factor_of(const RotaryAttributes& a) {
  if (a.factor > 0) return a.factor;
  return a.original > 0 ? static_cast<double>(a.most) / static_cast<double>(a.original) : 1;
}

double attention_factor_of(const RotaryAttributes& a) {
  const double factor = factor_of(a);
  if (a.scaling != RotaryScaling::yarn && a.scaling != RotaryScaling::longrope) return 1;
  if (a.attention_factor > 0) return a.attention_factor;
  if (a.scaling == RotaryScaling::longrope) {
    return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(a.original)));
  }
  if (a.mscale != 0 && a.mscale_all_dim != 0) return yarn_scale(factor, a.mscale) / yarn_scale(factor, a.mscale_all_dim);
  return yarn_scale(factor, 1);
}

// The base of the angles. Dynamic scaling computes it in fp64 up to the context of the model, and makes it grow with longer
// lengths, in fp32.
float theta_of(const RotaryAttributes& a) {
  if (a.scaling != RotaryScaling::dynamic) return static_cast<float>(a.theta);
  const double d = static_cast<double>(a.rotated), exponent = d / (d - 2);
  if (a.length <= a.most) return static_cast<float>(a.theta * std::pow(a.factor - (a.factor - 1), exponent));
  const float stretched = static_cast<float>(a.factor) * static_cast<float>(a.length) / static_cast<float>(a.most);
  const float grown = std::pow(stretched - static_cast<float>(a.factor - 1), static_cast<float>(exponent));
  return static_cast<float>(a.theta) * grown;
}

// Wavelengths up to `original / high` stay, those from `original / low` on are stretched, and those between are mixed.
void scale_bands(const RotaryAttributes& a, std::vector<float>& inverse) {
  const float original = static_cast<float>(a.original), factor = static_cast<float>(a.factor);
  const double context = static_cast<double>(a.original);
  const float longest = static_cast<float>(context / a.low), shortest = static_cast<float>(context / a.high);
  for (float& f : inverse) {
    const float wavelength = 1 / f * static_cast<float>(2 * std::numbers::pi);
    const float scaled = wavelength > longest ? f / factor : f;
    if (wavelength >= shortest && wavelength <= longest) {
      const float mix = (1 / wavelength * original - static_cast<float>(a.low)) / static_cast<float>(a.high - a.low);
      f = (1 - mix) * scaled / factor + mix * scaled;
    } else {
      f = scaled;
    }
  }
}

// `powers` are theta^e.
void scale_yarn(const RotaryAttributes& a, const std::vector<float>& powers, std::vector<float>& inverse) {
  const double d = static_cast<double>(a.rotated);
  const auto pair_of = [&](double turns) {
    const double ratio = static_cast<double>(a.original) / (turns * 2 * std::numbers::pi);
    return d * std::log(ratio) / (2 * std::log(a.theta));
  };
  double low = pair_of(a.beta_fast), high = pair_of(a.beta_slow);
  if (a.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, d - 1);
  if (low == high) high += 0.001;
  const float factor = static_cast<float>(factor_of(a));
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1 - std::clamp(ramp, 0.0F, 1.0F);
    inverse[i] = 1 / (factor * powers[i]) * (1 - kept) + inverse[i] * kept;
  }
}

}  // namespace

RotaryTable rotary_table(const RotaryAttributes& a) {
  const auto pairs = static_cast<std::size_t>(a.rotated / 2);
  const float theta = theta_of(a);
  std::vector<float> powers(pairs), inverse(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    powers[i] = std::pow(theta, static_cast<float>(2 * i) / static_cast<float>(a.rotated));
    inverse[i] = 1 / powers[i];
  }
  switch (a.scaling) {
    case RotaryScaling::none:
    case RotaryScaling::dynamic: break;
    case RotaryScaling::linear:
      for (float& f : inverse) f /= static_cast<float>(a.factor);
      break;
    case RotaryScaling::by_bands: scale_bands(a, inverse); break;
    case RotaryScaling::yarn: scale_yarn(a, powers, inverse); break;
    case RotaryScaling::longrope: {
      const std::vector<double>& stretch = a.length > a.original ? a.long_factor : a.short_factor;
      for (std::size_t i = 0; i < pairs; ++i) inverse[i] = 1 / (static_cast<float>(stretch[i]) * powers[i]);
      break;
    }
  }
  return {std::move(inverse), static_cast<float>(attention_factor_of(a))};
}

}  // namespace plimsoll::ops
