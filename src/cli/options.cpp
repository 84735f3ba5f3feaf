#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/disk_folder.h"
#include "base/error.h"
#include "cli/spelling.h"
#include "config/config_aliases.h"
#include "config/config_keys.h"
#include "device/machine_facts.h"
#include "formats/gguf/gguf_storage.h"
#include "settings/setting.h"

namespace plimsoll {
namespace {

constexpr const char* kFreeMemory = "95% of the free memory";
constexpr const char* kFileOrFree = "the file's, or else 95% of the free memory";

// `otherwise`: the memory budget that applies if none is given.
void add_budgets(CLI::App& command, Changes& changes, const std::string& otherwise) {
  const auto add = [&](const Change& example, const std::string& help) {
    const std::string option = option_of(example);
    const auto take = [&changes, example, option](const std::string& text) {
      if (text.find_first_not_of(" \t") == std::string::npos) {  // an unset variable of a script does not mean "no limit"
        throw config_error("E-CONFIG-SIZE", option, "it is empty", "a size; leave the option out where there is no budget",
                           {example});
      }
      changes.emplace_back(example.key, text);
    };
    command.add_option_function<std::string>(option, take, help)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  add({"memory.budget", "2GiB"},
      "bytes of the whole process: 512MiB, 2GiB, 50% of this machine's, 1500000000 (default: " + otherwise + ")");
  add({"memory.host_memory", "2GiB"}, "limit of host memory, if kernels run on a device (--device cuda or sim)");
  add(advised_disk("4GiB"), "folder and bytes of disk: PATH:SIZE");
}

void add_sets(CLI::App& command, Changes& changes, const std::string& help) {
  const auto take = [&changes](const std::vector<std::string>& sets) {
    for (const std::string& set : sets) {
      changes.push_back(read_change(set));
      changes.back().option = "--set";
    }
  };
  command.add_option_function<std::vector<std::string>>("--set", take, help)->allow_extra_args(false);
}

CLI::Option* add_config_file(CLI::App& command, ConfigArguments& config) {
  add_sets(command, config.changes, "a key of the configuration: --set train.updates=50, --set 'optimizer.betas=[0.9,0.95]'");
  return command.add_option("CONFIG", config.file, "a TOML file; `plimsoll init` writes one");
}

// The last change of a key wins, and changes come in the order of these calls: a budget's own option wins over --set.
CLI::Option* add_config(CLI::App& command, ConfigArguments& config) {
  CLI::Option* file = add_config_file(command, config);
  add_budgets(command, config.changes, kFileOrFree);
  return file;
}

void add_device(CLI::App& command, ConfigArguments& config) {
  command.add_option_function<std::string>(
      "--device", [&config](const std::string& name) { config.changes.emplace_back("machine.device", name); },
      "cpu, cuda (a GPU) or sim (simulates a GPU with a part of the RAM)");
  command.add_flag_callback(
      "--unverified", [&config] { config.changes.emplace_back("machine.unverified", "true"); },
      "use a device whose tests have not all passed yet");
}

// The names of other programs, by key.
std::string aliases_footer() {
  std::string text = "Aliases from Hugging Face, DeepSpeed and others work in the file and in --set:\n";
  for (const ConfigKey& key : config_keys()) {
    std::vector<std::string_view> names;
    for (const ConfigAlias& alias : config_aliases()) {
      if (alias.key == key.name) names.push_back(alias.name);
    }
    if (!names.empty()) text += fmt::format("  {}: {}\n", key.name, fmt::join(names, ", "));
  }
  return text;
}

// An option that compares two files. It excludes all options that the command has so far; the returned check refuses them.
std::function<void()> add_comparison(CLI::App& command, const std::string& name, std::vector<std::string>& files,
                                     const std::string& help) {
  const auto others = command.get_options([](const CLI::Option* option) { return option->get_name() != "--help"; });
  command.add_option(name, files, help)
      ->expected(2)
      ->type_name("A.json B.json")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return [name, &files, others] {
    if (files.size() == 1) throw CLI::ArgumentMismatch(name + ": two files are compared");
    for (const CLI::Option* other : others) {
      if (!files.empty() && other->count() > 0) throw CLI::ExcludesError(name, other->get_name());
    }
  };
}

struct WeightsOptions {
  CLI::Option *weights, *adapter;

  bool given() const { return weights->count() + adapter->count() > 0; }
};

WeightsOptions add_weights(CLI::App& command, std::string& weights, std::string& adapter) {
  const WeightsOptions options{
      command.add_option("--weights", weights, "a folder of weights, a GGUF file, or the folder of a run"),
      command.add_option(
          "--adapter", adapter,
          "a folder of an adapter, or of its run; it names its base; --weights gives the new place of a moved base")};
  command.final_callback([options] {
    if (!options.given()) throw CLI::RequiredError("--weights or --adapter");
  });
  return options;
}

void add_inference(CLI::App& command, InferenceArguments& a) {
  add_budgets(command, a.changes, kFreeMemory);
  add_weights(command, a.weights, a.adapter);
  add_sets(command, a.changes, "--set quantize.base=nf4 (or int8, bf16, file): how linear layers are stored in memory");
  command.add_option("--threads", a.threads, "0 (the default): all usable cores")->check(CLI::Range(0, kMaxThreads));
}

void add_chat(CLI::App& generate, GenerateArguments& a) {
  CLI::Option* chat = generate.add_flag(
      "--chat", a.chat, "talk: each line of stdin, or each --prompt, is a turn, rendered by the model's chat template");
  generate.add_option("--system", a.system, "with --chat: a system turn before all others")->needs(chat);
  generate.add_option("--template", a.chat_template, "with --chat: a template file instead of the model's own")->needs(chat);
  generate
      .add_option("--context", a.context,
                  "with --chat: tokens of the whole conversation; the oldest turns are left out if it grows larger (default: up "
                  "to 4096, as the model and the memory allow)")
      ->needs(chat);
}

constexpr int kMostRanks = 4096;

}  // namespace

void plan_options(CLI::App& command, PlanArguments& a) {
  add_config(command, a.config);
  add_device(command, a.config);
  command.footer(aliases_footer());
  command.add_option("--machine", a.machine,
                     "plan for the machine of this file (machines/*, or the output of `machine --json`), or for `sim`");
  command.add_option("--out", a.out, "write the plan here, for train --plan");
  CLI::Option* ranks =
      command.add_option("--ranks", a.ranks, "plan for this many processes that train together (plimsoll launch)")
          ->check(CLI::Range(1, kMostRanks));
  command.add_option("--rank", a.rank, "show the plan of this rank, counted from 0 (default: the fullest)")
      ->needs(ranks)
      ->check(CLI::Range(0, kMostRanks - 1));
  command.add_flag("--values", a.values, "list every tensor of the plan; with --out, only in that file");
  CLI::Option* frontier =
      command.add_flag("--frontier", a.frontier, "show update time against the budget, as a table and a plot");
  command.add_option("--at", a.at, "a budget that the frontier has to show; may be given several times")
      ->needs(frontier)
      ->allow_extra_args(false);
  command.add_option("--svg", a.svg, "draw the frontier into this file")->needs(frontier);
  CLI::Option* instance = command.add_option("--export-instance", a.instance,
                                             "write graph, costs and this plan here, for other planners (instances/README.md)");
  command
      .add_option("--solve", a.solve,
                  "the largest value that fits of context, micro_batch, effective_batch, rank or a size of the model "
                  "(layers, width, ...), or the least of memory, host_memory, disk or ranks")
      ->excludes(frontier)
      ->excludes(instance);
  const auto check = add_comparison(command, "--diff", a.diff, "the differences between the plans of two files that --out wrote");
  command.final_callback([&a, check] {
    if (a.config.file.empty() && a.diff.empty()) throw CLI::RequiredError("CONFIG");
    check();
  });
}

void train_options(CLI::App& command, TrainArguments& a) {
  add_config(command, a.config);
  add_device(command, a.config);
  command.footer(aliases_footer());
  command.add_option("--run", a.run, "folder of the run, new unless --resume (default: runs/<date>-<hash>)");
  command.add_option("--plan", a.plan, "train with the plan in this file, from plan --out");
  command.add_option("--updates", a.updates, "stop after this many updates in all; the schedule still ends at train.updates")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 36));
  command.add_flag("--resume", a.resume,
                   "continue the run in --run from its checkpoint, with its own settings; CONFIG may be left out");
  command.add_option(
      "--from", a.from,
      "begin a new run with the state of another: RUN (its newest checkpoint) or RUN/UPDATE; the configuration may "
      "change all but the parameters and the optimizer");
  command.add_option(
      "--checkpoint", a.checkpoint,
      "with --resume: last, best (of the best evaluation) or the update of a checkpoint; later ones are set aside");
  command.add_flag("--force", a.force,
                   "with --resume: accept changed settings that change the result (seed, data order and format, precision)");
  command.add_flag("--json", a.json, "print run.json at the end");
  command.add_option("--log-format", a.log_format, "text, or json: progress, events and errors on stderr, one object a line")
      ->check(CLI::IsMember({"text", "json"}));
  command.add_option("--fault", a.fault, "a defect for verify")->group("");  // hidden
  command.final_callback([&a] {
    if (a.config.file.empty() && !a.resume) throw CLI::RequiredError("CONFIG");
  });
}

void profile_options(CLI::App& command, ProfileArguments& a) {
  add_config(command, a.config);
  add_device(command, a.config);
  command.add_option("--run", a.run, "a run instead of CONFIG: its settings, and the state of its newest checkpoint");
  command.add_option("--updates", a.updates, "updates to measure, after a first one (default: 5)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  command.add_option("--trace", a.trace, "write the last update here, for ui.perfetto.dev and chrome://tracing");
  const auto check = add_comparison(command, "--compare", a.compare,
                                    "the ops, waits and owners by which two profiles differ, from files of --json");
  command.final_callback([&a, check] {
    check();
    if (!a.config.file.empty() && !a.run.empty()) throw CLI::ExcludesError("--run", "CONFIG");
    if (a.config.file.empty() && a.run.empty() && a.compare.empty()) throw CLI::RequiredError("CONFIG or --run");
  });
}

void launch_options(CLI::App& command, LaunchArguments& a) {
  command.add_option("-n", a.count, "the number of processes")->required()->check(CLI::Range(1, kMostRanks));
  command.add_option("--hosts", a.hosts, "a file with a host per line, as mpirun's --hostfile (default: this host)");
  command.prefix_command();
  command.footer("train ... or machine ... comes after these options.");
  command.callback([&command, &a] { a.words = command.remaining(); });
}

void verify_options(CLI::App& command, VerifyArguments& a) {
  add_config(command, a.config)->required();
  add_device(command, a.config);
  command.add_option("--ranks", a.ranks, "compare the training of this many processes (plimsoll launch) with that of one")
      ->check(CLI::Range(2, kMostRanks));
  command.add_option("--folder", a.folder,
                     "keep the test runs and their data here, so that you can repeat the commands that --json prints (default: a "
                     "temporary folder)");
}

void tokenize_options(CLI::App& command, TokenizeArguments& a) {
  command
      .add_option(
          "--tokenizer", a.tokenizer,
          "a folder with tokenizer.json, or with vocab.json and merges.txt; the file tokenizer.json itself; or a GGUF file")
      ->required();
  CLI::Option* text = command.add_option("TEXT", a.text, "a text; with --decode, ids of tokens separated by spaces");
  CLI::Option* file = command.add_option("--file", a.file, "the text, or the ids, of this file")->excludes(text);
  CLI::Option* decode = command.add_flag("--decode", a.decode, "from tokens to text; special tokens are left out");
  command.add_flag("--no-special", a.no_special, "without the tokens that the tokenizer puts before and after a text")
      ->excludes(decode);
  command.add_flag("--keep-special", a.keep_special, "with --decode: the text of special tokens, too")->needs(decode);
  command.final_callback([text, file] {
    if (text->count() + file->count() == 0) throw CLI::RequiredError("TEXT or --file");
  });
}

void merge_options(CLI::App& command, MergeArguments& a) {
  command.add_option("--weights", a.weights, "the base (default: the one that the adapter names)");
  command.add_option("--adapter", a.adapter, "a folder of an adapter, or of its run")->required();
  command.add_option("--out", a.out, "the new folder")->required();
  command.add_option("--type", a.type, "fp32, bf16 or fp16 (default: the type of each tensor of the base; bf16 for blocks)");
  add_sets(command, a.changes, "--set quantize.base=nf4 (or int8, bf16): merge into the quantised matrices of such a training");
}

void export_options(CLI::App& command, ExportArguments& a) {
  CLI::Option* run = command.add_option("RUN", a.run, "the folder of a run whose records are written for other programs");
  CLI::Option* board =
      command.add_option("--tensorboard", a.tensorboard, "with RUN: TensorBoard's event files in this folder")->needs(run);
  CLI::Option* csv =
      command.add_option("--csv", a.csv, "with RUN: metrics.csv, evaluations.csv and events.csv in this folder")->needs(run);
  command.add_flag("--follow", a.follow, "with RUN: go on while the run lives, and after its resumes, until it is done")
      ->needs(run);
  const WeightsOptions weights = add_weights(command, a.weights, a.adapter);
  CLI::Option* gguf = command.add_option("--gguf", a.gguf, "the file; with --adapter it holds the adapter alone");
  CLI::Option* type = command.add_option("--type", a.type,
                                         "the type of matrices: " + written_gguf_formats() +
                                             "; vectors and position embeddings are F32 (an adapter in F32 loses nothing)");
  command.final_callback([=] {
    if (run->count() > 0) {
      if (board->count() + csv->count() != 1) throw CLI::RequiredError("one of --tensorboard and --csv");
      for (const CLI::Option* other : {weights.weights, weights.adapter, gguf, type}) {
        if (other->count() > 0) throw CLI::ExcludesError("RUN", other->get_name());
      }
    } else {
      if (!weights.given()) throw CLI::RequiredError("RUN, --weights or --adapter");
      if (gguf->count() == 0) throw CLI::RequiredError("--gguf");
      if (type->count() == 0) throw CLI::RequiredError("--type");
    }
  });
}

void report_options(CLI::App& command, ReportArguments& a) {
  command.add_option("RUN", a.runs, "the folders of one run or more")->required()->expected(1, 1000);
  command.add_option("--out", a.out, "the page (default: report.html in the folder of the run)");
}

void watch_options(CLI::App& command, WatchArguments& a) { command.add_option("RUN", a.run, "the folder of a run")->required(); }

void data_show_options(CLI::App& command, DataShowArguments& a) {
  add_config(command, a.config)->required();
  command.add_option("--samples", a.samples, "the number of samples (default: 3)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
}

void eval_options(CLI::App& command, EvalArguments& a) {
  add_config(command, a.config)->required();
  add_weights(command, a.weights, a.adapter);
}

void generate_options(CLI::App& command, GenerateArguments& a) {
  add_inference(command, a);
  command
      .add_option("--prompt", a.prompts,
                  "text to continue; repeat it to run several prompts as one batch, or with --chat as one turn after the other")
      ->allow_extra_args(false);
  command.add_option("--tokens", a.tokens, "the most tokens to generate (default: 200; with --chat 512 for each answer)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  add_chat(command, a);
  command.add_option("--temperature", a.temperature, "0: greedy (default: 0.8)");
  command.add_option("--top-k", a.top_k, "sample only from the K likeliest tokens (default: all)")
      ->check(CLI::Range(std::numeric_limits<std::int64_t>::max()));
  command.add_option("--top-p", a.top_p, "sample only from the likeliest tokens whose probabilities add up to P (default: 1)");
  command.add_option("--seed", a.seed, "random seed of the sampling (default: 1)")->check([](const std::string& text) {
    std::uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole ? std::string() : "a whole number from 0 to 2^64 - 1, not " + text;
  });
  command.add_flag("--ignore-eos", a.ignore_end, "continue past end tokens (eos_token_id)");
}

void forward_options(CLI::App& command, ForwardArguments& a) {
  add_inference(command, a);
  command.add_option("--inputs", a.inputs, "safetensors: input_ids [batch, tokens] (i32 or i64), perhaps attention_mask")
      ->required();
  command.add_option("--out", a.out, "safetensors: logits f32 [batch, tokens, vocab]")->required();
}

void layout_options(CLI::App& command, LayoutArguments& a) {
  command.add_option("FILE", a.file, "CSV with the columns id, lower, upper, size: a buffer is live from lower to before upper")
      ->required();
  command.add_option("--capacity", a.capacity, "fit into this number of bytes, or fail with exit 3");
  command.add_flag("--minimize", a.minimize,
                   "minimize the height; without --work-limit, stop when it is proven optimal or hardly improves");
  command.add_option("--out", a.out, "write the CSV with offsets here");
  command.add_option("--work-limit", a.work_limit, "stop after this number of search nodes")
      ->check(CLI::Range(std::numeric_limits<std::int64_t>::max()));
}

void recompute_options(CLI::App& command, RecomputeArguments& a) {
  command.add_option("FILE", a.file, "an instance, as plan --export-instance writes it")->required();
  command.add_option("--memory", a.memory, "fit into this number of bytes, parameters included")->required();
  command.add_option("--out", a.out, "write the answer here");
  command.add_option("--work-limit", a.work, "search limit N: at most N schedules and N million visited values")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
}

void machine_options(CLI::App& command, MachineArguments& a) {
  add_config_file(command, a.config);
  add_device(command, a.config);
}

void init_options(CLI::App& command, InitArguments& a) {
  command.add_option("PRESET|FOLDER", a.what,
                     "gpt2, gpt2-medium, gpt2-large, gpt2-xl, byte-10m, byte-3m; or a Hugging Face folder or GGUF file");
  command.add_option("DATA", a.data, "files, patterns or folders of JSON samples, text or tokens to train that model on");
  add_sets(command, a.changes, "with DATA: a key of the data: --set data.template=FILE, --set data.format=chat");
  add_budgets(command, a.budgets, "the machine's memory");
}

void explain_options(CLI::App& command, ExplainArguments& a) {
  command.add_option("WHAT", a.what, "E-CODE, a word (knee, floor, time bound, ...), or the name or id of a tensor")
      ->required()
      ->expected(1, 4);
  command.add_option("--plan", a.plan, "the file of `plan --out` that holds the tensor");
}

}  // namespace plimsoll
