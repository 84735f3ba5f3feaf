// Other trainings of the same model on the same data, for levers and remedies. They have an adapter or another rank, other
// formats of frozen weights or of the optimizer's state, samples of another length, or frozen parts of the model. All of them
// change the result.
#pragma once

#include <string>
#include <vector>

#include "prepare/changed_config.h"

namespace plimsoll {

// Another configuration, by a few changes.
struct Alternative {
  std::string text;
  Changes changes;
  bool changes_result = false;
};

// For a training of all weights: adapters instead, the smallest change first. Empty if there is an adapter, or if parts are
// frozen by hand.
std::vector<Alternative> new_adapters(const Config& config);
// For a training with a new adapter: half the rank, and twice the rank.
std::vector<Alternative> other_ranks(const Config& config);
// Formats for frozen weights other than the current one, from the widest to the narrowest.
std::vector<Alternative> other_bases(const Config& config);
// Narrower numbers for the optimizer's state, the widest first. Empty if it keeps none, or not in fp32.
std::vector<Alternative> narrower_state(const Config& config);
// A half, a quarter, an eighth of the tokens of a sample; twice as many. Empty for a model without tokens.
std::vector<Alternative> shorter_samples(const Config& config);
std::vector<Alternative> longer_samples(const Config& config);
// Freezes the embeddings, and the embeddings with the lower half of the blocks, in addition to the parameters that are frozen
// already. Empty with an adapter.
std::vector<Alternative> frozen_parts(const Config& config, const PlanningInput& input);

}  // namespace plimsoll
