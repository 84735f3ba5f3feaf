#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error_list.h"
#include "base/memory_limit.h"
#include "base/text.h"
#include "cli/advice.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/failure.h"
#include "cli/options.h"
#include "cli/ranks.h"
#include "cli/runs/options.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "measure/calibrate.h"

namespace plimsoll {
namespace {

// A command that has been added, and the configuration of its arguments, if it takes one.
struct Command {
  CLI::App* app;
  std::function<int()> run;
  const ConfigArguments* config = nullptr;
};

class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {}

  // Adds the options that several commands have as well: --audit and --json.
  template <class Arguments>
  void add(const char* name, const char* help, int (*run)(const Arguments&), void (*add_options)(CLI::App&, Arguments&),
           CLI::App* parent = nullptr) {
    const auto arguments = std::make_shared<Arguments>();
    Command command{(parent != nullptr ? parent : &app_)->add_subcommand(name, help), [=] { return run(*arguments); }};
    if constexpr (requires { arguments->config; }) command.config = &arguments->config;
    add_options(*command.app, *arguments);
    if constexpr (requires { arguments->audit; }) {
      command.app->add_flag("--audit", arguments->audit, "check every byte against the plan; needs 64 MiB more than the budget");
    }
    if constexpr (requires { arguments->json; }) {
      if (command.app->get_option_no_throw("--json") == nullptr) {
        command.app->add_flag("--json", arguments->json, "one JSON object on stdout");
      }
    }
    commands_.push_back(std::move(command));
  }

  CLI::App* add_group(const char* name, const char* help) {
    CLI::App* group = app_.add_subcommand(name, help);
    group->require_subcommand(1);
    return group;
  }

  const Command& parsed() const {
    return *std::ranges::find_if(commands_, [](const Command& each) { return each.app->parsed(); });
  }

 private:
  CLI::App& app_;
  std::vector<Command> commands_;
};

// All commands, in the order of the help.
void add_all(Commands& commands) {
  commands.add("plan", "show the memory and time that a training needs, by phase and kind of tensor, without training", run_plan,
               plan_options);
  commands.add("train", "plan, then train exactly by that plan", run_train, train_options);
  commands.add("launch", "start a training as several processes: plimsoll launch -n 2 train CONFIG", run_launch, launch_options);
  commands.add("profile", "the time and memory of an update: where they go, and one change that helps", run_profile,
               profile_options);
  commands.add("verify", "prove gradients, batches, plans and precision on this model and data; exit 7 if a check fails",
               run_verify, verify_options);
  commands.add("eval", "the loss of weights on data.validation, or on data.train where there is none", run_eval, eval_options);
  commands.add("generate", "continue a text, or talk", run_generate, generate_options);
  commands.add("forward", "compute the logits of given tokens", run_forward, forward_options);
  CLI::App* runs = commands.add_group("runs", "list, compare, note and remove runs");
  commands.add("ls", "the runs in a folder, with their state and losses", run_runs_list, list_options, runs);
  commands.add("show", "all facts of a run", run_runs_show, show_options, runs);
  commands.add("compare", "the settings, data, machine and plan in which runs differ, and their figures", run_runs_compare,
               compare_options, runs);
  commands.add("note", "write a note on a run", run_runs_note, note_options, runs);
  commands.add("rm", "remove a run: the files that it wrote, and nothing else", run_runs_remove, remove_options, runs);
  commands.add("watch", "follow a run from another terminal, over stops and resumes, until it is done", run_watch, watch_options);
  commands.add("report", "a page of a run to look at, or of several over each other: one HTML file", run_report, report_options);
  commands.add("merge", "take an adapter into its base: a folder of weights that needs no adapter", run_merge, merge_options);
  commands.add("export",
               "write a model as a GGUF file for llama.cpp and others, or the records of a run for TensorBoard and others",
               run_export, export_options);
  commands.add("tokenize", "the tokens of a text, or the text of tokens, by the tokenizer of a folder", run_tokenize,
               tokenize_options);
  commands.add("show", "rendered samples, with the tokens that are trained on marked", run_data_show, data_show_options,
               commands.add_group("data", "look at training data"));
  commands.add("layout", "addresses for buffers with known lifetimes", run_layout, layout_options);
  commands.add("recompute", "plan the recomputation of a training graph from a file", run_recompute, recompute_options);
  commands.add(
      "machine",
      "benchmark memory, links and kernels of this machine, so that plans show measured times; with CONFIG, its kernels as well",
      run_machine, machine_options);
  commands.add(
      "init",
      "print a commented configuration: plimsoll init gpt2, or for a model and data: plimsoll init FOLDER DATA > run.toml",
      run_init, init_options);
  commands.add("explain", "explain an error code, a word of a plan, or a tensor of a plan", run_explain, explain_options);
}

bool wants_json(int argc, char** argv) { return std::find(argv, argv + argc, std::string_view("--json")) != argv + argc; }

bool wants_json_log(int argc, char** argv) {
  bool wants = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--log-format") wants = next == "json";
    if (word.starts_with("--log-format=")) wants = word.ends_with("=json");
  }
  return wants;
}

Error usage_error(const std::string& command, std::string message, std::string near) {
  const std::string name = command.empty() ? "plimsoll" : "plimsoll " + command;
  Remedies remedies;
  if (!near.empty()) remedies.push_back(near);
  remedies.push_back(name + " --help");
  return config_error("E-USAGE", name, std::move(message), fmt::format("what `{} --help` lists", name), std::move(remedies));
}

// Refuses an unknown command and names the nearest one, which CLI11 does not.
void check_command(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string word = argc > 1 ? argv[1] : "";
  if (word.empty() || word[0] == '-' || std::ranges::find(names, word) != names.end()) return;
  const std::string nearest = nearest_name(word, names);
  throw usage_error("", fmt::format("there is no command '{}'; commands are {}", word, fmt::join(names, ", ")),
                    nearest.empty() ? "" : "plimsoll " + nearest);
}

// The option nearest to the first word that the command does not know.
std::string nearest_option(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.push_back(option->get_name());
  for (const std::string& word : command.remaining()) {
    if (const std::string nearest = nearest_name(word.substr(0, word.find('=')), names); !nearest.empty()) return nearest;
  }
  return "";
}

// The last value of a repeated option counts, in subcommands, too.
void let_last_win(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 1 && option->get_name() != "--set" && option->get_name() != "--at" &&
          option->get_name() != "--where") {
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
    }
    let_last_win(*command);
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Trains neural networks inside a stated number of bytes.", "plimsoll");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  Commands commands(app);
  add_all(commands);
  let_last_win(app);
  check_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto used = app.get_subcommands();
    throw usage_error(used.empty() ? "" : used[0]->get_name(), error.what(), used.empty() ? "" : nearest_option(*used[0]));
  }
  const Command& command = commands.parsed();
  const std::string name = command.app->get_name();
  if (name != "train" && name != "machine" && name != "launch") refuse_ranks(name);
  try {
    return command.run();
  } catch (Error& error) {
    if (command.config != nullptr) {
      complete_advice(error, *command.config);
      if (auto* list = dynamic_cast<ErrorList*>(&error)) {
        for (Error& other : list->others) complete_advice(other, *command.config);
      }
    } else if (command.app->get_name() != "init") {
      drop_data_advice(error);
    }
    throw;
  }
}

Error cannot_write(const char* why) {
  return data_error("E-IO-WRITE", "stdout", fmt::format("the output cannot be written: {}", why),
                    "a place that takes it, with free space");
}

// A failed write to stdout (a full disk, a closed descriptor) must not look like success.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  throw cannot_write(std::strerror(errno));
}

// Printing a result throws if stdout takes no more bytes.
Error named(const std::exception& error) {
  if (std::ferror(stdout) != 0) return cannot_write(error.what());
  return internal_error("plimsoll", error.what());
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::hold_standard_streams();
  plimsoll::prepare_environment(argv);
  plimsoll::settle_process();
  plimsoll::ignore_file_size_signal();
  if (plimsoll::wants_json_log(argc, argv)) plimsoll::log_as_json();
  try {
    plimsoll::limit_kernels();
    return plimsoll::flushed(plimsoll::parse_and_run(argc, argv));
  } catch (const plimsoll::Error& error) {
    return plimsoll::report_failure(error, plimsoll::wants_json(argc, argv));
  } catch (const std::bad_alloc&) {
    return plimsoll::report_failure(plimsoll::MemoryLimit::passed(), plimsoll::wants_json(argc, argv));
  } catch (const std::exception& error) {
    return plimsoll::report_failure(plimsoll::named(error), plimsoll::wants_json(argc, argv));
  }
}
