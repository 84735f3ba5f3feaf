#include "config/optimizer_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace plimsoll {
namespace {

// Computes the betas from half-lives.
void complete_betas(Config& config, const GivenSettings& given) {
  OptimizerChoice& optimizer = config.optimizer;
  if (!optimizer.half_lives) return;
  const std::string where = given.where("optimizer.half_lives");
  const bool both = given.has("optimizer.betas");
  const bool none = optimizer.kind == OptimizerKind::sgd || optimizer.kind == OptimizerKind::adafactor;
  if (both || none) {
    const std::string quoted = config_key("optimizer.name").text(config), name = quoted.substr(1, quoted.size() - 2);
    throw config_error("E-CONFIG-CONFLICT", where,
                       both ? "betas and half_lives are both given" : "half_lives are given, and " + name + " has no betas",
                       "half-lives alone, of adamw or lion: they are betas for any batch size",
                       {Change("optimizer.half_lives", "none")});
  }
  const RunLength run = run_length(config);
  const auto beta = [&](const Duration& half_life) {
    const double updates = in_samples(half_life, run) / static_cast<double>(run.effective_batch);
    const double kept = updates > 0 ? std::exp2(-1 / updates) : 0;
    if (updates > 0 && kept <= kBelowOne) return kept;
    throw config_error("E-CONFIG-RANGE", where, fmt::format("a half-life is {:g} updates", updates),
                       "more than 0 updates, and at most 693,000: a longer memory is lost in fp32");
  };
  optimizer.beta1 = beta((*optimizer.half_lives)[0]);
  optimizer.beta2 = beta((*optimizer.half_lives)[1]);
}

struct UsualSettings {
  double learning_rate, weight_decay, beta2;
};

// Lion's steps have the same length in every coordinate. Its usual rate is a third of AdamW's, its decay three times AdamW's
// (Chen et al., 2023).
UsualSettings usual_settings(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw: return {3e-4, 0.1, 0.95};
    case OptimizerKind::lion: return {1e-4, 0.3, 0.99};
    case OptimizerKind::sgd: return {1e-2, 0, 0.95};
    case OptimizerKind::adafactor: return {1e-2, 0, 0.95};  // relative to the size of a parameter
  }
  return {};
}

// A rate above this one is most likely a mistake: a few steps undo all learning.
double absurd_rate(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw: return 0.1;
    case OptimizerKind::lion: return 0.03;
    case OptimizerKind::sgd: return 10;
    case OptimizerKind::adafactor: return 1;
  }
  return 1;
}

}  // namespace

double usual_learning_rate(OptimizerKind kind) { return usual_settings(kind).learning_rate; }

void complete_optimizer(Config& config, const GivenSettings& given) {
  OptimizerChoice& optimizer = config.optimizer;
  const UsualSettings usual = usual_settings(optimizer.kind);
  if (!given.has("optimizer.learning_rate")) optimizer.learning_rate = usual.learning_rate;
  if (!given.has("optimizer.weight_decay")) optimizer.weight_decay = usual.weight_decay;
  if (!given.has("optimizer.betas")) optimizer.beta2 = usual.beta2;
  complete_betas(config, given);
  if (optimizer.ema_half_life && optimizer.ema_half_life->amount == 0) {
    throw config_error("E-CONFIG-RANGE", given.where("optimizer.ema_half_life"), "optimizer.ema_half_life is 0",
                       "a length of training, or \"none\"", {Change("optimizer.ema_half_life", "none")});
  }
}

void note_doubtful_optimizer(Config& config, const GivenSettings& given) {
  const OptimizerChoice& o = config.optimizer;
  const std::string quoted = config_key("optimizer.name").text(config), name = quoted.substr(1, quoted.size() - 2);
  const auto note = [&](bool doubtful, std::string_view key, const std::string& what) {
    if (doubtful) config.notes.push_back(fmt::format("{}: {}", given.where(key), what));
  };
  const double rate = o.learning_rate;
  note(rate > absurd_rate(o.kind), "optimizer.learning_rate",
       fmt::format("a learning rate of {:g} is far too high for {}: most likely this diverges; {:g} is usual", rate, name,
                   usual_settings(o.kind).learning_rate));
  note(rate == 0, "optimizer.learning_rate", "the learning rate is 0: nothing is learned");
  note(rate * o.weight_decay >= 1, "optimizer.weight_decay",
       fmt::format("learning_rate x weight_decay is {:g}: each update takes off the whole of a weight", rate * o.weight_decay));
  const bool adamw = o.kind == OptimizerKind::adamw, sgd = o.kind == OptimizerKind::sgd,
             betas = adamw || o.kind == OptimizerKind::lion;
  note(adamw && o.beta1 > o.beta2, "optimizer.betas",
       fmt::format("the first beta, {:g}, is above the second, {:g}; the other way round is usual", o.beta1, o.beta2));
  note(betas && std::max(o.beta1, o.beta2) > 0.99999, "optimizer.betas",
       fmt::format("betas of {:g} and {:g} hardly take in any gradient", o.beta1, o.beta2));
  note(adamw && o.epsilon >= 0.1, "optimizer.epsilon", fmt::format("an epsilon of {:g} outweighs most gradients", o.epsilon));
  // Keys of another optimizer. Defaults are no mistake: the resolved file writes these keys for all optimizers.
  const OptimizerChoice none;
  const auto unused = [&](bool given_in_vain, std::string_view key) {
    note(given_in_vain, key, fmt::format("{} is not used: {} has no such thing", key, name));
  };
  unused(!betas && given.has("optimizer.betas") && (o.beta1 != none.beta1 || o.beta2 != none.beta2), "optimizer.betas");
  unused(!adamw && o.epsilon != none.epsilon, "optimizer.epsilon");
  unused(!sgd && o.momentum != 0, "optimizer.momentum");
  unused(!sgd && o.nesterov, "optimizer.nesterov");
  note(sgd && o.nesterov && o.momentum == 0, "optimizer.nesterov", "optimizer.nesterov is not used: optimizer.momentum is 0");
}

}  // namespace plimsoll
