#include "verify/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace plimsoll::verification {

Verdict verdict_of(const Config& config) {
  Verdict verdict;
  verdict.context = config.model.context;
  verdict.compute = precision_name(config.precision.compute);
  verdict.parameters = precision_name(config.precision.parameters);
  verdict.gradients = precision_name(config.precision.gradients);
  verdict.optimizer_state = precision_name(config.precision.optimizer_state);
  return verdict;
}

bool Verdict::passed() const {
  const auto failed = [](const Check& check) { return check.outcome == Outcome::failed; };
  const auto ran = [](const Check& check) { return check.outcome == Outcome::passed && !check.command.empty(); };
  return std::none_of(checks.begin(), checks.end(), failed) && std::any_of(checks.begin(), checks.end(), ran);
}

std::string Verdict::norm() const { return stat_batch > 0 ? fmt::format("ghost BN({})", stat_batch) : ""; }

nlohmann::json Verdict::to_json() const {
  constexpr std::array kOutcomes{"passed", "failed", "skipped"};
  nlohmann::json rows = nlohmann::json::array();
  for (const Check& check : checks) {
    rows.push_back({{"subject", check.subject},
                    {"what", check.what},
                    {"found", check.found},
                    {"limit", check.limit},
                    {"outcome", kOutcomes[static_cast<std::size_t>(check.outcome)]},
                    {"command", check.command}});
  }
  nlohmann::json verdict{
      {"schema", "plimsoll.verify/1"},
      {"passed", passed()},
      {"samples", samples},
      {"context", context},
      {"precision",
       {{"compute", compute}, {"storage", parameters}, {"accumulation", gradients}, {"optimizer_state", optimizer_state}}},
      {"checks", rows}};
  if (ranks > 1) verdict["ranks"] = ranks;
  if (stat_batch > 0) {
    verdict["stat_batch"] = stat_batch;
    verdict["norm"] = norm();
  }
  return verdict;
}

}  // namespace plimsoll::verification
