// Several errors found together: the first, and the others.
#pragma once

#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll {

struct ErrorList : Error {
  // `errors` has at least one.
  explicit ErrorList(std::vector<Error> errors) : Error(std::move(errors.front())), others(std::move(errors)) {
    others.erase(others.begin());
  }

  std::vector<Error> others;
};

}  // namespace plimsoll
