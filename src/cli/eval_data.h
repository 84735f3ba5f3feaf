// The meaning of evaluation data: tokens of the weights' own vocabulary, whatever the configuration was made for.
#pragma once

#include "config/config.h"
#include "data/source.h"
#include "weights/model_source.h"

namespace plimsoll {

// Makes the configuration one for data of these weights: their vocabulary, where they carry one. What the configuration names
// beside it is told on stderr. E-CONFIG-CONFLICT (exit 2): weights of bytes, and a format that goes through a vocabulary.
void read_as_trained(Config& config, const ModelSource& model);

// Tells on stderr what must be known of the data before their loss means something.
void tell_data(const TokenFile& data, const ModelSource& model);

}  // namespace plimsoll
