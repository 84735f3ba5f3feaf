// The interpretation of evaluation data: as tokens of the weights' own vocabulary, even if the configuration names another one.
#pragma once

#include "config/config.h"
#include "data/data_set.h"
#include "weights/model_source.h"

namespace plimsoll {

// Adapts the configuration to the data of these weights: their vocabulary, if they carry one. A different vocabulary or template
// of the configuration is reported on stderr. E-CONFIG-CONFLICT (exit 2) for weights of bytes with a format of a vocabulary.
void read_as_trained(Config& config, const ModelSource& model);

// Reports properties of the data on stderr that limit the meaning of their loss.
void tell_data(const DataSet& data, const ModelSource& model);

}  // namespace plimsoll
