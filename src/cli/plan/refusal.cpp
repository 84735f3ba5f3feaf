#include "cli/plan/refusal.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/plan/plan_text.h"
#include "cli/say.h"
#include "cli/spelling.h"

namespace plimsoll {

int refuse(const Refused& refused, bool as_json) {
  nlohmann::json plan = nlohmann::json::parse(refused.plan_text);
  spell_changes(plan);
  say_text(alternatives_text(plan));
  if (as_json) print_json(plan);
  return static_cast<int>(ExitCode::does_not_fit);
}

}  // namespace plimsoll
