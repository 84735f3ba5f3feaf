// The error of everything that a tokenizer.json can say and Plimsoll does not compute, and of everything broken in it.
#pragma once

#include <string>

#include "base/error.h"

namespace plimsoll {

// data_error E-TOKENIZER. `where`: the file, with the part of it that is meant.
Error tokenizer_error(std::string where, std::string message, std::string expected = {});

}  // namespace plimsoll
