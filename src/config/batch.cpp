#include "config/batch.h"

#include <fmt/core.h>

#include <cstdlib>

#include "base/error.h"

namespace plimsoll {
namespace {

// The divisor of n nearest to `wish`; of two, the smaller one.
std::int64_t nearest_divisor(std::int64_t n, std::int64_t wish) {
  std::int64_t best = 1;
  const auto consider = [&](std::int64_t divisor) {
    const std::int64_t distance = std::abs(divisor - wish), least = std::abs(best - wish);
    if (distance < least || (distance == least && divisor < best)) best = divisor;
  };
  for (std::int64_t divisor = 1; divisor * divisor <= n; ++divisor) {
    if (n % divisor != 0) continue;
    consider(divisor);
    consider(n / divisor);
  }
  return best;
}

// The multiples of `factor` around n, each with its other factor: "96 (k=6) or 112 (k=7)".
std::string nearest_multiples(std::int64_t n, std::int64_t factor, char other) {
  const std::int64_t below = n / factor;
  std::string text;
  if (below > 0) text = fmt::format("{} ({}={}) or ", below * factor, other, below);
  return text + fmt::format("{} ({}={})", (below + 1) * factor, other, below + 1);
}

// `key`: the given factor, "micro_batch" or "accumulation"; `product`: both factors; `other`: the letter of the other factor.
Error not_divisible(std::int64_t effective, std::int64_t factor, const std::string& key, const std::string& product, char other,
                    const std::string& where) {
  const std::int64_t better = nearest_divisor(effective, factor);
  return config_error("E-BATCH-3", where,
                      fmt::format("effective_batch={} cannot be {}. Nearest: {}; or {}={} ({}={}).", effective, product,
                                  nearest_multiples(effective, factor, other), key, better, other, effective / better),
                      "", {Change("train." + key, better)});
}

Error three_disagree(const BatchSplit& split, const std::string& where) {
  const std::int64_t e = split.effective, b = *split.micro, k = *split.accumulation;
  std::string fixes = fmt::format("effective_batch={}", b * k);
  Remedies remedies{Change("train.effective_batch", b * k)};
  if (e % b == 0) {
    fixes += fmt::format(", or accumulation={}", e / b);
    remedies.push_back(Change("train.accumulation", e / b));
  }
  if (e % k == 0) {
    fixes += fmt::format(", or micro_batch={}", e / k);
    remedies.push_back(Change("train.micro_batch", e / k));
  }
  if (e % b != 0 && e % k != 0) {
    const std::int64_t better = nearest_divisor(e, b);
    fixes += fmt::format(", or micro_batch={} and accumulation={}", better, e / better);
  }
  remedies.push_back(Remedy::of_changes({{"train.micro_batch", "auto"}, {"train.accumulation", "auto"}}));
  return config_error(
      "E-BATCH-3", where,
      fmt::format("effective_batch={} is not micro_batch x accumulation = {} x {} = {}. Nearest: {}.", e, b, k, b * k, fixes), "",
      remedies);
}

}  // namespace

BatchSplit resolve_batch(std::optional<std::int64_t> effective, std::optional<std::int64_t> micro,
                         std::optional<std::int64_t> accumulation, const std::string& where) {
  if (!effective && !micro) {
    throw config_error("E-CONFIG-MISSING", where, "train.effective_batch is not given",
                       "how many samples an update takes; micro_batch and accumulation may then be \"auto\"",
                       {Change("train.effective_batch", 32)});
  }
  if (!effective) return {*micro * accumulation.value_or(1), micro, accumulation.value_or(1)};
  if (micro && !accumulation) {
    const std::string product = fmt::format("{} x accumulation", *micro);
    if (*effective % *micro != 0) throw not_divisible(*effective, *micro, "micro_batch", product, 'k', where);
    return {*effective, micro, *effective / *micro};
  }
  if (accumulation && !micro) {
    const std::string product = fmt::format("micro_batch x {}", *accumulation);
    if (*effective % *accumulation != 0) throw not_divisible(*effective, *accumulation, "accumulation", product, 'b', where);
    return {*effective, *effective / *accumulation, accumulation};
  }
  const BatchSplit split{*effective, micro, accumulation};
  if (!micro || *micro * *accumulation == *effective) return split;
  throw three_disagree(split, where);
}

}  // namespace plimsoll
