// Mistral: a sliding window on every layer if the file has one. Source: transformers, models/mistral.
#pragma once

#include "models/family.h"

namespace plimsoll {

extern const Family kMistral;

}  // namespace plimsoll
