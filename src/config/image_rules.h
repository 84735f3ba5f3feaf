// The rules of models of images: keys of tokens that they do not have, and the statistics of batch normalisation.
#pragma once

#include <cstdint>

#include "config/config_rules.h"
#include "models/model_graph.h"

namespace plimsoll {

// The samples that share statistics in a training; 0 if no layer normalises by those of a batch. If nothing is given, it is the
// micro-batch, or else the largest divisor of the effective batch up to 32.
std::int64_t stat_batch(const Config& config);
// The statistics of the layers in a training. E-FREEZE for a pattern of model.freeze without a match.
NormOptions norm_options(const Config& config);

// Batches near that of the configuration whose groups are large enough.
Remedies larger_groups(const Config& config);

// E-CONFIG-CONFLICT for keys without effect, E-BATCH-NORM for groups that do not fit the batch. A new head becomes one of
// adapter.modules_to_save.
void complete_images(Config& config, const GivenSettings& given);

// The numbers of the folder, unless keys give them. E-CONFIG-VALUE for another number of them than channels of the model.
void complete_pixels(Config& config, const GivenSettings& given);

}  // namespace plimsoll
