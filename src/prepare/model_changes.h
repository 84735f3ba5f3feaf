// Other trainings of the same model on the same data: with an adapter or another rank, other formats of what is frozen, samples
// of another length, parts of the model frozen. What levers and remedies try; all of them change the result.
#pragma once

#include <string>
#include <vector>

#include "prepare/asked.h"

namespace plimsoll {

// One change to a configuration.
struct Change {
  std::string text;
  Arguments arguments;
  bool changes_result = false;
};

// Of a training of all weights: adapters instead, the least change first. None where there is one, or parts are frozen by hand.
std::vector<Change> new_adapters(const Config& config);
// Of one with a new adapter: half its rank, and twice.
std::vector<Change> other_ranks(const Config& config);
// Of what is frozen, from the widest format to the narrowest, without its own.
std::vector<Change> other_bases(const Config& config);
// A half, a quarter, an eighth of the tokens of a sample.
std::vector<Change> shorter_samples(const Config& config);
Change longer_samples(const Config& config);
// Embeddings, and the lower half of the blocks with them, beside what is frozen already. None under an adapter.
std::vector<Change> frozen_parts(const Config& config, const PlanningInput& input);

}  // namespace plimsoll
