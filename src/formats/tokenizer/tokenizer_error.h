// The error of broken or unsupported parts of a tokenizer.json.
#pragma once

#include <string>

#include "base/error.h"

namespace plimsoll {

// data_error E-TOKENIZER. `where`: the file and its part.
Error tokenizer_error(std::string where, std::string message, std::string expected = {});

}  // namespace plimsoll
