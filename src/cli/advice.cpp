#include "cli/advice.h"

#include <algorithm>
#include <string>

#include "base/shell.h"
#include "cli/spelling.h"

namespace plimsoll {
namespace {

bool has(const Remedy& remedy, std::string_view key) {
  return std::ranges::find(remedy.changes, key, &Change::key) != remedy.changes.end();
}

bool of_device(const Change& change) { return change.key == "machine.device" || change.key == "machine.unverified"; }
bool of_budget(const Change& change) { return change.key.starts_with("memory."); }

// The device comes first, the budgets last.
std::string words(const ConfigArguments& config, bool with_budgets, bool with_device) {
  Changes changes = config.changes;
  if (!with_budgets) std::erase_if(changes, of_budget);
  if (!with_device) std::erase_if(changes, of_device);
  std::ranges::stable_sort(changes, {}, [](const Change& change) { return of_device(change) ? 0 : of_budget(change) ? 2 : 1; });
  return shell_quoted(config.file) + words_of(changes);
}

}  // namespace

void complete_advice(Error& error, const ConfigArguments& config) {
  if (config.file.empty()) return;
  for (Remedy& remedy : error.remedies) {
    constexpr std::string_view kPlace = " CONFIG";
    const std::string& command = remedy.command;
    if (!command.ends_with(kPlace)) continue;
    const bool machine = command.starts_with("machine "), eval = command.starts_with("eval ");
    remedy.command.replace(command.size() - kPlace.size() + 1, kPlace.size() - 1,
                           has(remedy, "command.resume") ? shell_quoted(config.file) : words(config, !machine, !eval));
  }
}

void drop_data_advice(Error& error) {
  std::erase_if(error.remedies, [](const Remedy& remedy) {
    return remedy.command.empty() && !remedy.changes.empty() && remedy.changes.front().key.starts_with("data.");
  });
}

void name_run(Error& error, std::string_view run) {
  for (Remedy& remedy : error.remedies) {
    for (Change& change : remedy.changes) {
      if (change == Change("command.run", "DIR")) change.value = run;
    }
  }
}

}  // namespace plimsoll
