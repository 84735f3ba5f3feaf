// Collects the faults of a configuration, so that all are told at once. What rests on a key that is faulty is not judged: a
// second error that follows from the first says nothing new.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error_list.h"

namespace plimsoll {

class ConfigFaults {
 public:
  // Runs a step and keeps its error, if it is the user's or the environment's; whether it went well.
  template <class Step>
  bool attempt(Step step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::internal) throw;
      errors_.push_back(error);
      return false;
    }
  }

  // The same for a step that reads these keys or sections: it is left out where one of them is faulty, and makes them so.
  template <class Step>
  bool attempt(std::initializer_list<std::string_view> reads, Step step) {
    if (std::any_of(reads.begin(), reads.end(), [&](std::string_view key) { return is_faulty(key); })) return false;
    if (attempt(std::move(step))) return true;
    for (const std::string_view key : reads) distrust(key);
    return false;
  }

  // Of a key, or of a whole section.
  void distrust(std::string_view key) { faulty_.emplace_back(key); }

  // Throws the first error with the others beside it, if there is one.
  void check() const {
    if (!errors_.empty()) throw ErrorList(errors_);
  }

 private:
  static bool within(std::string_view key, std::string_view section) {
    return key.size() > section.size() && key.starts_with(section) && key[section.size()] == '.';
  }
  bool is_faulty(std::string_view key) const {
    return std::any_of(faulty_.begin(), faulty_.end(),
                       [&](const std::string& faulty) { return faulty == key || within(faulty, key) || within(key, faulty); });
  }

  std::vector<Error> errors_;
  std::vector<std::string> faulty_;
};

}  // namespace plimsoll
