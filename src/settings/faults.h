// Collects the faults of a configuration, so that all are reported at once. A rule that reads a faulty key is skipped: a second
// error that follows from the first says nothing new.
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
  // Runs a step and keeps its error, if it is the user's or the environment's. Returns true without an error.
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

  // A step that reads these keys or sections is skipped if one of them is faulty; its error makes them faulty.
  template <class Step>
  bool attempt(std::initializer_list<std::string_view> reads, Step step) {
    if (std::any_of(reads.begin(), reads.end(), [&](std::string_view key) { return is_faulty(key); })) return false;
    if (attempt(std::move(step))) return true;
    for (const std::string_view key : reads) distrust(key);
    return false;
  }

  // Marks a key or a section as faulty.
  void distrust(std::string_view key) { faulty_.emplace_back(key); }

  // Throws the first error, with the others, if there is one.
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
