#include "cli/plan/run_length_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/bytes.h"
#include "base/text.h"
#include "cli/progress.h"

namespace plimsoll {

using nlohmann::json;

std::string long_samples_text(const json& epoch) {
  if (!epoch.contains("data")) return "";
  std::string text;
  const auto add = [&](const char* key, std::string_view what) {
    const auto count = epoch.at("data").at(key).get<std::int64_t>();
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(count), what);
  };
  add("cut", "cut to the context");
  add("split", "split");
  add("dropped", "dropped as too long");
  add("untrained", "left out: no token is trained on");
  add("unended", "train no token that ends an answer");
  add("own_begins", "begin with a begin token of their own: none is added");
  add("own_ends", "end with an end token of their own: none is added");
  add("doubled", "have a begin or end token twice, one right after the other");
  return text.empty() ? "" : "samples: " + text + "\n";
}

namespace {

// "pixels: mean 0.485, 0.456, 0.406; deviation 0.229, 0.224, 0.225"
std::string pixels_text(const json& image) {
  const auto list = [](const json& values) {
    std::string text;
    for (const json& each : values) text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", each.get<double>());
    return text;
  };
  return fmt::format("pixels: mean {}; deviation {}\n", list(image.at("mean")), list(image.at("std")));
}

// "3.2 days" from two days on, else hours and minutes.
std::string long_duration(double seconds) {
  constexpr double kDay = 24 * 3600;
  return seconds < 2 * kDay ? duration_text(seconds) : fmt::format("{:.1f} days", seconds / kDay);
}

// ", 12,345 tokens (4,321 trained on)"; one number if both are equal. Nothing for data whose samples have no tokens.
std::string tokens_text(const json& plan, const json& tokens, const json& trained) {
  if (plan.contains("words")) return "";
  const std::string all = fmt::format(", {} tokens", grouped(tokens.get<std::int64_t>()));
  if (trained.is_null() || trained == tokens) return all;
  return fmt::format("{} ({} trained on)", all, grouped(trained.get<std::int64_t>()));
}

// "about 3m05s in all, with 12 s to evaluate and 4 s to save".
std::string whole_text(const json& run, bool bound) {
  std::string text =
      fmt::format("{} {} in all", bound ? "at least" : "about", long_duration(run.at("total_seconds").get<double>()));
  std::string parts;
  const auto add = [&](const char* key, const char* does) {
    const json seconds = run.value(key, json());
    if (seconds.is_null() || seconds.get<double>() < 0.01 * run.at("total_seconds").get<double>()) return;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", long_duration(seconds.get<double>()), does);
  };
  add("evaluation_seconds", "to evaluate");
  add("save_seconds", "to save");
  add("noise_seconds", "to measure noise");
  if (const std::size_t last = parts.rfind(", "); last != std::string::npos) parts.replace(last, 2, " and ");
  return parts.empty() ? text : fmt::format("{}, with {}", text, parts);
}

// The measurement of the gradient noise; empty if none is configured.
std::string noise_line(const json& plan) {
  if (!plan.contains("noise")) return "";
  const json& noise = plan.at("noise");
  if (noise.at("why_not") == "shared gradients") {
    return "note: the gradient noise is not measured: ranks share the gradients; parallel.zero = 1 leaves each rank its own\n";
  }
  if (!noise.at("measured").get<bool>()) {
    return "note: the gradient noise is not measured: a window has one round; a smaller train.micro_batch or plan.group has "
           "more\n";
  }
  const json& bytes = noise.at("read_bytes");
  const auto every = noise.at("every").get<std::int64_t>();
  return fmt::format("gradient noise: {}{} in every {}\n", duration_text(noise.at("seconds").get<double>()),
                     bytes == 0 ? "" : fmt::format(" and {} read from the disk", to_text(Bytes{bytes.get<std::int64_t>()})),
                     every == 1 ? "update" : fmt::format("{} updates", every));
}

// The size, the number of updates and the time of the whole training.
std::string run_text(const json& plan) {
  constexpr double kLong = 2 * 24 * 3600;
  if (!plan.contains("run")) return "";
  const json& run = plan.at("run");
  const auto number = [&](const char* key) { return run.at(key).get<std::int64_t>(); };
  const double seconds = run.at("total_seconds").get<double>();
  const bool bound = plan.at("predicted").at("cost_source").at("bound").get<int>() > 0;
  std::string text = fmt::format(
      "{} parameters; {} updates, {} {}s{}{}\n{}\n", grouped(number("parameters")), grouped(number("updates")),
      grouped(number("samples")), plan.contains("words") ? plan.at("words").at("sample").get<std::string>() : "sample",
      run.at("epochs").is_null() ? "" : fmt::format(" ({:.3g} epochs)", run.at("epochs").get<double>()),
      tokens_text(plan, run.at("tokens"), run.at("trained_units")), whole_text(run, bound));
  if (plan.contains("image")) text += pixels_text(plan.at("image"));
  if (plan.contains("epoch")) {
    const json& epoch = plan.at("epoch");
    const auto of = [&](const char* key) { return grouped(epoch.at(key).get<std::int64_t>()); };
    text += fmt::format("an epoch: {} samples{}, {} updates; rows are {:.0f} % full\n", of("samples"),
                        tokens_text(plan, epoch.at("tokens"), epoch.at("trained_units")), of("updates"),
                        100 * epoch.at("fill").get<double>());
    text += long_samples_text(epoch);
  }
  if (seconds >= kLong) text += fmt::format("note: this takes {}; train.updates sets how long\n", long_duration(seconds));
  return text;
}

}  // namespace

std::string run_length_text(const json& plan) { return run_text(plan) + noise_line(plan); }

}  // namespace plimsoll
