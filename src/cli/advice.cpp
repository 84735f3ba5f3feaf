#include "cli/advice.h"

#include "base/shell.h"

namespace plimsoll {
namespace {

// Where `name` stands alone in `text`; npos where it does not.
std::size_t find_word(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins = at > 0 && text[at - 1] == ' ';
    const bool ends = at + name.size() == text.size() || text[at + name.size()] == ' ' || text[at + name.size()] == '/';
    if (begins && ends) return at;
  }
  return std::string_view::npos;
}

void replace_word(std::string& text, std::string_view name, const std::string& by) {
  if (!text.starts_with("plimsoll ")) return;
  if (const std::size_t at = find_word(text, name); at != std::string::npos) text.replace(at, name.size(), by);
}

std::string option(const char* name, const std::string& value) { return std::string(" ") + name + " " + shell_quoted(value); }

std::string words(const ConfigArguments& config, bool with_budgets, bool with_device) {
  std::string text = shell_quoted(config.file);
  if (with_device && !config.device.empty()) text += option("--device", config.device);
  if (with_device && config.unverified) text += " --unverified";
  for (const std::string& set : config.sets) text += option("--set", set);
  if (!with_budgets) return text;
  if (config.budgets.memory) text += option("--memory", *config.budgets.memory);
  if (config.budgets.host_memory) text += option("--host-memory", *config.budgets.host_memory);
  if (config.budgets.disk) text += option("--disk", *config.budgets.disk);
  return text;
}

}  // namespace

std::string config_words(const ConfigArguments& config) { return words(config, true, true); }

void complete_advice(Error& error, const ConfigArguments& config) {
  if (config.file.empty()) return;
  for (std::string& remedy : error.remedies) {
    const bool resumes = find_word(remedy, "--resume") != std::string::npos;
    const bool machine = remedy.starts_with("plimsoll machine "), eval = remedy.starts_with("plimsoll eval ");
    replace_word(remedy, "CONFIG", resumes ? shell_quoted(config.file) : words(config, !machine, !eval));
  }
}

void drop_data_advice(Error& error) {
  std::erase_if(error.remedies, [](const std::string& remedy) { return remedy.starts_with("--set data."); });
}

void name_run(Error& error, std::string_view run) {
  for (std::string& remedy : error.remedies) replace_word(remedy, "DIR", shell_quoted(run));
}

}  // namespace plimsoll
