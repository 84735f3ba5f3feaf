#include "report/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/shell.h"
#include "base/text.h"
#include "config/config_keys.h"
#include "config/run_settings.h"
#include "records/checkpoints.h"
#include "report/html.h"

namespace plimsoll {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Two texts of one value: 1e-08 and 0.00000001 are the same number.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const json left = json::parse(a, nullptr, /*allow_exceptions=*/false), right = json::parse(b, nullptr, false);
  return !left.is_discarded() && left == right;
}

// The default of a key as TOML text; nothing if it depends on others.
std::optional<std::string> default_of(const ConfigKey& key) {
  static const Config kDefaults;
  const std::string_view section = section_of(key.name);
  if (section == "model") return {};
  try {
    return key.text(kDefaults);
  } catch (const std::exception&) {
    return {};
  }
}

std::string shown(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.empty() ? "<span class=\"dim\">none</span>" : "<code>" + escaped(shortened(text, kMost)) + "</code>";
}

std::string against_parent(const ReportedRun& reported, const std::map<std::string, std::string>& parent) {
  std::set<std::string> keys;
  for (const auto& [key, value] : reported.settings) keys.insert(key);
  for (const auto& [key, value] : parent) keys.insert(key);
  Table table("", {"setting", "this run", "its parent"}, /*numbers=*/false);
  for (const std::string& key : keys) {
    const auto mine = reported.settings.find(key);
    const auto theirs = parent.find(key);
    const std::string here = mine != reported.settings.end() ? mine->second : "",
                      there = theirs != parent.end() ? theirs->second : "";
    if (!same_value(here, there)) table.row({"<code>" + escaped(key) + "</code>", shown(here), shown(there)});
  }
  return table.empty() ? "<p>The settings are those of the parent.</p>\n" : table.html();
}

// The names of the settings that were given; nothing if they cannot be read, or have names of other programs.
std::optional<std::set<std::string>> given_settings(const ReportedRun& reported) {
  try {
    const std::optional<RunSettings> stored = stored_settings(reported.run.path);
    if (!stored) return {};
    std::set<std::string> names;
    for (const auto* settings : {&stored->in_file, &stored->typed}) {
      for (const Setting& setting : *settings) {
        if (!reported.settings.contains(setting.name)) return {};
        names.insert(setting.name);
      }
    }
    return names;
  } catch (const std::exception&) {
    return {};
  }
}

// A default of nothing or 0 stands for one that follows from other settings.
std::string shown_default(const std::optional<std::string>& text) {
  return text && !text->empty() && !same_value(*text, "0") && *text != "\"\"" ? shown(*text) : "";
}

std::string against_defaults(const ReportedRun& reported) {
  const std::optional<std::set<std::string>> given = given_settings(reported);
  Table table("", {"setting", "this run", "default"}, /*numbers=*/false);
  for (const auto& [name, value] : reported.settings) {
    const auto known = std::ranges::find(config_keys(), std::string_view(name), &ConfigKey::name);
    const std::optional<std::string> usual = known != config_keys().end() ? default_of(*known) : std::nullopt;
    if ((usual && same_value(*usual, value)) || (given && !given->contains(name))) continue;
    table.row({"<code>" + escaped(name) + "</code>", shown(value), shown_default(usual)});
  }
  return table.empty() ? "<p class=\"dim\">config.resolved.toml cannot be read.</p>\n" : table.html();
}

std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

}  // namespace

std::string data_html(const ReportedRun& reported) {
  const RunData& data = reported.run.data;
  Table table("", {}, /*numbers=*/false);
  table.fact("training", data.files.empty() ? reported.setting("data.train") : joined(data.files));
  table.fact("hash", data.hash);
  table.fact("validation", data.validation_files.empty() ? reported.setting("data.validation") : joined(data.validation_files));
  table.fact("its hash", data.validation_hash);
  if (data.samples) table.fact("samples", grouped(*data.samples));
  if (data.tokens) table.fact("tokens", grouped(*data.tokens));
  if (data.trained) {
    table.fact("trained", fmt::format("{}{}", grouped(*data.trained),
                                      data.tokens && *data.tokens > 0
                                          ? fmt::format(" ({:.1f} %)", 100.0 * static_cast<double>(*data.trained) /
                                                                           static_cast<double>(*data.tokens))
                                          : ""));
  }
  if (data.fill) table.fact("fill of the rows", fmt::format("{:.1f} %", 100 * *data.fill));
  for (const auto& [name, count] : data.counts) {
    if (count != 0) table.fact(name, grouped(count));
  }
  table.fact("batch", fmt::format("{} = {} × {}", grouped(reported.run.effective_batch), grouped(reported.run.micro_batch),
                                  grouped(reported.run.accumulation)));
  return table.html();
}

std::string settings_html(const ReportedRun& reported) {
  const Run& run = reported.run;
  if (!run.parent) return "<p>Settings that differ from the defaults.</p>\n" + against_defaults(reported);
  const auto& [folder, update] = *run.parent;
  std::string out = fmt::format("<p>A fork of <code>{}</code> at update {}.</p>\n", escaped(folder), grouped(update));
  const std::map<std::string, std::string> parent = settings_of_run(folder);
  if (parent.empty())
    return out + "<p>The parent cannot be read; these settings differ from the defaults.</p>\n" + against_defaults(reported);
  return out + against_parent(reported, parent);
}

std::string checkpoints_html(const ReportedRun& reported) {
  constexpr std::size_t kMost = 40;
  std::vector<KeptCheckpoint> kept = checkpoints_in(reported.run.path);
  if (kept.empty()) return "<p class=\"dim\">There is no checkpoint.</p>\n";
  const std::size_t all = kept.size();
  if (all > kMost) kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(kMost));
  Table table(kept.size() < all ? fmt::format("the last {} of {}", kMost, all) : "", {"update", "bytes", "validation loss", ""});
  for (const KeptCheckpoint& each : kept) {
    std::error_code error;
    std::int64_t bytes = 0;
    for (const char* file : {"state.safetensors", "manifest.json"}) {
      const auto size = fs::file_size(each.path / file, error);
      if (!error) bytes += static_cast<std::int64_t>(size);
    }
    std::string loss = "", mark = "";
    for (const EvaluatedThen& then : reported.history.evaluations) {
      if (then.evaluation.update == each.update) loss = number_text(then.evaluation.loss);
    }
    if (reported.run.best && reported.run.best->update == each.update) mark = "best";
    table.row({grouped(each.update), to_text(Bytes{bytes}), loss, mark});
  }
  return table.html();
}

std::string machine_html(const ReportedRun& reported) {
  const Run& run = reported.run;
  const RunEnvironment& machine = run.environment;
  Table table("", {}, /*numbers=*/false);
  table.fact("processor", machine.processor);
  table.fact("device", reported.setting("machine.device"));
  table.fact("threads", machine.threads > 0 ? grouped(machine.threads) : "");
  table.fact("instruction set", machine.instruction_set);
  table.fact("system", machine.system);
  table.fact("program", fmt::format("{}{}{}", machine.version, machine.commit.empty() ? "" : ", commit ", machine.commit));
  table.fact("libraries", joined(machine.libraries));
  table.fact("id of the run", run.id);
  table.fact("configuration", run.config_hash);
  table.fact("plan", run.plan_hash);
  table.fact("weights at the end", run.parameters_hash);
  std::string out = table.html();
  Table segments("", {"begun", "ended", "updates", "on", "budget", "exit"});
  constexpr std::size_t kMost = 40;
  for (std::size_t i = run.segments.size() > kMost ? run.segments.size() - kMost : 0; i < run.segments.size(); ++i) {
    const RunSegment& each = run.segments[i];
    segments.row(
        {escaped(each.begun), each.ended.empty() ? "-" : escaped(each.ended),
         fmt::format("{} – {}", grouped(each.from_update), grouped(each.last_update)), escaped(each.host),
         bytes_text(each.budget),
         (each.exit_code ? std::to_string(*each.exit_code) : "-") + (each.code.empty() ? "" : " " + escaped(each.code))});
  }
  if (!segments.empty()) out += "<h3>Starts and resumes</h3>\n" + segments.html();
  return out;
}

std::string repeating_command(const ReportedRun& reported) {
  const Run& run = reported.run;
  std::error_code ignored;
  fs::path folder = fs::absolute(run.path, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  Changes changes;
  if (run.parent) changes.emplace_back("command.from", fmt::format("{}/{}", run.parent->first, run.parent->second));
  if (run.micro_batch > 0) changes.emplace_back("train.micro_batch", run.micro_batch);
  if (run.accumulation > 0) changes.emplace_back("train.accumulation", run.accumulation);
  const std::optional<double> planned = reported.number("train.updates");
  if (run.status == "done" && run.stopped.empty() && planned && static_cast<double>(run.updates) != *planned) {
    changes.emplace_back("command.updates", run.updates);
  }
  changes.emplace_back("command.run", folder.string() + "-again");
  return reported.spell(
      Remedy::of_command("train " + shell_quoted((folder / "config.resolved.toml").string()), std::move(changes)));
}

std::string command_html(const ReportedRun& reported) {
  std::string out = fmt::format("<pre><code>{}</code></pre>\n", escaped(repeating_command(reported)));
  const auto& segments = reported.run.segments;
  const auto changed = [&](auto&& member) {
    return std::ranges::adjacent_find(
               segments, [&](const RunSegment& a, const RunSegment& b) { return member(a) != member(b); }) != segments.end();
  };
  if (changed([](const RunSegment& each) { return each.config_hash; })) {
    out += "<p class=\"note\">A resume changed the settings: the command repeats the last ones, from the beginning.</p>\n";
  }
  if (changed([](const RunSegment& each) { return each.instruction_set; })) {
    out += "<p class=\"note\">The parts of the run had different instruction sets: sums may be rounded in another order.</p>\n";
  }
  return out + fmt::format(
                   "<p class=\"note\">With the same data, threads and instruction set ({}) the losses have the same bits.</p>\n",
                   escaped(reported.run.environment.instruction_set));
}

}  // namespace plimsoll
