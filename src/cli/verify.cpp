#include "verify/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/ranks.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/shown_text.h"
#include "config/config_keys.h"
#include "config/image_rules.h"
#include "formats/temporary_folder.h"
#include "prepare/data_files.h"
#include "settings/faults.h"
#include "verify/verify_ranks.h"

namespace plimsoll {
namespace {

// Reports settings without effect: the trainings of verify choose these keys by themselves.
void tell_unused(const ConfigArguments& config) {
  constexpr std::string_view kOwn[] = {
      "data.validation",        "train.updates", "train.micro_batch", "train.accumulation", "train.evaluate_every",
      "train.evaluate_samples", "save.every",    "plan.group",        "image.pad_crop",     "image.flip"};
  std::vector<std::string> heard;  // notes from the reading of the configuration
  ConfigFaults faults;
  for (const KeySetting& one : find_keys(typed_settings_of(config.changes), heard, faults)) {
    if (std::find(std::begin(kOwn), std::end(kOwn), one.key->name) == std::end(kOwn)) continue;
    say_line(fmt::format("note: {} is not used: verify trains for a few updates, in splits of its own", one.setting.name));
  }
}

using verification::Check;
using verification::Outcome;

// A subfolder of the given folder. Old runs of verify in it are removed.
std::filesystem::path kept_folder(const std::string& given) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(given, error) / "plimsoll-verify";
  if (!error) std::filesystem::create_directories(folder, error);
  if (error) throw data_error("E-IO-WRITE", given, "it cannot be written: " + error.message(), "a folder for the runs");
  return folder;
}

// Prints the table of results line by line; the current work is shown on a terminal alone.
class Table {
 public:
  explicit Table(bool json) : json_(json), live_(!json && live_terminal()) {}

  void tell(const std::string& run) const {
    if (live_) say_marked(fmt::format("\r\033[K  ... {}", shown_text(run, ShownAs::line)));
  }

  void hear(const Check& check) {
    if (live_) say_marked("\r\033[K");
    std::string text;
    if (check.subject != subject_) text += title(subject_ = check.subject) + "\n";
    text += fmt::format("  {:<8} {:<48} {}", verdict(check), check.what, check.found);
    if (!check.limit.empty()) text += fmt::format("  (limit {})", check.limit);
    text += "\n";
    if (check.outcome == Outcome::failed && !check.command.empty()) text += fmt::format("           {}\n", check.command);
    if (json_) return say_text(text);
    print_text(text);
    std::fflush(stdout);
  }

  void end() const {
    if (live_) say_marked("\r\033[K");
  }

 private:
  static const char* verdict(const Check& check) {
    if (check.outcome == Outcome::skipped) return "skipped";
    if (check.subject == "control") return check.outcome == Outcome::passed ? "noticed" : "MISSED";
    return check.outcome == Outcome::passed ? "ok" : "FAILED";
  }

  static std::string title(const std::string& subject) {
    if (subject == "gradient") return "gradient: the loss moves as it says (central differences in fp32; relative error)";
    if (subject == "batch") return "batch: every split gives the same gradient, loss and schedule (relative difference)";
    if (subject == "bits") return "bits: every plan gives the same weights, state and losses";
    if (subject == "precision") return "precision: compared with fp32 (relative difference)";
    if (subject == "ranks") return "ranks: several processes train as one does (relative difference; fp32)";
    if (subject == "rounding") return "rounding: noise that adds nothing over time";
    return "controls: wrong on purpose, and noticed by the checks above";
  }

  bool json_, live_;
  std::string subject_;
};

// ", ghost BN(4) (32 in the configuration)"; "" without batch normalisation.
std::string norm_text(const verification::Verdict& verdict, std::int64_t configured) {
  if (verdict.stat_batch == 0) return "";
  const std::string other = verdict.stat_batch == configured ? "" : fmt::format(" ({} in the configuration)", configured);
  return fmt::format(", {}{}", verdict.norm(), other);
}

}  // namespace

int run_verify(const VerifyArguments& arguments) {
  const Config config = load_settings(arguments.config);
  const bool ranks = arguments.ranks > 1;
  if (config.adapter.active() && !ranks) {
    throw config_error("E-CONFIG-CONFLICT", "adapter.kind",
                       "verify moves all weights of a model, and an adapter is saved without them",
                       "a configuration without an adapter",
                       config.adapter.init.empty() ? Remedies{Change("adapter.kind", "none")} : Remedies{});
  }
  if (ranks) require_processors(config);
  tell_unused(arguments.config);
  const std::unique_ptr<DataSet> data = open_training_in_child(config, cache_folder());
  if (data->own_lengths() || config.train.effective_tokens > 0) {
    throw config_error("E-CONFIG-CONFLICT", data->own_lengths() ? "data.format" : "train.effective_tokens",
                       "verify cuts its windows from samples of one length, a number of samples each",
                       "text, tokens or images, and train.effective_batch");
  }
  std::optional<TemporaryFolder> temporary;
  if (arguments.folder.empty()) temporary.emplace(std::filesystem::temp_directory_path());
  const std::filesystem::path folder = temporary ? temporary->path() : kept_folder(arguments.folder);
  Table table(arguments.json);
  const auto tell = [&](const std::string& run) { table.tell(run); };
  const auto hear = [&](const Check& check) { table.hear(check); };
  const verification::Verdict verdict = ranks ? verification::verify_ranks(config, *data, arguments.ranks, folder, tell, hear)
                                              : verification::verify_training(config, *data, folder, tell, hear);
  table.end();
  const std::string size = fmt::format(
      "{}windows of {}{}, compute {}, weights {}, gradients {}, optimizer state {}",
      ranks ? fmt::format("{} ranks, ", arguments.ranks) : "", samples_text(data->kind(), verdict.samples, verdict.context),
      norm_text(verdict, stat_batch(config)), verdict.compute, verdict.parameters, verdict.gradients, verdict.optimizer_state);
  if (arguments.json) {
    print_json(verdict.to_json());
  } else {
    print_text(fmt::format("{}: {}\n", verdict.passed() ? "verified" : "NOT verified", size));
    if (!verdict.passed() && temporary)
      print_text("with --folder DIR the data of the commands above stays, so that they run again\n");
  }
  return static_cast<int>(verdict.passed() ? ExitCode::ok : ExitCode::verify_failed);
}

}  // namespace plimsoll
