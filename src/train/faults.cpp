#include "train/faults.h"

#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

Error no_fault(std::string_view text) {
  return config_error("E-USAGE", "fault", "'" + std::string(text) + "' is no fault",
                      "keep_gradients, weights=0.5,1, overflow=UPDATE:MICRO:TIMES or statistics=micro|twice|replay|rows");
}

// The numbers after the name of a fault; none for other names.
std::vector<double> numbers_of(std::string_view text, std::string_view name, char between) {
  std::vector<double> numbers;
  if (!text.starts_with(name)) return numbers;
  const std::string list(text.substr(name.size()));
  for (const char* at = list.c_str();; ++at) {
    char* end = nullptr;
    numbers.push_back(std::strtod(at, &end));
    if (end == at || (*end != between && *end != '\0')) throw no_fault(text);
    at = end;
    if (*at == '\0') return numbers;
  }
}

StatisticsFault statistics_of(std::string_view text) {
  constexpr std::pair<std::string_view, StatisticsFault> kNames[] = {{"statistics=micro", StatisticsFault::micro},
                                                                     {"statistics=twice", StatisticsFault::twice},
                                                                     {"statistics=replay", StatisticsFault::replay},
                                                                     {"statistics=rows", StatisticsFault::rows}};
  for (const auto& [name, fault] : kNames) {
    if (text == name) return fault;
  }
  return StatisticsFault::none;
}

}  // namespace

double Faults::weight(std::int64_t update, std::int64_t micro) {
  if (overflow.times > 0 && overflow.update == update && overflow.micro == micro) {
    --overflow.times;
    return std::numeric_limits<double>::infinity();
  }
  // The last micro-batches of some ranks have absent rows alone.
  return micro < std::ssize(weights) ? weights[static_cast<std::size_t>(micro)] : 1;
}

Faults parse_faults(std::string_view text) {
  Faults faults;
  faults.weights = numbers_of(text, "weights=", ',');
  faults.keep_gradients = text == "keep_gradients";
  faults.statistics = statistics_of(text);
  const std::vector<double> overflow = numbers_of(text, "overflow=", ':');
  if (overflow.size() == 3) {
    const auto whole = [](double number) { return static_cast<std::int64_t>(number); };
    faults.overflow = {whole(overflow[0]), whole(overflow[1]), whole(overflow[2])};
  } else if (faults.weights.empty() && !faults.keep_gradients && faults.statistics == StatisticsFault::none && !text.empty()) {
    throw no_fault(text);
  }
  return faults;
}

}  // namespace plimsoll
