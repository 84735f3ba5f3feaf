#include "cli/plan/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/shell.h"
#include "base/text.h"
#include "cli/plan/phase_table.h"
#include "cli/plan/run_length_text.h"
#include "cli/progress.h"
#include "measure/sharing.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::string size(const json& bytes) { return bytes.is_null() ? "-" : to_text(Bytes{bytes.get<std::int64_t>()}); }

std::string blocks_text(const json& decisions) {
  std::map<std::string, int> count;
  int pieces = 0, joined = 0;
  for (const json& block : decisions.at("recompute")) {
    ++count[block.at("mode").get<std::string>()];
    pieces += block.value("pieces", false);
    joined += block.value("joined", false);
  }
  std::string text;
  for (const char* mode : {"keep", "cheap", "recompute"}) {
    if (count[mode] > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count[mode], mode);
  }
  if (pieces > 0) text += pieces == count["recompute"] ? " in pieces" : fmt::format(", {} of them in pieces", pieces);
  if (joined > 0) text += fmt::format(", {} with the block before", joined);
  if (text.empty()) text = "none repeated";
  if (const std::size_t again = decisions.at("replays").size(); again > 0) text += fmt::format(", {} nodes recomputed", again);
  return text;
}

// The meaning of `cheap` in this plan: the recomputed values, for each kind of such a block. Empty if there are many kinds, which
// --values shows.
std::string cheap_text(const json& decisions) {
  constexpr std::size_t kMostKinds = 3;
  std::vector<std::pair<std::string, int>> kinds;
  for (const json& block : decisions.at("recompute")) {
    if (!block.contains("values")) continue;
    const std::string values = fmt::format("{}", fmt::join(block.at("values").get<std::vector<std::string>>(), ", "));
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == values; });
    if (known == kinds.end()) {
      kinds.emplace_back(values, 1);
    } else {
      ++known->second;
    }
  }
  if (kinds.size() > kMostKinds) return "";
  std::string text;
  for (const auto& [values, blocks] : kinds)
    text += fmt::format("cheap, {} block{}, recomputed: {}\n", blocks, blocks == 1 ? "" : "s", values);
  return text;
}

std::string chunks_text(const json& plan) {
  const int chunks = plan.at("decisions").at("loss_chunks").get<int>();
  return chunks == 1 ? "one piece" : fmt::format("{} chunks", chunks);
}

// The samples that share statistics; 0: none do.
std::int64_t stat_batch(const json& batch) {
  const json group = batch.value("stat_batch", json());
  return group.is_null() ? 0 : group.get<std::int64_t>();
}

std::string batch_text(const json& plan) {
  const json& batch = plan.at("batch");
  const auto accumulation = batch.at("accumulation").get<std::int64_t>();
  const auto group = plan.at("decisions").at("group").get<std::int64_t>();
  const std::string together = group == 1              ? ""
                               : group == accumulation ? ", all through each block together"
                                                       : fmt::format(", {} through each block together", group);
  const auto effective = batch.at("effective").get<std::int64_t>(), micro = batch.at("micro").get<std::int64_t>();
  if (!batch.contains("rows")) {
    const std::string norm = stat_batch(batch) > 0 ? fmt::format("; ghost BN({})", stat_batch(batch)) : "";
    const std::size_t ranks = plan.contains("ranks") ? plan.at("ranks").size() : 1;
    const std::string shared = ranks > 1 ? fmt::format(", {} on each of {} ranks", accumulation, ranks) : "";
    return fmt::format("{} = {} x {}{}{}{}", effective, micro, ranks > 1 ? effective / micro : accumulation, shared, together,
                       norm);
  }
  return fmt::format("{} sample{} in about {} row{}, {} at a time", effective, effective == 1 ? "" : "s",
                     batch.at("rows").get<std::int64_t>(), batch.at("rows") == 1 ? "" : "s", micro);
}

// The arguments as words of the shell.
std::string arguments_text(const json& arguments) {
  std::string text;
  for (const json& argument : arguments) text += (text.empty() ? "" : " ") + shell_quoted(argument.get<std::string>());
  return text;
}

// The same in lines of up to 96 columns, indented.
std::string arguments_lines(const json& arguments) {
  constexpr std::size_t kColumns = 96;
  std::string text, line;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string pair = arguments_text({arguments[i], arguments[i + 1]});
    if (!line.empty() && line.size() + 1 + pair.size() > kColumns) {
      text += "    " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + pair;
  }
  return line.empty() ? text : text + "    " + line + "\n";
}

// "+1.20 GiB", "-36.0 MiB", "0 B".
std::string change_of(std::int64_t bytes) { return (bytes > 0 ? "+" : "") + to_text(Bytes{bytes}); }

// True if the planner chose the split of the batch.
bool chose_batch(const json& plan) { return plan.value("run", json::object()).value("micro_batch_chosen", false); }

// The effect of each lever on this plan. The fixed micro-batch is mentioned once.
std::string levers_table(const json& plan) {
  const json& levers = plan.at("levers");
  const json& predicted = plan.at("predicted");
  const double own = predicted.at("update_seconds").get<double>();
  const auto bytes = predicted.at("process_bytes").get<std::int64_t>();
  std::vector<std::string> pins{fmt::format("train.micro_batch={}", plan.at("batch").at("micro").get<std::int64_t>())};
  if (stat_batch(plan.at("batch")) > 0) pins.push_back(fmt::format("norm.stat_batch={}", stat_batch(plan.at("batch"))));
  bool pinned = false;
  std::string rows;
  for (const json& lever : levers) {
    json arguments = lever.at("arguments");
    const auto begins = [&] {
      if (arguments.size() <= 2 * pins.size()) return false;
      for (std::size_t i = 0; i < pins.size(); ++i) {
        if (arguments[2 * i + 1] != pins[i]) return false;
      }
      return true;
    };
    if (chose_batch(plan) && begins()) {
      arguments.erase(arguments.begin(), arguments.begin() + 2 * std::ssize(pins));
      pinned = true;
    }
    const double seconds = lever.at("update_seconds").get<double>();
    rows += fmt::format("  {:<41}{:>13}{:>11}{:>10}\n", lever.at("name").get<std::string>(),
                        change_of(lever.at("process_bytes").get<std::int64_t>() - bytes), duration_text(seconds),
                        own > 0 ? fmt::format("{:+.1f} %", 100 * (seconds / own - 1)) : "");
    std::string lines = arguments_lines(arguments);
    lines.pop_back();
    rows += lines + (lever.at("changes_result").get<bool>() ? "  (changes the result)" : "") +
            (lever.value("within_budget", true) ? "" : "  (above the budget)") + "\n";
  }
  return fmt::format("{:<43}{:>13}{:>11}{:>10}\n", "levers, each against this plan", "process", "update", "time") +
         (pinned ? fmt::format("  (rows that keep this micro-batch need --set {} as well)\n", fmt::join(pins, " --set ")) : "") +
         rows;
}

std::string remedies_text(const json& remedies) {
  std::string text = "changes that make it fit, each of them planned; those that keep the result come first:\n";
  int number = 0;
  for (const json& remedy : remedies) {
    text += fmt::format("  {}. {}\n     {}\n     process {}, {} per update{}\n", ++number, remedy.at("text").get<std::string>(),
                        arguments_text(remedy.at("arguments")), size(remedy.at("process_bytes")),
                        duration_text(remedy.at("update_seconds").get<double>()),
                        remedy.at("changes_result").get<bool>() ? "; changes the result" : "");
    if (remedy.contains("assumed_disk_bytes_per_second")) {
      text += fmt::format("     (this disk is not measured yet: {:.0f} MB/s each way are assumed)\n",
                          remedy.at("assumed_disk_bytes_per_second").get<double>() / 1e6);
    }
  }
  return text;
}

std::string resting_text(const json& decisions) {
  std::string text;
  const json& residency = decisions.at("paging");
  const json& all = residency.at("what");
  const auto has = [&](const char* what) { return std::find(all.begin(), all.end(), what) != all.end(); };
  const int resident = residency.at("resident_blocks").get<int>();
  const std::string last = has("gradients") ? "gradients" : has("parameters") ? "parameters" : "optimizer state";
  for (const json& what : all) {
    text += (text.empty() ? "" : ", ") + what.get<std::string>();
    if (resident > 0 && what == last) text += fmt::format(" (not of {} blocks)", resident);
  }
  return text;
}

std::string reserve_rows(const json& items) {
  std::string text;
  for (const json& item : items) {
    if (item.at("bytes") == 0) continue;
    text += fmt::format("  {:<34}{:>12}  {}\n", item.at("name").get<std::string>(), size(item.at("bytes")),
                        item.at("source").get<std::string>());
  }
  return text;
}

// The transfers during the kernels of an update, and the time that kernels wait for them.
std::string lanes_text(const json& predicted) {
  const json& lanes = predicted.at("lanes");
  const auto lane = [&](const char* name) { return duration_text(lanes.at(name).get<double>()); };
  std::string text = fmt::format("{:<36}{:>12}  transfers in {}, out {}", "lanes of an update: kernels", lane("compute"),
                                 lane("in"), lane("out"));
  if (lanes.contains("far_in")) text += fmt::format("; disk in {}, out {}", lane("far_in"), lane("far_out"));
  return text + fmt::format("; kernels wait {}\n", duration_text(predicted.at("stall_seconds").get<double>()));
}

std::string process_table(const json& predicted, const json& decisions) {
  const json& tiers = predicted.at("tiers");
  const bool host = predicted.at("host_bytes").is_number();
  std::string text = fmt::format("{:<36}{:>12}\n", host ? tiers.front().at("name").get<std::string>() : "process",
                                 size(predicted.at("process_bytes")));
  text += fmt::format("  {:<34}{:>12}\n", "arena", size(predicted.at("arena_bytes"))) + reserve_rows(predicted.at("reserve"));
  if (host)
    text += fmt::format("{:<36}{:>12}\n", "host", size(predicted.at("host_bytes"))) + reserve_rows(predicted.at("host_reserve"));
  bool rests = false;
  for (const json& tier : tiers) {
    if (&tier == &tiers.front()) continue;
    const std::string name = tier.at("name").get<std::string>();
    const bool in_process = !tier.contains("transfers");  // a disk has a transfer engine
    text += fmt::format("{}{:<{}}{:>12}  {}{}\n", in_process ? "  " : "", in_process ? "arena" : name, in_process ? 34 : 36,
                        size(tier.at("arena_bytes")), rests ? "the rest" : resting_text(decisions),
                        tier.contains("transfers") ? ", by " + tier.at("transfers").get<std::string>() : "");
    rests = true;
  }
  return rests ? text + lanes_text(predicted) : text;
}

// The wear of a disk; empty where there is none.
std::string run_folder_text(const json& plan) {
  if (!plan.contains("run_folder")) return "";
  const json& folder = plan.at("run_folder");
  const bool pages = folder.at("pages_bytes") > 0;
  return fmt::format("disk: up to {} for the run, with {} checkpoints of {}{}\n", size(folder.at("peak_bytes")),
                     folder.at("checkpoints").get<std::int64_t>(), size(folder.at("checkpoint_bytes")),
                     pages ? " and the pages" : "");
}

std::string written_text(const json& plan) {
  if (!plan.contains("written") || plan.at("written").at("run_bytes") == 0) return "";
  const json& written = plan.at("written");
  return fmt::format("written to disk: {} while loading, {} each update, {} over the run\n", size(written.at("load_bytes")),
                     size(written.at("update_bytes")), size(written.at("run_bytes")));
}

// "4.2 % above it": the distance of a plan from the bound.
std::string gap_text(double figure, double bound) {
  return bound > 0 ? fmt::format("{:.1f} % above it", 100 * std::max(0.0, figure / bound - 1)) : "-";
}

// The parts of the time bound.
std::string time_bound_text(const json& lanes) {
  const double again = lanes.value("again", 0.0), waits = lanes.value("waits", 0.0),
               transfers = lanes.at("transfers").get<double>();
  std::string text = "each kernel once";
  if (again > 0) text += fmt::format(" and {} recomputed", duration_text(again));
  if (waits > 0) text += fmt::format(", and {} of transfers that cannot overlap", duration_text(waits));
  if (transfers > 0) text += fmt::format("; all transfers {}", duration_text(transfers));
  return text;
}

std::string bounds_table(const json& bounds, const json& predicted) {
  const auto number = [&](const char* key) { return bounds.at(key).get<double>(); };
  const auto line = [&](const char* title, const char* key, const std::string& meaning) {
    return fmt::format("{:<36}{:>12}  {}\n", title, size(bounds.at(key)), meaning);
  };
  const double seconds = number("update_seconds");
  return line("bound", "floor_bound_bytes", "no plan can be smaller") +
         line("floor", "floor_bytes",
              "the smallest plan found, " + gap_text(number("floor_bytes"), number("floor_bound_bytes"))) +
         line("knee", "knee_bytes", "from here on more memory gains little") +
         line("ceiling", "ceiling_bytes", "more is of no use") +
         line("load", "load_bytes",
              "live at once; the arena is " + gap_text(predicted.at("arena_bytes").get<double>(), number("load_bytes"))) +
         fmt::format("{:<36}{:>12}  {}; plan {}\n", "time bound", duration_text(seconds), time_bound_text(bounds.at("lanes")),
                     gap_text(predicted.at("update_seconds").get<double>(), seconds));
}

// "fp32", "fp32 (optimizer state bf16)".
std::string precision_text(const json& precision) {
  const std::string compute = precision.at("compute"), state = precision.value("optimizer_state", compute);
  return state == compute ? compute : fmt::format("{} (optimizer state {})", compute, state);
}

// The number of micro-batches changes the rounding of sums, so the planner's choice is part of the result.
std::string pin_text(const json& plan) {
  if (!chose_batch(plan)) return "";
  const auto micro = plan.at("batch").at("micro").get<std::int64_t>();
  const std::int64_t samples = stat_batch(plan.at("batch"));
  const std::string group = samples > 0 ? fmt::format(" with `norm.stat_batch = {}`", samples) : "";
  return fmt::format("micro-batch {} chosen; `train.micro_batch = {}`{} pins these bits\n", micro, micro, group);
}

// "340 trained tok/s, 1.1k of all tokens". A plan without data knows only the positions of its rows.
std::string speed_text(const json& plan) {
  const json& predicted = plan.at("predicted");
  if (plan.contains("words")) {
    return fmt::format("{} {}", rate_text(predicted.at("tokens_per_second").get<double>()),
                       plan.at("words").at("rate").get<std::string>());
  }
  if (!plan.contains("run") || plan.at("run").at("trained_units").is_null()) {
    return fmt::format("{} tok/s of all tokens", rate_text(predicted.at("tokens_per_second").get<double>()));
  }
  const json& run = plan.at("run");
  const double seconds = run.at("seconds").get<double>();
  const auto rate = [&](const char* key) { return seconds > 0 ? run.at(key).get<double>() / seconds : 0; };
  return trained_rate_text(rate("trained_units"), rate("tokens"));
}

// The time of an update, and its source.
std::string time_text(const json& plan) {
  const json& predicted = plan.at("predicted");
  const std::string seconds = duration_text(predicted.at("update_seconds").get<double>()), rate = speed_text(plan);
  const json& source = predicted.at("cost_source");
  const int bound = source.at("bound"), all = bound + source.at("measured").get<int>() + source.at("recorded").get<int>();
  if (bound == 0) return fmt::format("update {}, {} (from measured kernels)\n", seconds, rate);
  return fmt::format("update at least {}, at most {} ({} of {} kernels not measured)\n", seconds, rate, bound, all);
}

// The conditions under which the times were measured; empty for a described machine.
std::string measured_text(const json& plan) {
  if (!plan.contains("machine")) return "";
  const json& machine = plan.at("machine");
  const std::string measured = machine.at("measured");
  if (measured == "described") return "";
  if (measured == "alone") return "the machine was idle when it was measured\n";
  if (measured == "unknown") return "nobody knows whether the machine was idle when it was measured\n";
  const auto share = [&](const char* key) { return machine.at(key).is_null() ? 0.0 : machine.at(key).get<double>(); };
  const Sharing sharing{share("others"), share("stolen"), share("waited")};
  const std::string what = sharing.shared() ? sharing_text(sharing) : "other work ran";
  return fmt::format(
      "note: this machine was not idle when it was measured, and times may be too long:\n"
      "      {}.\n"
      "      `plimsoll train` and `plimsoll machine` measure again once nothing else runs\n",
      what);
}

// A note if planning itself had little memory; else empty.
std::string floors_text(const json& plan) {
  if (!plan.value("floors_alone", false)) return "";
  return "note: this budget has room to plan the smallest plans alone; a faster one may fit it, too\n";
}

// "1,837" for a number; bytes also as a size for people.
std::string value_text(const json& solve, const json& value) {
  const auto number = value.get<std::int64_t>();
  return solve.at("unit") == "bytes" ? fmt::format("{} B ({})", grouped(number), to_text(Bytes{number})) : grouped(number);
}

std::string next_text(const json& solve) {
  const json& next = solve.at("next");
  if (next.is_null()) return "";
  const std::string code = next.at("code").get<std::string>();
  std::string why;
  if (next.at("status") == "refused") {
    why = fmt::format("is refused: {} {}", code, next.at("message").get<std::string>());
  } else if (next.at("short_bytes").is_null()) {
    why = fmt::format("does not fit: {}", code);
  } else {
    why = fmt::format("does not fit: needs {}, short by {} B", size(next.at("process_bytes")),
                      grouped(next.at("short_bytes").get<std::int64_t>()));
  }
  return fmt::format("  the next step, {}, {}\n", value_text(solve, next.at("value")), why);
}

// The result of --solve.
std::string solve_text(const json& plan) {
  if (!plan.contains("solve")) return "";
  const json& solve = plan.at("solve");
  const std::string key = solve.at("key").get<std::string>(), budget = size(plan.at("budget").at("memory"));
  const int plans = solve.at("plans").get<int>();
  const bool least = solve.at("least").get<bool>(), bytes = solve.at("unit") == "bytes";
  if (solve.at("value").is_null()) {
    return fmt::format("solve {}: no value fits into {}; this is the plan of the {} ({} plans)\n\n", key, budget,
                       least ? "largest" : "smallest", plans);
  }
  const std::string what = key == "memory"   ? "is the least that it fits into"
                           : least && !bytes ? fmt::format("is the least number, each with {}", budget)
                           : least           ? fmt::format("is the least with which it fits into {}", budget)
                                             : fmt::format("is the largest that fits into {}", budget);
  std::string notes;
  for (const json& note : solve.at("notes")) notes += fmt::format("  note: {}\n", note.get<std::string>());
  return fmt::format("solve {}: {} {}\n{}{}  steps of {}, {} plans\n{}\n", key, value_text(solve, solve.at("value")), what,
                     arguments_lines(solve.at("arguments")), next_text(solve), grouped(solve.at("step").get<std::int64_t>()),
                     plans, notes);
}

// "rank 0          104.3 MiB   state 3.2 MiB, sends 12.1 MiB an update"
std::string ranks_text(const json& plan) {
  if (!plan.contains("ranks")) return "";
  std::string text =
      fmt::format("{} ranks, each with its own memory (ZeRO, stage {}):\n", plan.at("ranks").size(), plan.at("zero").get<int>());
  for (const json& rank : plan.at("ranks")) {
    const json& sent = rank.at("sent");
    std::int64_t all = 0;
    for (const auto& [what, bytes] : sent.items()) all += bytes.get<std::int64_t>();
    text += fmt::format("  {:<34}{:>12}  state {}, sends {} an update\n", fmt::format("rank {}", rank.at("rank").get<int>()),
                        size(rank.at("process_bytes")), size(rank.at("shard").at("state")), to_text(Bytes{all}));
  }
  const json& predicted = plan.at("predicted");
  return text + fmt::format("  exchanges of an update: {:.3g} s by a link of {:.3g} MB/s ({})\n",
                            predicted.at("lanes").at("ranks").get<double>(),
                            predicted.at("link").at("bytes_per_second").get<double>() / 1e6,
                            predicted.at("link").at("source").get<std::string>());
}

std::string fitting(const json& plan) {
  const json& predicted = plan.at("predicted");
  std::string text = fmt::format("fits: {} of {}   (plan {})\n", size(predicted.at("process_bytes")),
                                 size(plan.at("budget").at("memory")), plan.at("plan_hash").get<std::string>().substr(0, 12));
  text += run_length_text(plan);
  text += fmt::format("batch {}; blocks: {}; loss in {}; {}, {} threads\n", batch_text(plan), blocks_text(plan.at("decisions")),
                      chunks_text(plan), precision_text(plan.at("precision")), plan.at("threads").get<int>());
  text += pin_text(plan) + cheap_text(plan.at("decisions")) + samples_text(plan);
  text += time_text(plan) + measured_text(plan) + floors_text(plan) + "\n";
  text += phase_table(predicted) + "\n" + process_table(predicted, plan.at("decisions")) + ranks_text(plan) +
          run_folder_text(plan) + written_text(plan) + "\n" + bounds_table(plan.at("bounds"), predicted);
  return text;
}

std::string refusing(const json& plan) {
  const json& infeasible = plan.at("infeasible");
  std::string text =
      fmt::format("E-PLAN-FIT  does not fit: needs {}, budget {} (short by {})\n", size(plan.at("bounds").at("floor_bytes")),
                  size(plan.at("budget").at("memory")), size(infeasible.at("short_bytes")));
  text += fmt::format("no plan can be smaller than {}\n", size(plan.at("bounds").at("floor_bound_bytes")));
  text += fmt::format("the smallest plan has its peak in phase '{}'; owners there:\n", infeasible.at("phase").get<std::string>());
  for (const json& owner : infeasible.at("owners")) {
    const json& line = owner.at("model_line");
    text += fmt::format("  {:<34}{:>12}{}\n", owner.at("name").get<std::string>(), size(owner.at("bytes")),
                        line.is_null() ? "" : "  " + line.get<std::string>());
  }
  return text;
}

std::string left_out_text(const json& plan) {
  if (!plan.contains("left_out") || plan.at("left_out").empty()) return "";
  const json& names = plan.at("left_out");
  std::string text;
  for (const json& name : names) text += "  " + name.get<std::string>() + "\n";
  return "not looked at, since planning them takes long or much memory:\n" + text;
}

}  // namespace

std::string block_mode(const json& block) {
  if (block.value("joined", false)) return "joined";
  return block.value("pieces", false) ? "pieces" : block.at("mode").get<std::string>();
}

std::map<std::string, int> blocks_by_mode(const json& decisions) {
  std::map<std::string, int> count;
  for (const json& block : decisions.at("recompute")) ++count[block_mode(block)];
  return count;
}

std::string verdict_text(const json& plan) {
  return solve_text(plan) + (plan.at("status") == "fits" ? fitting(plan) : refusing(plan));
}

std::string alternatives_text(const json& plan) {
  if (plan.at("status") == "fits") {
    return (plan.at("levers").empty() ? "" : "\n" + levers_table(plan)) + left_out_text(plan);
  }
  const json& remedies = plan.at("infeasible").at("remedies");
  return (remedies.empty() ? "" : remedies_text(remedies)) + left_out_text(plan) + "more: plimsoll explain E-PLAN-FIT\n";
}

std::string plan_summary(const json& plan) {
  const json& predicted = plan.at("predicted");
  const auto beside = [](const std::string& line) { return line.empty() ? line : "      " + line; };
  return fmt::format("plan: {} of {}; batch {}; blocks: {}; loss in {}\n      floor {}, knee {}, ceiling {}\n      {}",
                     size(predicted.at("process_bytes")), size(plan.at("budget").at("memory")), batch_text(plan),
                     blocks_text(plan.at("decisions")), chunks_text(plan), size(plan.at("bounds").at("floor_bytes")),
                     size(plan.at("bounds").at("knee_bytes")), size(plan.at("bounds").at("ceiling_bytes")), time_text(plan)) +
         beside(pin_text(plan)) + (plan.contains("epoch") ? beside(long_samples_text(plan.at("epoch"))) : "") +
         beside(samples_text(plan)) + beside(measured_text(plan)) + beside(floors_text(plan));
}

}  // namespace plimsoll
